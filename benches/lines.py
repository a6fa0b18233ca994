#!/usr/bin/env python3
"""Counts the lines of experiments, verbs and their runner at two commits, group by group.

    benches/lines.py [BEFORE [NOW]]        default: 96c888d HEAD

Code lines are those of src that are neither blank, nor comment, nor test. What came in as a function of its own after BEFORE is counted
apart, by file; what grew inside a file is not.
"""
import re, statistics, subprocess, sys

BEFORE, NOW = (sys.argv[1:] + ['96c888d', 'HEAD'][len(sys.argv) - 1:])[:2]

# Group to the files of both commits, as regular expressions on paths; the first that fits counts.
GROUPS = [
    ('added since: experiments',
     r'$.',
     r'exp-drive/|exp-aging/src/(aging_clock|compressed_aging|early_enospc|aged_image|equal_layouts)'),
    ('added since: verbs and importers',
     r'$.',
     r'cli/src/verbs/(prognosis|twin|history|demo|carry|advise/|report/)|runs/src/(history|import/results|die_map|tidy|write_order)'),
    ('study', r'experiments/src/study', r'study/src|runs/src/study'),
    ('verbs that leave records: age, bench, trace, zns; import',
     r'experiments/src/(verbs|import)',
     r'exp-aging/src/age/|exp-zns/src/(job|zns_study)|runs/src/(bench|import|trace|cold|simulated|thread_memory|tree)'),
    ('other verbs: command line, compare, export, doctor',
     r'cli/src/verbs|experiments/src/(compare|export|doctor)',
     r'cli/src/verbs|runs/src/(compare|decided|export|doctor)'),
    ('runner and what all share',
     r'cli/src|experiments/src/(conduct|registry|lib|measurements|own_image|shared_directory|lab_cell|drives)\.rs',
     r'cli/src|runs/src|exp-[a-z]+/src/lib\.rs'),
    ('experiments', r'experiments/src', r'exp-[a-z]+/src'),
    ('what decides claims', r'$.', r'claims/src'),
]


def git(*arguments):
    return subprocess.run(['git', *arguments], check=True, capture_output=True, text=True).stdout


def code(text):
    lines, out, at = text.split('\n'), 0, 0
    while at < len(lines):
        line = lines[at].strip()
        if line == '#[cfg(test)]' and re.match(r'(pub )?mod \w+', lines[at + 1].strip()):
            if not lines[at + 1].rstrip().endswith(';'):
                indent = lines[at][:len(lines[at]) - len(lines[at].lstrip())]
                at = lines.index(indent + '}', at)
            else:
                at += 1
        elif line and not line.startswith('//'):
            out += 1
        at += 1
    return out


def count(commit, side):
    found = {group[0]: [0, 0] for group in GROUPS}
    for path in git('ls-tree', '-r', '--name-only', commit, 'crates/').split():
        if not re.fullmatch(r'crates/[a-z-]+/src/.*\.rs', path) or re.search(r'tests?\.rs$|/tests/', path):
            continue
        group = next((group[0] for group in GROUPS if re.match('crates/(?:' + group[side] + ')', path)), None)
        if group:
            text = git('show', f'{commit}:{path}')
            found[group][0] += text.count('\n')
            found[group][1] += code(text)
    return found


def experiments():
    """The one file of each experiment that is there at both commits."""
    files = {path.split('/')[-1]: path for path in git('ls-tree', '-r', '--name-only', NOW, 'crates/').split()
             if re.fullmatch(r'crates/exp-[a-z]+/src/\w+\.rs', path)}
    rows = []
    for page in git('ls-tree', '--name-only', NOW, 'docs/experiments/').split():
        name = page.split('/')[-1].removesuffix('.md')
        file = name.replace('-', '_') + '.rs'
        before = git('ls-tree', '--name-only', BEFORE, f'crates/experiments/src/{file}').strip()
        if before and file in files:
            texts = [git('show', f'{BEFORE}:{before}'), git('show', f'{NOW}:{files[file]}')]
            rows.append((name, *(count for text in texts for count in (text.count('\n'), code(text)))))
    columns = list(zip(*rows))[1:]
    rows += [('**all**', *map(sum, columns)), ('**median**', *map(statistics.median, columns))]
    print(f'\n| experiment | {BEFORE}: lines | code | {NOW}: lines | code |\n|---|---|---|---|---|')
    for row in rows:
        print('| ' + ' | '.join(f'{value:g}' if isinstance(value, float) else str(value) for value in row) + ' |')


def main():
    before, now = count(BEFORE, 1), count(NOW, 2)
    print(f'| | {BEFORE}: lines | code | {NOW}: lines | code | change of code |\n|---|---|---|---|---|---|')
    for group in [*GROUPS[2:], *GROUPS[:2]]:
        (a, b), (c, d) = before[group[0]], now[group[0]]
        change = f'{(d / b - 1) * 100:+.1f} %' if b else ''
        print(f'| {group[0]} | {a or ""} | {b or ""} | {c} | {d} | {change} |')


main()
experiments()
