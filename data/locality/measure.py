#!/usr/bin/env python3
"""Temporal locality of a tree: how often successive births share a directory.

  measure.py LIST               lines `birth<TAB>path`; birth is a number, `-` reads standard input
  measure.py DIR                a directory; --order birth (statx), inode, or mtime
  measure.py --git live REPO    files of HEAD, born with their last addition; `all`: every addition in
                                the history of HEAD; `deleted`: every deletion
  measure.py --proxies DIR      compare the orders by inode and by mtime with the order by birth

Files with equal births follow the order of their paths. `random_ties` shuffles them instead (mean
of 9 shuffles). `untied` uses only successive files with different births.
"""
import argparse
import os
import random
import statistics
import subprocess
import sys
from collections import Counter

COLUMNS = ["files", "directories", "share", "chance", "locality", "maximum", "lag2", "lag10", "lag100",
           "runs", "mean_run", "median_run", "runs_per_directory", "early", "late", "tied", "random_ties", "untied"]
KEYS = {"birth": 0, "inode": 1, "mtime": 2}


def read_list(stream):
    for line in stream:
        birth, path = line.rstrip("\n").split("\t", 1)
        yield float(birth), path


def read_tree(top):
    """Yields ((birth, inode, mtime), path); one path per inode, because hard links are not births."""
    command = ["find", top, "-xdev", "-type", "f", "-exec", "stat", "--printf", r"%.9W\t%i\t%.9Y\t%n\0", "{}", "+"]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout
    seen = set()
    for record in sorted(output.decode(errors="surrogateescape").split("\0")[:-1], key=lambda r: r.split("\t", 3)[3]):
        birth, inode, mtime, path = record.split("\t", 3)
        if inode not in seen:
            seen.add(inode)
            yield (decimal(birth), int(inode), decimal(mtime)), path


def read_git(repository, which):
    """Merges show no files, and a rename is a deletion and an addition."""
    git = ["git", "-C", repository]
    events = "D" if which == "deleted" else "A"
    log = git + ["log", "-z", "--no-renames", f"--diff-filter={events}", "--name-only", "--format=%x01%ct", "HEAD"]
    births = []
    for commit in call(log).split("\x01")[1:]:
        time, *paths = [field.lstrip("\n") for field in commit.split("\0")]
        births += [(int(time), path) for path in paths if path]
    if which != "live":
        return births
    last = {path: time for time, path in sorted(births)}
    return [(last[path], path) for path in call(git + ["ls-tree", "-rz", "--name-only", "HEAD"]).split("\0") if path in last]


def call(command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode(errors="surrogateescape")


def decimal(seconds):
    """Nanoseconds since 1970 as an integer; a float would merge close births."""
    whole, fraction = seconds.split(".")
    return int(whole) * 10**9 + int(fraction)


def chance(directories):
    n = len(directories)
    return sum(k * (k - 1) for k in Counter(directories).values()) / (n * (n - 1))


def rescale(share, random_share):
    return (share - random_share) / (1 - random_share) if random_share < 1 else float("nan")


def same(directories, lag=1):
    pairs = len(directories) - lag
    return sum(a == b for a, b in zip(directories, directories[lag:])) / pairs if pairs > 0 else float("nan")


def locality(directories, lag=1):
    return rescale(same(directories, lag), chance(directories)) if len(directories) > 2 else float("nan")


def run_lengths(directories):
    ends = [i for i in range(1, len(directories)) if directories[i] != directories[i - 1]]
    return [b - a for a, b in zip([0] + ends, ends + [len(directories)])]


def shuffled_ties(births, rng):
    order = sorted((birth, rng.random(), directory) for birth, directory in births)
    return locality([directory for _, _, directory in order])


def measure(files):
    """files: (birth, path) in any order."""
    births = [(birth, os.path.dirname(path)) for birth, path in sorted(files)]
    directories = [directory for _, directory in births]
    n, c, runs = len(births), chance(directories), run_lengths(directories)
    d = len(set(directories))
    untied = [a[1] == b[1] for a, b in zip(births, births[1:]) if a[0] != b[0]]
    rng = random.Random(1)
    return [n, d, same(directories), c, locality(directories), rescale((n - d) / (n - 1), c),
            locality(directories, 2), locality(directories, 10), locality(directories, 100),
            len(runs), n / len(runs), statistics.median(runs), len(runs) / d,
            locality(directories[: n // 2]), locality(directories[n // 2:]),
            1 - len(untied) / (n - 1),
            statistics.fmean(shuffled_ties(births, rng) for _ in range(9)),
            rescale(sum(untied) / len(untied), c) if untied else float("nan")]


def ranks(values):
    """Ranks from 0; equal values get their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result, i = [0.0] * len(values), 0
    while i < len(order):
        j = i
        while j < len(order) and values[order[j]] == values[order[i]]:
            j += 1
        for k in order[i:j]:
            result[k] = (i + j - 1) / 2
        i = j
    return result


def proxies(files):
    """Per order: locality, Spearman correlation with birth, share of tied successive births."""
    birth_ranks = ranks([key[0] for key, _ in files])
    for name, column in KEYS.items():
        values = [key[column] for key, _ in files]
        row = measure([(key[column], path) for key, path in files])
        try:
            rho = statistics.correlation(birth_ranks, ranks(values))
        except statistics.StatisticsError:
            rho = float("nan")
        yield [name, len(files), row[COLUMNS.index("locality")], row[COLUMNS.index("random_ties")], rho,
               row[COLUMNS.index("tied")]]


def text(row):
    return "\t".join(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("--order", choices=KEYS, default="birth")
    parser.add_argument("--git", choices=["live", "all", "deleted"])
    parser.add_argument("--proxies", action="store_true")
    parser.add_argument("--label", default="", help="tab-separated fields printed before the row")
    parser.add_argument("--header", action="store_true")
    options = parser.parse_args()
    label = [options.label.replace("\\t", "\t")] if options.label else []
    if options.proxies:
        for row in proxies(list(read_tree(options.input))):
            print(text(label + row))
        return
    if options.git:
        files = read_git(options.input, options.git)
    elif os.path.isdir(options.input):
        files = [(key[KEYS[options.order]], path) for key, path in read_tree(options.input)]
    else:
        stream = sys.stdin if options.input == "-" else open(options.input, errors="surrogateescape")
        files = list(read_list(stream))
    if len(files) < 3:
        sys.exit(f"{options.input}: at least three files are needed")
    if options.header:
        print("\t".join(COLUMNS))
    print(text(label + measure(files)))


if __name__ == "__main__":
    main()
