"""A run directory, read without the program.

``events.jsonl`` has lines ``{"crc":"XXXXXXXX","event":BODY}``; the sum is CRC-32 (IEEE) of the bytes of BODY, continued
from the sum of the line before. Events that count together or not at all have ``"more":true`` but for the last of them.
The first event, of kind ``identity``, names the run, and has the CRC-32 of ``plan.toml`` and ``env.json``. Events of kind
``checksum`` have those of the other files; the one of ``summary.json`` ends a complete run.
"""

from __future__ import annotations

import json
import sys
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,no-redef,unused-ignore]

_HEAD = len('{"crc":"XXXXXXXX","event":')


class BadRecord(Exception):
    """The directory is no record, or its events were changed."""


@dataclass(frozen=True)
class Event:
    """One event: seconds since its part of the run began, its kind, its data."""

    t: float
    kind: str
    data: Any


class Record:
    """One run directory. Nothing is read before it is asked for."""

    def __init__(self, path: Union[str, Path]) -> None:
        self.path = Path(path)
        if not (self.path / "plan.toml").is_file():
            raise BadRecord(f"{self.path} is no run directory: it has no plan.toml")

    @cached_property
    def plan(self) -> Dict[str, Any]:
        """What was asked for: kind, seed, spec, steps, command, program_version."""
        return tomllib.loads((self.path / "plan.toml").read_text(encoding="utf-8"))

    @cached_property
    def environment(self) -> Dict[str, Any]:
        """Where it ran: facts by dotted name."""
        return dict(json.loads((self.path / "env.json").read_text(encoding="utf-8")))

    @cached_property
    def summary(self) -> Optional[Any]:
        """The result; None while the run is not complete."""
        file = self.path / "summary.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    @property
    def is_complete(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / "summary.json").exists()

    @cached_property
    def events(self) -> List[Event]:
        """What happened, in order. A torn last line is dropped, as after kill -9, with those before it that belong to it."""
        lines = (self.path / "events.jsonl").read_bytes().split(b"\n")
        lines.pop()  # After the last newline there is nothing, or what was being written.
        read, checksum = [], 0
        for number, line in enumerate(lines, start=1):
            event, more, checksum = _event(line, checksum, self.path, number)
            read.append((event, more))
        while read and read[-1][1]:
            read.pop()
        events = [event for event, _ in read]
        if self.is_complete and not self._is_whole(events):
            raise BadRecord(f"{self.path}/events.jsonl: its end does not fit summary.json; a file was changed")
        return events

    def _is_whole(self, events: List[Event]) -> bool:
        """Whether the events end with the checksum of the summary."""
        summary = f"{zlib.crc32((self.path / 'summary.json').read_bytes()):08x}"
        for event in reversed(events):
            if event.kind == "checksum" and event.data["file"] == "summary.json":
                return bool(event.data["crc"] == summary)
            if event.kind not in ("checksum", "identity"):
                return False
        return False

    def of_kind(self, kind: str) -> List[Event]:
        """The events of one kind."""
        return [event for event in self.events if event.kind == kind]


def _event(line: bytes, before: int, path: Path, number: int) -> Tuple[Event, bool, int]:
    """An event, whether more belong to it, and the checksum, which continues the one ``before``."""
    body = line[_HEAD:-1]
    try:
        stated = json.loads(line)["crc"]
        event = json.loads(body)
    except (ValueError, KeyError, TypeError) as error:
        raise BadRecord(f"{path}/events.jsonl, line {number}: it is no event") from error
    checksum = zlib.crc32(body, before)
    if f"{checksum:08x}" != stated:
        raise BadRecord(f"{path}/events.jsonl, line {number}: its checksum does not fit; the file was changed")
    return Event(event["t"], event["kind"], event.get("data")), event.get("more", False), checksum
