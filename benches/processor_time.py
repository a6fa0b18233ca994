#!/usr/bin/env python3
"""Compares the processor time of agings on the host and in a user-mode guest, as root on an idle machine.

    benches/processor_time.py SENESCE FOLDER PAIRS    append to FOLDER/processor-time.csv
    benches/processor_time.py --table FILE.csv        print the table of benches/results/virtual-time.md

The time is that of the whole machine (/proc/stat) without that of an idle machine, because kernel threads write back for the host's run.
"""
import collections
import csv
import os
import statistics
import subprocess
import sys
import time

FILE_SYSTEMS = ['ext4', 'xfs', 'btrfs']
SIDES = {'host': [], 'guest': ['--vm'], 'guest at 150/s': ['--time-scale', '150/s'], 'guest at 10/s': ['--time-scale', '10/s']}
FIELDS = ['file_system', 'side', 'pair', 'processor_seconds', 'wall_seconds', 'idle_share']
IDLE_SECONDS = 5


def busy_seconds():
    fields = [int(word) for word in open('/proc/stat').readline().split()[1:]]
    # All but idle, iowait and steal; guest time is part of user time.
    return (sum(fields[:3]) + sum(fields[5:7])) / os.sysconf('SC_CLK_TCK')


def idle_share():
    begun, time_begun = busy_seconds(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (busy_seconds() - begun) / (time.monotonic() - time_begun)


def aging(senesce, file_system, words):
    subprocess.run(['rm', '-rf', 'senesce-runs', 'p.img'], check=True)
    share = idle_share()
    begun, time_begun = busy_seconds(), time.monotonic()
    flags = ['--fs', file_system, '--fullness', '70%', '--overwrites', '2', '--no-cost', '--out', 'senesce-runs/run', '-q']
    before = [word for word in words if word == '--vm']
    after = [word for word in words if word != '--vm']
    subprocess.run([senesce, *before, 'age', 'image:p.img,size=1G', *flags, *after], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(['sync'], check=True)
    wall = time.monotonic() - time_begun
    return [round(busy_seconds() - begun - share * wall, 2), round(wall, 2), round(share, 3)]


def table(path):
    times = collections.defaultdict(dict)
    for row in csv.DictReader(open(path)):
        times[row['file_system'], row['side']][row['pair']] = float(row['processor_seconds'])
    print('| file system | side | processor time (s) | times the host, median of pairs | pairs |')
    print('|---|---|---|---|---|')
    for (file_system, side), own in times.items():
        host = times[file_system, 'host']
        ratios = [seconds / host[pair] for pair, seconds in own.items() if pair in host]
        spread = '' if side == 'host' else f'{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})'
        print(f'| {file_system} | {side} | {statistics.median(own.values()):.1f} | {spread} | {len(ratios)} |')


def main():
    if sys.argv[1] == '--table':
        return table(sys.argv[2])
    senesce, folder, pairs = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    os.chdir(folder)
    is_new = not os.path.exists('processor-time.csv')
    with open('processor-time.csv', 'a', buffering=1, newline='') as file:
        out = csv.writer(file)
        if is_new:
            out.writerow(FIELDS)
        for pair in range(pairs):
            for file_system in FILE_SYSTEMS:
                for side, words in SIDES.items():
                    out.writerow([file_system, side, pair, *aging(senesce, file_system, words)])


main()
