#!/usr/bin/env python3
"""Planner, executor and flowop engine of two commits in turns: benches/two_commits.py OLD NEW DIRECTORY [ROUNDS]

OLD and NEW are folders of programs (target/release) in which senesce and the programs of benches were built; DIRECTORY is empty and lies on
the file system that is aged. Each round runs old, new and old again. Prints the ratios of new to old and of old to itself, of processor
seconds per operation: below 1 is faster.
"""
import json
import subprocess
import sys
from pathlib import Path
from statistics import median


def output(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout


def rows(text):
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [cells for cells in lines[2:] if len(cells) > 1]


def planner(programs, _directory):
    for profile in ("agrawal", "wang_os", "grundman"):
        words = ["age", "--plan-only", "--size", "8G", "--truncate-sizes", "drop", "--profile", profile, "--json"]
        found = json.loads(output(programs / "senesce", *words))
        yield f"planner, {profile}, 8 GiB", found["plan_cpu_seconds"] / found["operations"]


def executor(programs, directory):
    for name, user, cpu, _ in (cells for cells in rows(output(programs / "aging", "execute", directory, 50_000)) if len(cells) == 4):
        yield f"executor, {name}, user", float(user)
        yield f"executor, {name}", float(cpu)


def flowops(programs, _directory):
    for name, threads, _, user in rows(output(programs / "workload_cpu", 1)):
        yield f"flowop engine, {name}, {threads} threads", float(user)


def main():
    old, new, directory = (Path(word).absolute() for word in sys.argv[1:4])
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    ratios = {}
    for part in (planner, executor, flowops):
        for _ in range(rounds):
            first, second, third = (dict(part(programs, directory)) for programs in (old, new, old))
            for name in first:
                ratios.setdefault(name, []).append((second[name] / ((first[name] + third[name]) / 2), third[name] / first[name]))
    print("| what | new over old: median, least, greatest | old over itself: median, least, greatest |\n|---|---|---|")
    for name, pairs in ratios.items():
        cells = [f"{median(of):.3f}, {min(of):.3f}, {max(of):.3f}" for of in zip(*pairs)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
