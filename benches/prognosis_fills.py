#!/usr/bin/env python3
"""Files that can be created, by the rule and by the kernel: benches/prognosis_fills.py SENESCE [FS ...]

Images of 600 MiB in memory, in eight states: each is looked at, then a copy of it is filled with files of each size, as root, by one thread,
in one new directory, until the first failure; then it is synchronised and tried again. States and probe are those of the long test
every_fill_is_as_the_rule_says of senesce-prognosis, which also judges the errors. Prints a Markdown table.
"""
import ctypes
import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MKFS = {
    "ext4": "mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0",
    "xfs": "mkfs.xfs -qf",
    "xfs without sparse inodes": "mkfs.xfs -qf -i sparse=0",
    "btrfs": "mkfs.btrfs -qf",
}
SIZES = [0, 1000, 4096, 12_000, 40_000, 130_000, 600_000]
KEEP_SIZE, PUNCH_HOLE = 1, 2
C = ctypes.CDLL(None, use_errno=True)
C.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def run(command):
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)


def numbers(state):
    """SplitMix64 (Steele et al., OOPSLA 2014), as the test has it."""
    low = (1 << 64) - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & low
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & low
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & low
        yield z ^ (z >> 31)


def written_whole(path, data):
    with open(path, "wb", buffering=0) as file:
        while data:
            data = data[file.write(data) :]


def grow(root, fullness, turns, seed):
    """Files of mixed sizes to this fullness, then deleted and created at random until `turns` times the size was written."""
    source = numbers(seed)
    found = os.statvfs(root)
    capacity = found.f_blocks * found.f_frsize
    live, written, number = [], 0, 0
    for directory in range(24):
        (root / f"d{directory}").mkdir()
    while True:
        for _ in range(16):
            size = SIZES[next(source) % 7]
            path = root / f"d{next(source) % 24}" / f"f{number}"
            number += 1
            try:
                written_whole(path, bytes(size))
            except OSError:
                path.unlink(missing_ok=True)
                return
            live.append(path)
            written += size
        found = os.statvfs(root)
        if 1 - found.f_bfree / found.f_blocks < fullness:
            continue
        if written > turns * capacity:
            return
        for _ in range(min(160, len(live))):
            chosen = next(source) % len(live)
            live[chosen], live[-1] = live[-1], live[chosen]
            live.pop().unlink()
        run(f"sync -f {root}")


def punch(root, holes, every):
    """One file over everything, of which `holes` of `every` blocks are taken out."""
    file = os.open(root / "large", os.O_CREAT | os.O_WRONLY)
    length, data = 0, bytes(1 << 20)
    try:
        while True:
            length += os.write(file, data)
    except OSError:
        pass
    try:
        os.fsync(file)
    except OSError:
        pass
    for index in range(length // 4096 // every):
        if C.fallocate(file, KEEP_SIZE | PUNCH_HOLE, index * every * 4096, holes * 4096):
            raise OSError(ctypes.get_errno(), "punch a hole")
    os.fsync(file)
    os.close(file)


STATES = {
    "fresh": lambda root: None,
    "once 50 %": lambda root: grow(root, 0.5, 0, 7),
    "once 80 %": lambda root: grow(root, 0.8, 0, 8),
    "aged 70 %": lambda root: grow(root, 0.7, 2, 9),
    "aged 90 %": lambda root: grow(root, 0.9, 2, 10),
    "punched 7 of 8": lambda root: punch(root, 7, 8),
    "punched 3 of 8": lambda root: punch(root, 3, 8),
    "punched 1 of 4": lambda root: punch(root, 1, 4),
}


def create(directory, size, number):
    """Creates from this number on; gives the number after the last and the call that failed."""
    data = bytes(size)
    while True:
        path = f"{directory}/{number:08}"
        try:
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return number, "open"
        try:
            done = 0
            while done < size:
                done += os.write(file, data[done:])
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            os.unlink(path)
            return number, "write"
        finally:
            os.close(file)
        number += 1


def fill(root, size):
    directory = root / ".senesce-probe"
    directory.mkdir()
    files, call = create(directory, size, 0)
    left = os.statvfs(root)
    after = files
    for _ in range(16):
        run(f"sync -f {root}")
        more, _ = create(directory, size, after)
        if more == after:
            break
        after = more
    return files, after, call, left.f_bfree, left.f_ffree


def main():
    program = sys.argv[1]
    heads = ["file system", "state", "size", "rule", "from", "to", "ends by", "kernel", "after sync", "failed call"]
    heads += ["free blocks", "free inodes", "error", "held"]
    print("|", " | ".join(heads), "|")
    print("|" + "---|" * len(heads))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as room:
        image, copy, point = (Path(room) / name for name in ("image", "copy", "mnt"))
        point.mkdir()
        for file_system in sys.argv[2:] or MKFS:
            for state, make in STATES.items():
                image.unlink(missing_ok=True)
                run(f"truncate -s 600M {image}; {MKFS[file_system]} {image} 2> /dev/null; mount -o loop {image} {point}")
                try:
                    make(point)
                finally:
                    run(f"umount {point}")
                command = [program, "-q", "prognosis", image, "--json"]
                said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
                for rule in (one for one in said["creatable"] if one["as"] == "root"):
                    run(f"cp --sparse=always {image} {copy}; mount -o loop {copy} {point}")
                    try:
                        files, after, call, blocks, inodes = fill(point, rule["size"])
                    finally:
                        run(f"umount {point}")
                    cells = [file_system, state, rule["size"], rule["files"], rule["low"], rule["high"], rule["ends_by"]]
                    cells += [files, after, call, blocks, inodes, f"{100 * (rule['files'] / max(files, 1) - 1):+.2f} %"]
                    cells.append("yes" if rule["low"] <= files <= rule["high"] else "no")
                    print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
