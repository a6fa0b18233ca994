"""Runs the program senesce and reads what it recorded.

Frames are tidy: one row for each value. Nothing is drawn here.
"""

from ._frames import Library, Rows
from ._program import Failed, Finished, program, run
from ._record import BadRecord, Event, Record
from ._tables import claims, history, measurements, result

__all__ = [
    "BadRecord", "Event", "Failed", "Finished", "Library", "Record", "Rows",
    "claims", "history", "measurements", "program", "result", "run",
]
