#!/usr/bin/env python3
"""Repeats agings in virtual time, and appends a row for each to a CSV file.

    benches/virtual_time.py SENESCE KERNEL FOLDER REPETITIONS    append to FOLDER/virtual-time.csv
    benches/virtual_time.py --table FILE.csv              print the table of benches/results/virtual-time.md

Each repetition ages ext4, XFS, btrfs and F2FS at 10 and 100 operations per second of virtual time.
"""
import collections
import csv
import json
import os
import subprocess
import sys
import time

SHAPES = {'ext4': ('128M', '0.7'), 'xfs': ('320M', '0.5'), 'btrfs': ('256M', '0.5'), 'f2fs': ('200M', '0.5')}
FIELDS = ['kernel', 'file_system', 'operations_per_second', 'digest', 'operations', 'virtual_seconds', 'extents', 'wall_seconds', 'load']


def repeat(senesce, kernel, file_system, pace):
    size, fullness = SHAPES[file_system]
    subprocess.run(['rm', '-rf', 'senesce-runs/run', 'senesce-runs/v.img'], check=True)
    os.makedirs('senesce-runs', exist_ok=True)
    begun = time.time()
    words = ['vm', 'run', '--kernel', kernel, '--virtual-time', '--memory', '600M', '--', 'senesce', 'age', f'image:senesce-runs/v.img,size={size}',
             '--fs', file_system, '--fullness', fullness, '--overwrites', '1', '--pace', str(pace), '--writers', '8', '--no-cost',
             '--out', 'senesce-runs/run', '--json']
    found = subprocess.run([senesce, *words], capture_output=True, text=True)
    aged = json.loads(found.stdout) if found.returncode == 0 else {}
    if not aged.get('timing_valid'):
        row = [file_system, pace, f'failed: {found.returncode}', '', '', '']
    else:
        row = [file_system, pace, aged['layout_digest'], aged['operations'], aged['execute_seconds'], aged['layout']['extents']]
    return [kernel, *row, round(time.time() - begun, 1), round(os.getloadavg()[0], 1)]


def table(path):
    rows = collections.defaultdict(list)
    for row in csv.DictReader(open(path)):
        rows[row['kernel'], row['file_system'], row['operations_per_second']].append(row)
    print('| kernel | file system | operations per second | repetitions | equal files | equal free extents, of | clocks (s) | load |')
    print('|---|---|---|---|---|---|---|---|')
    for (kernel, file_system, pace), all_rows in sorted(rows.items()):
        # Rows of older versions have no digest of the free extents.
        files = collections.Counter(row['digest'].split('-')[0] for row in all_rows).most_common(1)[0][1]
        free = collections.Counter(row['digest'] for row in all_rows if '-' in row['digest']).most_common(1)[0][1]
        with_free = sum('-' in row['digest'] for row in all_rows)
        clocks = sorted({row['virtual_seconds'] for row in all_rows})
        loads = [float(row['load']) for row in all_rows]
        shown = clocks[0] if len(clocks) == 1 else f'{clocks[0]} to {clocks[-1]}'
        print(f'| {kernel} | {file_system} | {pace} | {len(all_rows)} | {files} | {free}, {with_free} | {shown} | {min(loads)} to {max(loads)} |')


def main():
    if sys.argv[1] == '--table':
        return table(sys.argv[2])
    senesce, kernel, folder, repetitions = os.path.abspath(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])
    os.chdir(folder)
    is_new = not os.path.exists('virtual-time.csv')
    with open('virtual-time.csv', 'a', buffering=1, newline='') as file:
        out = csv.writer(file)
        if is_new:
            out.writerow(FIELDS)
        for _ in range(repetitions):
            for file_system in SHAPES:
                for pace in (10, 100):
                    out.writerow(repeat(senesce, kernel, file_system, pace))


main()
