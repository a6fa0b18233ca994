"""Tables of runs. Measured values and claims come from ``senesce report --format json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterable, List, Union

from ._frames import Library, Rows, frame
from ._program import run as run_program
from ._record import Record

Run = Union[str, Path]
_SCHEMA = "senesce-export/1"
_MEASUREMENTS = (
    "run", "kind", "version", "seed", "complete", "metric", "unit", "better", "condition", "image", "repetition", "value",
)
_CLAIMS = ("run", "claim", "published", "measured", "verdict", "note")
_HISTORY = ("run", "kind", "seed", "version", "complete", "command", "begun")


def result(run: Run) -> Any:
    """The result of a run, as ``senesce report --format json`` has it."""
    return _exported(run)[0]["result"]


def measurements(runs: Union[Run, Iterable[Run]], library: Library = "pandas") -> Any:
    """Every measured value of these runs, one row each; a value that does not exist is missing."""
    rows: Rows = [row for one in _exported(runs) for row in one["measurements"]]
    return frame(rows, _MEASUREMENTS, library)


def claims(runs: Union[Run, Iterable[Run]], library: Library = "pandas") -> Any:
    """What was published about what these runs repeat, and whether it was seen."""
    rows: Rows = [{"run": one["run"], **finding} for one in _exported(runs) for finding in one["findings"]]
    return frame(rows, _CLAIMS, library)


def history(folder: Run = "senesce-runs", library: Library = "pandas") -> Any:
    """The runs in a folder, oldest first; ``begun`` is the time of their plans in seconds since 1970."""
    paths = sorted(Path(folder).glob("*/plan.toml"), key=lambda path: (path.stat().st_mtime, path))
    return frame([_row(Record(path.parent), path.stat().st_mtime) for path in paths], _HISTORY, library)


def _row(record: Record, begun: float) -> "dict[str, Any]":
    plan = record.plan
    return {
        "run": str(record.path), "kind": plan.get("kind"), "seed": plan.get("seed"),
        "version": plan.get("program_version"), "complete": record.is_complete, "command": plan.get("command"),
        "begun": begun,
    }


def _exported(runs: Union[Run, Iterable[Run]]) -> "List[dict[str, Any]]":
    paths = [runs] if isinstance(runs, (str, Path)) else list(runs)
    if not paths:
        return []
    document = json.loads(run_program("report", *paths, "--format", "json").output)
    if document.get("schema") != _SCHEMA:
        raise ValueError(f"this module reads {_SCHEMA} and the program wrote {document.get('schema')}")
    return list(document["runs"])
