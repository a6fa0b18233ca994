"""The module against the real program ($SENESCE, or the one that is installed) on a simulated drive."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import senesce

JOB = ("zoned", "measure", "sim:zn540", "--op", "write", "--time", "1ms")


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    room = tmp_path_factory.mktemp("runs")
    senesce.run(*JOB, "--out", room / "one")
    senesce.run(*JOB, "--seed", 7, "--out", room / "two")
    return room


def test_a_record_reads_without_the_program(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENESCE", "/nonexistent")
    record = senesce.Record(done / "one")
    assert record.plan["kind"] == "zoned-measure"
    assert record.is_complete and record.summary is not None
    assert record.environment["cpu.count"] >= 1
    assert record.events and all(event.t >= 0 for event in record.events)


def test_a_torn_event_is_dropped_and_a_changed_one_refused(done: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(done / "one", copy)
    events = copy / "events.jsonl"
    whole = events.read_bytes()
    count = len(senesce.Record(copy).events)
    events.write_bytes(whole[:-3])
    with pytest.raises(senesce.BadRecord, match="its end"):
        senesce.Record(copy).events
    (copy / "summary.json").unlink()
    assert len(senesce.Record(copy).events) == count - 1
    first, second, rest = whole.split(b"\n", 2)
    for lines in [(second, rest), (first, rest), (second, first, rest), (first, first, second, rest)]:
        events.write_bytes(b"\n".join(lines))
        with pytest.raises(senesce.BadRecord, match="checksum"):
            senesce.Record(copy).events
    events.write_bytes(whole.replace(b'"kind":"', b'"kind":"x', 1))
    with pytest.raises(senesce.BadRecord, match="line 1: its checksum"):
        senesce.Record(copy).events
    with pytest.raises(senesce.BadRecord, match="no run directory"):
        senesce.Record(tmp_path)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow", "rows"])
def test_measured_values_are_those_of_the_export(done: Path, library: senesce.Library) -> None:
    runs = [done / "one", done / "two"]
    frame = senesce.measurements(runs, library=library)
    if library == "rows":
        rows = frame
    elif library == "pandas":
        rows = frame.to_dict("records")
    else:
        rows = frame.to_dicts() if library == "polars" else frame.to_pylist()
    exported = json.loads(senesce.run("report", *runs, "--format", "json").output)["runs"]
    assert [row["value"] for row in rows] == [row["value"] for run in exported for row in run["measurements"]]
    assert {row["run"] for row in rows} == {"one", "two"}


def test_history_results_and_claims(done: Path) -> None:
    rows = senesce.history(done, library="rows")
    assert [(Path(row["run"]).name, row["kind"], row["complete"]) for row in rows] == [
        ("one", "zoned-measure", True), ("two", "zoned-measure", True),
    ]
    document = json.loads(senesce.run("report", done / "one", "--format", "json").output)
    assert senesce.result(done / "one") == document["runs"][0]["result"]
    assert senesce.claims(done / "one", library="rows") == []
    assert senesce.measurements([], library="rows") == []


def test_a_failure_says_what_the_program_said(tmp_path: Path) -> None:
    with pytest.raises(senesce.Failed, match="exit code 2: .*nowhere") as raised:
        senesce.run("report", tmp_path / "nowhere")
    assert raised.value.finished.exit_code == 2
    assert senesce.run("report", tmp_path / "nowhere", allow=[2]).exit_code == 2
