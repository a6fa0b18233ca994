#!/usr/bin/env python3
"""The plan of `senesce diagnose --try`, carried out on the original: benches/prognosis_plan.py SENESCE FOLDER [SEED ...]

Ages images of ext4, xfs and btrfs (the ones that FOLDER does not hold already) and has a plan made of each. Copies of the image are then
mounted: on one the whole tool runs once, on the other the tool runs on the files of the plan, in the order in which it lists them. A full
read is modelled before and after each; bytes are those that the loop device was given until all was synchronised. As root; prints a
Markdown table.
"""
import contextlib
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = "st500dm002"
# Profile, size, fullness, files that are then appended to in turns.
STATES = [
    ("agrawal", "512M", "80%", 0),
    ("agrawal", "512M", "55%", 300),
    ("douceur", "384M", "70%", 0),
    ("douceur", "384M", "50%", 150),
    ("grundman", "1G", "70%", 0),
]
# Added to the seeds of the profile and of the logs.
SEEDS = [0, 1]
PIECE = 16 << 10
TOOLS = {"ext4": ["e4defrag"], "xfs": ["xfs_fsr", "-v"], "btrfs": ["btrfs", "filesystem", "defragment"]}
RECURSIVE = {"btrfs": ["-r"]}
BATCH = 256


def aged(program, folder, file_system, state, seed, room):
    profile, size, fullness, appended = state
    image = folder / f"{file_system}-{profile}-{size}-{fullness.strip('%')}-{seed}.img"
    if not image.exists():
        new = room / "image"
        command = [program, "-q", "age", f"image:{new},size={size}", "--fs", file_system, "--profile", profile]
        command += ["--fullness", fullness, "--truncate-sizes", "drop", "--data", "write", "--max-overwrites", "8"]
        command += ["--seed", str(42 + seed)]
        subprocess.run(command + ["--in-memory", "--out", room / "run"], stdout=subprocess.DEVNULL, check=True)
        with mounted(new, room) as point:
            append_in_turns(point / "logs", appended, seed)
        shutil.move(new, image)
        shutil.rmtree(room / "run")
    return image


@contextlib.contextmanager
def mounted(image, room):
    point = room / "mnt"
    point.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


def append_in_turns(folder, files, seed):
    """Logs, some of which grow much faster than others; each piece is made durable before the next file has its turn."""
    folder.mkdir()
    numbers = random.Random(files + seed)
    pieces = [min(int(numbers.paretovariate(0.7)), 40) for _ in range(files)]
    for turn in range(max(pieces, default=0)):
        for file in (file for file in range(files) if pieces[file] > turn):
            with open(folder / f"{file:04}", "ab", buffering=0) as log:
                log.write(b"x" * PIECE)
                os.fsync(log.fileno())


def prognosis(program, target, *more):
    command = [program, "-q", "diagnose", target, "--model", MODEL, "--json", *more]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def written(device):
    """Bytes that a block device was told to write."""
    return int(Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[6]) * 512


def carried_out(program, image, room, command, targets):
    """Seconds of a full read and bytes written, after a command on a copy."""
    copy = room / "copy"
    shutil.copyfile(image, copy)
    with mounted(copy, room) as point:
        found = subprocess.run(["findmnt", "-no", "SOURCE", point], stdout=subprocess.PIPE, check=True)
        device = found.stdout.decode().strip()
        before = written(device)
        for first in range(0, len(targets), BATCH):
            paths = [point / target for target in targets[first : first + BATCH]]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run(command + paths, check=False, **quiet)
        subprocess.run(["sync", "-f", point], check=True)
        bytes_written = written(device) - before
    seconds = prognosis(program, copy)["now_seconds"]
    copy.unlink()
    return seconds, bytes_written


def words(state, seed):
    profile, size, fullness, appended = state
    return f"{profile}, {size}, {fullness}" + (f", {appended} logs" if appended else "") + f", seed {seed}"


def row(program, image, file_system, state, room):
    tool = TOOLS[file_system]
    said = prognosis(program, image, "--try", "--only", "cures", "--passes", "1")
    twin, now = said["twin"], said["now_seconds"]
    tool_seconds, tool_bytes = carried_out(program, image, room, tool + RECURSIVE.get(file_system, []), [""])
    cells = [file_system, state, f"{now:.2f}", f"{tool_seconds:.2f}"]
    print("|", " | ".join(cells), end=" | ")
    plan = twin.get("executed")
    if plan is None:
        print("the tool is not worth it | | | | | |", flush=True)
        return None
    seconds, bytes_written = carried_out(program, image, room, tool, twin["plan_files"])
    promise = (now - seconds) / (twin["now_seconds"] - plan["seconds_after"])
    of_tool, of_bytes = (now - seconds) / (now - tool_seconds), bytes_written / max(tool_bytes, 1)
    cells = [f"{seconds:.2f}", f"{promise:.2f}", f"{of_tool:.2f}", f"{plan['share_of_bytes']:.2f}", f"{of_bytes:.2f}"]
    print(" | ".join(cells + [str(plan["files"]), f"{twin['elapsed_seconds']:.0f}"]), "|", flush=True)
    return promise, of_tool, plan["share_of_bytes"], of_bytes


def main():
    program, folder = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).absolute()
    folder.mkdir(exist_ok=True)
    heads = ["file system", "image", "now (s)", "tool (s)", "plan (s)", "of what the twin promised", "of the tool's gain"]
    heads += ["bytes moved", "bytes written", "files", "trials (s)"]
    print("|", " | ".join(heads), "|")
    print("|" + "---|" * len(heads))
    rows = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as room:
        for seed in [int(seed) for seed in sys.argv[3:]] or SEEDS:
            for state, file_system in itertools.product(STATES, TOOLS):
                image = aged(program, folder, file_system, state, seed, Path(room))
                rows.append(row(program, image, file_system, words(state, seed), Path(room)))
    rows = [row for row in rows if row]
    if rows:
        promises, gains, moved, told = zip(*rows)
        print(f"\nLeast of what was promised {min(promises):.2f}, least of the tool's gain {min(gains):.2f};", end=" ")
        print(f"bytes moved at most {max(moved):.2f} of the tool's, median {statistics.median(moved):.2f};", end=" ")
        print(f"written at most {max(told):.2f}, median {statistics.median(told):.2f}.")


if __name__ == "__main__":
    main()
