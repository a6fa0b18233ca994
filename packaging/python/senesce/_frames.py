"""Rows as a frame of the library that the caller has."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Sequence

Library = Literal["pandas", "polars", "arrow", "rows"]
Rows = List[Dict[str, Any]]


def frame(rows: Rows, columns: Sequence[str], library: Library) -> Any:
    """The rows with these columns, also if there are none."""
    if library == "rows":
        return [{name: row.get(name) for name in columns} for row in rows]
    by_column = {name: [row.get(name) for row in rows] for name in columns}
    if library == "pandas":
        import pandas  # type: ignore[import-untyped,unused-ignore]

        return pandas.DataFrame(by_column, columns=list(columns))
    if library == "polars":
        import polars

        return polars.DataFrame(by_column, strict=False)
    if library == "arrow":
        import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]

        return pyarrow.table(by_column)
    raise ValueError(f"library is pandas, polars, arrow or rows, not {library!r}")
