#!/usr/bin/env python3
"""Files that still fit, by the rule and by the kernel: benches/prognosis_fills.py SENESCE [--only REGEX] [--seed N] [--keep DIR] [--json FILE]

For every geometry and every profile of fill: makes a file system in images in memory, runs `senesce diagnose` on it, then fills copies of the
same images until the kernel reports ENOSPC: as root, one thread, one new directory, no synchronisation. Prints a Markdown table and a summary.
`--keep DIR` keeps the images and the kernel's numbers, so that a second run only predicts. Needs root, a C compiler, ext4, XFS and Btrfs.
"""
import argparse
import contextlib
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = [8, 250, 32, 128, 16, 200, 64, 100]
SIZES = [0, 4096, 65536, 1 << 20]
EXT4 = "mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0"
XFS, BTRFS = "mkfs.xfs -qf", "mkfs.btrfs -qf"
FRESH, HALF, AGED = "fresh", "churn 50 0", "churn 80 2"
USUAL, PUNCHED = [FRESH, HALF, AGED], [HALF, "punch 3 8", "punch 7 8"]
TRIMMED = "trim 36864"
# Command of mkfs, MiB of each device, profiles of fill, whether it is an ordinary geometry (the defaults of mkfs, of some size, or a usual block size).
GEOMETRIES = [
    (EXT4, [256], USUAL, True),
    (f"{EXT4} -b 4096", [256], USUAL + [TRIMMED], True),
    (f"{EXT4} -b 2048", [160], [HALF, AGED], True),
    (EXT4, [600], [AGED], True),
    (f"{EXT4} -b 4096 -m 0 -i 4096", [128], [FRESH, AGED], True),
    ("mkfs.ext3 -qF -b 4096", [192], [FRESH, AGED], True),
    ("mkfs.ext3 -qF -b 1024", [128], [HALF, "punch 3 8"], True),
    ("mkfs.ext2 -qF -b 4096", [128], [FRESH, AGED], True),
    ("mkfs.ext2 -qF -b 1024", [96], [HALF, AGED], True),
    (f"{EXT4} -b 1024 -N 300000 -O ^has_journal", [320], [FRESH], False),
    (f"{EXT4} -b 1024 -N 600000 -O ^has_journal", [600], [FRESH], False),
    (f"{EXT4} -b 1024 -N 200000 -O ^has_journal,large_dir", [256], [FRESH], False),
    (f"{EXT4} -b 4096 -I 128", [128], PUNCHED, False),
    (f"{EXT4} -b 4096 -I 1024", [128], [HALF], False),
    (f"{EXT4} -b 4096 -O bigalloc -C 16384", [192], [FRESH, AGED], False),
    (f"{EXT4} -b 4096 -O inline_data", [128], [FRESH, HALF], False),
    (f"{EXT4} -b 4096 -O ^metadata_csum,^64bit", [160], [AGED, "punch 3 8"], False),
    (f"{EXT4} -b 4096 -O ^dir_index", [64], [HALF], False),
    (f"{EXT4} -b 4096 -O ^flex_bg", [192], [AGED], False),
    (f"{EXT4} -b 4096 -O sparse_super2", [160], [HALF], False),
    (f"{EXT4} -b 4096 -O ^resize_inode,meta_bg", [160], [AGED], False),
    (XFS, [320], USUAL, True),
    (XFS, [512], [AGED, TRIMMED, "punch 5 8"], True),
    (f"{XFS} -b size=1024", [320], [FRESH, AGED], True),
    (f"{XFS} -b size=2048", [320], [HALF], True),
    (f"{XFS} -i size=1024", [320], [HALF, AGED], False),
    (f"{XFS} -i size=2048 -m rmapbt=1", [400], [FRESH, AGED], False),
    (f"{XFS} -i sparse=0", [320], [AGED, "punch 3 8"], False),
    (f"{XFS} -i sparse=0,maxpct=1", [320], [FRESH, AGED], False),
    (f"{XFS} -n size=65536", [320], [FRESH, AGED], False),
    (f"{XFS} -n size=16384", [320], [FRESH, HALF], False),
    (f"{XFS} -m rmapbt=1", [320], [HALF, AGED], False),
    (f"{XFS} -m reflink=0,finobt=0,inobtcount=0", [320], [HALF, "punch 7 8"], False),
    (f"{XFS} -d agcount=6", [512], [AGED, TRIMMED], False),
    (f"{XFS} -i maxpct=0", [320], [FRESH, HALF], False),
    (f"{XFS} -m bigtime=0", [320], [HALF], False),
    (f"{XFS} -b size=1024 -n size=8192", [320], [AGED], False),
    (BTRFS, [256], USUAL, True),
    (BTRFS, [600], [HALF, AGED], True),
    (f"{BTRFS} -m single", [320], [FRESH, AGED], False),
    (f"{BTRFS} -n 4096", [256], [FRESH, AGED], False),
    (f"{BTRFS} -n 65536", [400], [HALF], False),
    (f"{BTRFS} -m dup -d dup", [320], [FRESH, HALF], False),
    (f"{BTRFS} --csum sha256", [256], [FRESH, AGED], False),
    (f"{BTRFS} -M", [128], [FRESH], False),
    (f"{BTRFS} -m raid1 -d raid1", [128, 400], [FRESH, HALF], False),
    (f"{BTRFS} -m raid1 -d raid0", [160, 320], [HALF], False),
    (f"{BTRFS} -m raid1 -d single", [128, 160, 256], [HALF], False),
    (f"{BTRFS} -m raid1c3 -d raid1c3", [130, 160, 300], [FRESH], False),
    (f"{BTRFS} -m raid10 -d raid10", [160, 160, 200, 200], [HALF], False),
    (f"{BTRFS} -m raid1 -d raid5", [130, 160, 240], [FRESH], False),
    (f"{BTRFS} -m raid1c4 -d raid6", [160, 160, 200, 240], [FRESH], False),
    (f"{BTRFS} -m dup -d single", [128, 400], [HALF], False),
]


def run(command):
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def output(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout


@contextlib.contextmanager
def mounted(images, point, options="rw"):
    devices = []
    try:
        for image in images[1:]:
            devices.append(output(["losetup", "-f", "--show", image]).decode().strip())
        options += "".join(f",device={device}" for device in devices)
        run(f"mount -o loop,{options} {images[0]} {point}")
        try:
            yield point
        finally:
            run(f"umount {point}")
    finally:
        for device in devices:
            run(f"losetup -d {device}")


class Bench:
    def __init__(self, options, room):
        self.options, self.room = options, Path(room)
        self.point = self.room / "mnt"
        self.point.mkdir()
        self.filler = self.room / "fills"
        run(f"cc -O2 -o {self.filler} {Path(__file__).with_suffix('.c')}")
        self.rows, self.known = [], {}
        self.store = options.keep and options.keep / "kernel.json"
        if self.store:
            options.keep.mkdir(exist_ok=True)
            if self.store.exists():
                self.known = json.loads(self.store.read_text())

    def state(self, number, made, mebibytes, profile):
        """The images of a state, made if they are not kept."""
        folder = self.options.keep or self.room
        images = [folder / f"{number}-{profile.replace(' ', '-')}-{device}.img" for device in range(len(mebibytes))]
        if all(image.exists() for image in images):
            return images
        work = [self.room / f"new-{device}" for device in range(len(images))]
        for image, size in zip(work, mebibytes):
            image.unlink(missing_ok=True)
            run(f"truncate -s {size + self.options.seed % 7}M {image}")
        run(f"{made} {' '.join(map(str, work))}")
        if profile != FRESH:
            seed = [] if profile.startswith("punch") else [str(self.options.seed)]
            with mounted(work, self.point):
                verb, *numbers = profile.split()
                output([self.filler, verb, self.point, *numbers, *seed])
        for new, image in zip(work, images):
            run(f"cp --sparse=always {new} {image} && rm {new}")
        return images

    def predicted(self, images, name_bytes):
        command = [self.options.senesce, "-q", "diagnose"]
        more = ["--name-length", str(name_bytes), "--json"]
        if len(images) == 1:
            return json.loads(output(command + [images[0]] + more))
        with mounted(images, self.point, "ro"):
            return json.loads(output(command + [self.point] + more))

    def filled(self, images, size, name_bytes, names):
        key = f"{images[0].name} {size} {name_bytes} {names}"
        if key not in self.known:
            copies = [self.room / f"copy-{number}" for number in range(len(images))]
            for image, copy in zip(images, copies):
                run(f"cp --sparse=always {image} {copy}")
            with mounted(copies, self.point):
                files, call = output([self.filler, "fill", self.point, str(size), str(name_bytes), names]).decode().split()
            for copy in copies:
                copy.unlink()
            self.known[key] = [int(files), call]
            if self.store:
                self.store.write_text(json.dumps(self.known))
        return self.known[key]

    def one_state(self, number, geometry, profile, turn):
        made, mebibytes, _, ordinary = geometry
        images = self.state(number, made, mebibytes, profile)
        for index, size in enumerate(SIZES):
            name_bytes = NAMES[(turn + index) % len(NAMES)]
            names = "hashed" if (turn + index) % 3 == 0 else "counted"
            found = self.predicted(images, name_bytes)
            rules = [one for one in found["creatable"] if one["as"] == "root" and one["size"] == size]
            files, call = self.filled(images, size, name_bytes, names)
            row = dict(mkfs=made.replace(EXT4, "mkfs.ext4"), mebibytes=mebibytes, profile=profile, ordinary=ordinary)
            row |= dict(size=size, name_bytes=name_bytes, names=names, kernel=files, call=call, rule=rules[0] if rules else None)
            self.rows.append(row)
            print(line(row), flush=True)
        if not self.options.keep:
            for image in images:
                image.unlink()


def holds(row):
    return row["rule"]["low"] <= row["kernel"] <= row["rule"]["high"]


def width(row):
    return (row["rule"]["high"] - row["rule"]["low"]) / max(row["rule"]["files"], 1)


HEADS = ["geometry", "MiB", "profile", "ordinary", "size", "name", "rule", "low", "high", "ends by", "kernel", "failed call", "holds", "width"]


def line(row):
    rule = row["rule"]
    made = row["mkfs"].replace("-qF", "").replace("-qf", "").replace("mkfs.", "").split()
    cells = [" ".join(made), "+".join(map(str, row["mebibytes"])), row["profile"], "yes" if row["ordinary"] else "no", row["size"]]
    cells += [f"{row['name_bytes']} {row['names']}"]
    cells += [rule["files"], rule["low"], rule["high"], rule["ends_by"]] if rule else ["no rule"] + [""] * 3
    cells += [row["kernel"], row["call"]]
    cells += ["yes" if holds(row) else "NO", f"{100 * width(row):.1f} %"] if rule else ["", ""]
    return "| " + " | ".join(map(str, cells)) + " |"


def summary(rows):
    ruled = [row for row in rows if row["rule"]]
    outside = [row for row in ruled if not holds(row)]
    geometries = {(row["mkfs"], str(row["mebibytes"])) for row in rows}
    print(f"\n{len(rows)} fills over {len(geometries)} geometries; {len(rows) - len(ruled)} without a rule.")
    print(f"Outside the interval: {len(outside)} of {len(ruled)} ({100 * len(outside) / max(len(ruled), 1):.1f} %).\n")
    print("| fills | number | outside | median width | widest tenth from |")
    print("|---|---|---|---|---|")
    kinds = {"ordinary geometries": lambda row: row["ordinary"], "other geometries": lambda row: not row["ordinary"]}
    for name in ["ext", "xfs", "btrfs"]:
        kinds[f"{name}, ordinary"] = lambda row, name=name: row["ordinary"] and f"mkfs.{name}" in row["mkfs"]
        kinds[f"{name}, other"] = lambda row, name=name: not row["ordinary"] and f"mkfs.{name}" in row["mkfs"]
    for name, wanted in kinds.items():
        chosen = [row for row in ruled if wanted(row)]
        if chosen:
            widths = sorted(map(width, chosen))
            cells = [name, len(chosen), sum(not holds(row) for row in chosen), f"{100 * statistics.median(widths):.2f} %"]
            print("|", " | ".join(map(str, cells)), "|", f"{100 * widths[len(widths) * 9 // 10]:.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("senesce", type=Path)
    parser.add_argument("--only", type=re.compile, default=re.compile(""))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print("|", " | ".join(HEADS), "|")
    print("|" + "---|" * len(HEADS))
    room = tempfile.mkdtemp(dir="/dev/shm", prefix="prognosis-fills-")
    try:
        bench = Bench(options, room)
        turn = options.seed
        for number, geometry in enumerate(GEOMETRIES):
            for profile in geometry[2]:
                turn += 3
                if options.only.search(f"{geometry[0]} {profile}"):
                    bench.one_state(number, geometry, profile, turn)
        summary(bench.rows)
        if options.json:
            options.json.write_text("".join(json.dumps(row) + "\n" for row in bench.rows))
    finally:
        shutil.rmtree(room)


if __name__ == "__main__":
    sys.exit(main())
