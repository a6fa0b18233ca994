#!/usr/bin/env python3
"""How often `compare` finds a difference where there is none, and whether its gate fails where there is one.

    benches/compare_aa.py benches SENESCE FOLDER [RUNS [PAIRS]]     pairs of single bench runs, each of WORKLOAD (fileserver)
    benches/compare_aa.py agings SENESCE FOLDER [IMAGES [PAIRS]]    pairs of five agings of ext4 each, of other seeds
    benches/compare_aa.py variants SENESCE FOLDER [IMAGES]          five agings of a variant against five of the default

A pool of RUNS (42 unless given) or IMAGES (42; variants: 5) is made in FOLDER once and kept; then PAIRS (300) are drawn from it. The seeds of
images count from SEED (1). A pair is false if the gate at 3 % fails, or a metric is better or worse. More than one false pair in 300 is exit
code 1, and so is a variant that does not fail the gate. Needs root. Other programs should be at work meanwhile: without noise nothing is
tested. Prints Markdown.
"""
import collections
import json
import os
import random
import subprocess
import sys
from pathlib import Path

SEED = int(os.environ.get("SEED", "1"))
SIZE = os.environ.get("SIZE", "256M")
AGE = ["--profile", "agrawal", "--fullness", "0.8", "--overwrites", "2", "--data", "write"]
EXT4 = ["--fs", "ext4", "--mkfs-options", "-b 4096"]
BTRFS = ["--fs", "btrfs"]
BENCH = ["--scale", "0.05", "--time", "500ms", "--reps", "6"]
VARIANTS = [
    # name, default, file system, options; the last column is a setting of the mounted file system in sysfs
    ("ext4 nodelalloc", "ext4", [*EXT4, "--mount-options", "nodelalloc"], None),
    ("ext4 bigalloc", "ext4", ["--fs", "ext4", "--mkfs-options", "-b 4096 -O bigalloc -C 16384"], None),
    ("ext4 mb_group_prealloc=1", "ext4 mounted", None, ("mb_group_prealloc", "1")),
    ("btrfs max_inline=0", "btrfs", [*BTRFS, "--mount-options", "max_inline=0"], None),
]
DEFAULTS = {"ext4": EXT4, "ext4 mounted": None, "btrfs": BTRFS}


def run(*words, codes=(0,)):
    ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode not in codes:
        sys.exit(f"{' '.join(map(str, words))} ended with {ended.returncode}: {ended.stderr}")
    return ended.stdout


def age(program, out, seed, options, size=SIZE):
    """An aging in memory; made once."""
    if not (out / "summary.json").exists():
        run(program, "age", f"memory:{size}", *options, *AGE, "--seed", str(seed), "--out", str(out), "--json", "--quiet")


def age_mounted(program, out, seed, setting):
    """The same on a mounted image, of which a setting in sysfs was changed."""
    if (out / "summary.json").exists():
        return
    image, mount = out.with_suffix(".img"), out.with_suffix(".mnt")
    mount.mkdir(parents=True, exist_ok=True)
    run("truncate", "-s", SIZE, image)
    run("mkfs.ext4", "-q", "-b", "4096", image)
    device = run("losetup", "-f", "--show", image).strip()
    try:
        run("mount", device, mount)
        try:
            if setting:
                Path(f"/sys/fs/ext4/{Path(device).name}/{setting[0]}").write_text(setting[1])
            (mount / "aged").mkdir()
            run(program, "age", str(mount / "aged"), "--size", SIZE, *AGE, "--seed", str(seed), "--out", str(out), "--json", "--quiet")
        finally:
            run("umount", mount)
    finally:
        # Another program that tidies up may have detached it since.
        run("losetup", "-d", device, codes=(0, 1))
        image.unlink()
        mount.rmdir()


def measured(runs):
    """When, on what and how busy a machine."""
    facts = [json.loads((path / "env.json").read_text()) for path in runs]
    loads, dates = [fact["run.load_average"] for fact in facts], [fact["run.date"] for fact in facts]
    mkfs = subprocess.run(["mkfs.ext4", "-V"], stderr=subprocess.PIPE, text=True).stderr.splitlines()[0]
    btrfs = subprocess.run(["mkfs.btrfs", "--version"], stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
    return (f"Measured from {min(dates)} to {max(dates)} at a load of {min(loads):.0f} to {max(loads):.0f} on {os.cpu_count()} processors, "
            f"Linux {os.uname().release}, {mkfs}, {btrfs}.")


def compare(program, sample, reference):
    """Exit code and metrics."""
    words = [program, "compare", *map(str, sample), "--against", *map(str, reference), "--fail-on-regression", "3%", "--json"]
    ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode not in (0, 1, 125):
        sys.exit(f"{' '.join(words)} ended with {ended.returncode}: {ended.stderr}")
    return ended.returncode, json.loads(ended.stdout)["metrics"]


def null_pairs(program, pool, side, pairs):
    """Draws pairs of sides without a run in common; prints the table."""
    drawn, false, codes, words = random.Random(1905), [], collections.Counter(), collections.defaultdict(collections.Counter)
    for _ in range(pairs):
        chosen = drawn.sample(pool, 2 * side)
        code, metrics = compare(program, chosen[:side], chosen[side:])
        codes[code] += 1
        for one in metrics:
            words[one["name"]][one["verdict"]] += 1
        wrong = [f"{one['name']}: {one['ratio']:.3f} ({one['low']:.3f} to {one['high']:.3f}) {one['verdict']}"
                 for one in metrics if one["verdict"] in ("better", "worse")]
        if wrong or code == 1:
            false.append(f"{'; '.join(wrong)} (exit code {code}: {', '.join(path.name for path in chosen)})")
    print("| metric | better | worse | equivalent | undecided | not testable |\n|---|---|---|---|---|---|")
    for name, count in words.items():
        cells = [count[word] for word in ("better", "worse", "equivalent", "undecided", "not-testable")]
        print(f"| {name} | {' | '.join(map(str, cells))} |")
    print(f"\nGate: {codes[0]} pass, {codes[1]} fail, {codes[125]} undecided. **{len(false)} of {pairs} pairs are false.**")
    for text in false:
        print(f"* {text}")
    return len(false) <= max(1, pairs // 300)


def benches(program, folder, count, pairs):
    workload = os.environ.get("WORKLOAD", "fileserver")
    pool = [folder / f"{workload}-{number:02}" for number in range(count)]
    for out in pool:
        if not (out / "summary.json").exists():
            # 1: a repetition is invalid, which other programs cause; the run counts without it.
            run(program, "bench", "memory:256M", workload, *BENCH, "--json", "--quiet", "--out", str(out), codes=(0, 1))
    print(f"{count} runs of {workload}. {measured(pool)}\n")
    return null_pairs(program, pool, 1, pairs)


def agings(program, folder, count, pairs):
    pool = [folder / f"ext4-{seed:02}" for seed in range(SEED, SEED + count)]
    for seed, out in enumerate(pool, SEED):
        age(program, out, seed, EXT4)
    print(f"{count} images of {SIZE}, seeds {SEED} to {SEED + count - 1}. {measured(pool)}\n")
    return null_pairs(program, pool, 5, pairs)


def variants(program, folder, count, _):
    made, good = [], True

    def side(name, options, setting):
        runs = [folder / f"{name.replace(' ', '-')}-{seed:02}" for seed in range(SEED, SEED + count)]
        for seed, out in enumerate(runs, SEED):
            if options is None:
                age_mounted(program, out, seed, setting)
            else:
                age(program, out, seed, options, "512M" if name.startswith("btrfs") else SIZE)
        made.extend(runs)
        return runs

    print("| variant | gate | metric | ratio | interval | verdict |\n|---|---|---|---|---|---|")
    for name, default, options, setting in VARIANTS:
        code, metrics = compare(program, side(name, options, setting), side(default, DEFAULTS[default], None))
        gate = {0: "passes", 1: "fails", 125: "undecided"}[code]
        for one in metrics:
            print(f"| {name} | {gate} | {one['name']} | {one['ratio']:.3f} | {one['low']:.3f} to {one['high']:.3f} | {one['verdict']} |", flush=True)
        good &= code == 1
    print(f"\n{count} images a side, seeds from {SEED}. {measured(made)}")
    return good


def main():
    part, program, folder = sys.argv[1], os.path.abspath(sys.argv[2]), Path(sys.argv[3])
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 5 if part == "variants" else 42
    pairs = int(sys.argv[5]) if len(sys.argv) > 5 else 300
    folder.mkdir(parents=True, exist_ok=True)
    good = {"benches": benches, "agings": agings, "variants": variants}[part](program, folder, count, pairs)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
