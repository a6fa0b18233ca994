"""Where the program is, and running it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence, Union

Word = Union[str, "os.PathLike[str]", int, float]


@dataclass(frozen=True)
class Finished:
    """What the program printed, and its exit code (0 done, 1 negative verdict)."""

    exit_code: int
    output: str
    messages: str


class Failed(Exception):
    """The program ended with an exit code that was not asked for."""

    def __init__(self, words: Sequence[str], finished: Finished) -> None:
        lines = finished.messages.strip().splitlines()
        said = lines[-1] if lines else "it said nothing"
        super().__init__(f"senesce {' '.join(words)}: exit code {finished.exit_code}: {said}")
        self.finished = finished


def program() -> str:
    """The path of the program: ``$SENESCE``, else the one of this package, else the one on the path."""
    named = os.environ.get("SENESCE")
    if named:
        return named
    folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent), str(Path.home() / ".local/bin")]
    found = shutil.which("senesce", path=os.pathsep.join(folders)) or shutil.which("senesce")
    if found is None:
        raise FileNotFoundError("the program senesce is not installed; pip install senesce, or set SENESCE to its path")
    return found


def run(*words: Word, cwd: Optional[Word] = None, allow: Sequence[int] = (0,)) -> Finished:
    """Runs ``senesce WORDS``, for example ``run("age", target, "--size", "1G")``.

    Raises ``Failed`` if the exit code is not in ``allow``. The program's progress display is off.
    """
    texts = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in words]
    folder = None if cwd is None else str(cwd)
    ended = subprocess.run([program(), "--quiet", *texts], cwd=folder, capture_output=True, text=True, check=False)
    finished = Finished(ended.returncode, ended.stdout, ended.stderr)
    if finished.exit_code not in allow:
        raise Failed(texts, finished)
    return finished
