#!/usr/bin/env python3
"""How often a study tells like from like: benches/study_aa.py SENESCE [STUDIES] [MINUTES]

Runs STUDIES studies (20 unless said) of ext4 against ext4 on this machine, fresh, under two workloads, with the default repetitions and a seed
of its own each, until MINUTES (12 unless said) are over. A study that calls either of the two better or worse is a false alarm: 3 of 20 are
the most that are allowed. Needs root. Prints a Markdown table; exit code 1 when there are more.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_ALARMS = 3 / 20

STUDY = """
name = "like against like"
size = "64M"
seed = {seed}
[[file_system]]
kind = "ext4"
name = "a"
[[file_system]]
kind = "ext4"
name = "b"
[[state]]
kind = "fresh"
[[workload]]
ready = "fsync-log"
scale = 0.1
[[workload]]
personality = "webserver"
scale = 0.02
seconds = 0.3
"""


def study(program, room, seed):
    file = room / "study.toml"
    file.write_text(STUDY.format(seed=seed))
    command = [program, "study", file.name, "--out", f"run-{seed}", "--json"]
    begun = time.monotonic()
    ended = subprocess.run(command, cwd=room, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"study {seed} ended with {ended.returncode}: {ended.stderr}")
    return json.loads(ended.stdout)["pairs"], time.monotonic() - begun


def main():
    program = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    minutes = float(sys.argv[3]) if len(sys.argv) > 3 else 12.0
    begun, studies, alarms = time.monotonic(), 0, 0
    print("| study | fsync-log: a over b | webserver: a over b | seconds | load |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, count + 1):
            pairs, seconds = study(program, Path(folder), seed)
            cells = [f"{pair['ratio']:.3f} ({pair['low']:.3f} to {pair['high']:.3f}) {pair['verdict']}" for pair in pairs]
            print(f"| {seed} | {' | '.join(cells)} | {seconds:.0f} | {os.getloadavg()[0]:.1f} |", flush=True)
            studies += 1
            alarms += any(pair["verdict"] in ("better", "worse") for pair in pairs)
            if time.monotonic() - begun > minutes * 60:
                break
    print(f"\n{alarms} of {studies} studies tell like from like.")
    sys.exit(1 if alarms > MOST_ALARMS * studies else 0)


if __name__ == "__main__":
    main()
