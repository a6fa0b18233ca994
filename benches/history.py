#!/usr/bin/env python3
"""How long `senesce runs history` takes over many runs: benches/history.py SENESCE [RUNS] [FOLDER]

Makes records as `import hyperfine` and `bench` leave them: one real import and the environment of a real run are written out RUNS times
(10,000 unless said) under 20 settings, each run an hour after the one before, with values of its own and their checksums. Then the list, the
courses and the page are timed three times each, in turn; wall and processor seconds are printed as a Markdown table.
"""
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from datetime import datetime, timedelta, timezone
from pathlib import Path

SETTINGS = 20
VALUES = 5
TIMES = 3


def made_once(program, room):
    """A real import, and the environment of a real run."""
    result = {"results": [{"command": "c", "mean": 1.0, "min": 1.0, "max": 1.0, "times": [1.0] * VALUES}]}
    (room / "one.json").write_text(json.dumps(result))
    subprocess.run([program, "runs", "import", "hyperfine", "one.json", "--out", "one"], cwd=room, check=True)
    bench = [program, "bench", "./target", "append", "--create", "--sizes", "4K", "--reps", "1", "--out", "bench"]
    subprocess.run(bench, cwd=room, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return room / "one", json.loads((room / "bench/env.json").read_text())


def crc(text):
    return f"{zlib.crc32(text.encode()):08x}"


def lines(events):
    """Every checksum continues the one of the line before."""
    found, checksum = [], 0
    for event in events:
        body = json.dumps(event, separators=(",", ":"))
        checksum = zlib.crc32(body.encode(), checksum)
        found.append(f'{{"crc":"{checksum:08x}","event":{body}}}\n')
    return "".join(found)


def write(run, number, one, environment, plan):
    setting = number % SETTINGS
    level = 1.1 if number > 6000 and setting == 0 else 1.0
    rng = random.Random(number)
    values = []
    for repetition in range(VALUES):
        values.append({
            "metric": "time", "unit": "s", "better": "Lower", "condition": {"command": f"make {setting}"}, "image": 0,
            "repetition": repetition, "primary": True, "value": level * rng.gauss(1.0, 0.02),
        })
    run.mkdir(parents=True)
    for name in ("format", "lock"):
        (run / name).write_bytes((one / name).read_bytes())
    (run / "histograms").mkdir()
    plan = plan.replace('source = "one.json"', f'source = "make-{setting}.json"')
    (run / "plan.toml").write_text(plan)
    date = datetime(2025, 1, 1, tzinfo=timezone.utc) + timedelta(hours=number)
    facts = dict(environment, **{"run.date": date.strftime("%Y-%m-%dT%H:%M:%SZ"), "machine.host": f"builder{setting % 4}"})
    environment = json.dumps(facts, indent=2)
    (run / "env.json").write_text(environment)
    identity = {"run": f"{number:032x}", "plan": crc(plan), "environment": [crc(environment)]}
    events = [{"t": 0.1, "kind": "measurement", "data": value, "more": True} for value in values]
    del events[-1]["more"]
    events.insert(0, {"t": 0.0, "kind": "identity", "data": identity})
    summary = json.dumps({"format": "hyperfine", "source": f"make-{setting}.json", "values": values}, indent=2)
    (run / "summary.json").write_text(summary)
    ended = {"file": "summary.json", "bytes": len(summary), "crc": crc(summary)}
    events.append({"t": 0.2, "kind": "checksum", "data": ended})
    (run / "events.jsonl").write_text(lines(events))


def timed(command, room):
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=room, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    program, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as folder:
        room = Path(folder)
        one, environment = made_once(program, room)
        plan = (one / "plan.toml").read_text()
        for number in range(count):
            write(room / "runs" / f"night-{number // 100:03}" / f"run-{number:05}", number, one, environment, plan)
        commands = {
            "list": [program, "runs", "history", "runs"],
            "list as JSON": [program, "runs", "history", "runs", "--json"],
            "courses (`--trend`)": [program, "runs", "history", "runs", "--trend"],
            "page (`--html`)": [program, "runs", "history", "runs", "--html", "history.html"],
        }
        found = {name: [] for name in commands}
        for _ in range(TIMES):
            for name, command in commands.items():
                found[name].append(timed(command, room))
        print(f"| {count} runs | wall (s), least of {TIMES} | processor (s), least |\n|---|---|---|")
        for name, values in found.items():
            wall, processor = (min(column) for column in zip(*values))
            print(f"| {name} | {wall:.2f} | {processor:.2f} |")


if __name__ == "__main__":
    main()
