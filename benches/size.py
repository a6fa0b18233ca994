#!/usr/bin/env python3
"""Prints how large the program is at each commit, as a Markdown table.

    benches/size.py [COMMIT ...] [--program PATH]        default: HEAD

Counts Rust files below crates/:
  code           lines of src that are neither blank, comment, nor test
  tests          lines of tests/, tests.rs and `#[cfg(test)] mod` that are neither blank nor comment
  doc comments   lines that begin with /// or //!
  pub items      items that begin with `pub` (not `pub(crate)`), outside tests; fields are left out
With --program it also counts the verbs of `senesce --help` and the flags of their `--help`, without the global options and the experiments:
once for each verb, and once for each command below it.
"""
import re
import subprocess
import sys

ITEM = re.compile(r'\s*pub (?:(?:unsafe|const|async|extern "C") )*(?:fn|struct|enum|trait|type|mod|use|static|union|const) ')
TEST_FILE = re.compile(r'(^|/)(tests?\.rs$|tests/)')


def git(*arguments):
    return subprocess.run(['git', *arguments], check=True, capture_output=True, text=True).stdout


def split_tests(text):
    """Returns the lines outside and inside of test modules."""
    lines, outside, inside, at = text.split('\n'), [], [], 0
    while at < len(lines):
        if lines[at].strip() == '#[cfg(test)]' and re.match(r'(pub(\(\w+\))? )?mod \w+ \{', lines[at + 1].strip()):
            indent = lines[at][:len(lines[at]) - len(lines[at].lstrip())]
            end = lines.index(indent + '}', at)
            inside += lines[at:end + 1]
            at = end
        else:
            outside.append(lines[at])
        at += 1
    return outside, inside


def is_code(line):
    return bool(line.strip()) and not line.strip().startswith('//')


def sizes(commit):
    found = dict.fromkeys(['code', 'tests', 'doc comments', 'pub items'], 0)
    for path in git('ls-tree', '-r', '--name-only', commit, 'crates/').split():
        if not path.endswith('.rs'):
            continue
        text = git('show', f'{commit}:{path}')
        outside, inside = ([], text.split('\n')) if TEST_FILE.search(path) else split_tests(text)
        found['code'] += sum(map(is_code, outside))
        found['tests'] += sum(map(is_code, inside))
        found['doc comments'] += sum(line.strip().startswith(('///', '//!')) for line in outside + inside)
        found['pub items'] += sum(bool(ITEM.match(line)) for line in outside)
    return found


def help_of(program, *verb):
    return subprocess.run([program, *verb, '--help'], capture_output=True, text=True).stdout


def flags(program, *verb):
    """Returns the names of the flags of a command and of those below it, in order and with repetitions."""
    text = help_of(program, *verb)
    own = re.findall(r'^\s+(?:-\w, )?--([a-z][\w-]*)', text.split('\nGlobal options:')[0], re.M)
    own = [name for name in own if name != 'help']
    if verb == ('reproduce',):
        return own
    commands = re.search(r'^Commands:\n((?:  .*\n)+)', text, re.M)
    names = re.findall(r'^  (\w[\w-]*)', commands.group(1), re.M) if commands else []
    return own + [flag for name in names if name != 'help' for flag in flags(program, *verb, name)]


def surface(program):
    verbs = re.findall(r'^  ([a-z][\w-]+) ', help_of(program).split('\nOptions:')[0], re.M)
    found = [flags(program, verb) for verb in verbs]
    return {
        'verbs': len(verbs),
        'flags, per verb': sum(len(set(names)) for names in found),
        'flags, per command': sum(map(len, found)),
    }


def main():
    words = sys.argv[1:]
    program = words.pop(words.index('--program') + 1) if '--program' in words else None
    commits = [word for word in words if word != '--program'] or ['HEAD']
    columns = [sizes(commit) for commit in commits]
    print('| | ' + ' | '.join(git('rev-parse', '--short', commit).strip() for commit in commits) + ' |')
    print('|---' * (len(commits) + 1) + '|')
    for name in columns[0]:
        print(f'| {name} | ' + ' | '.join(f'{column[name]:,}' for column in columns) + ' |')
    if program:
        for name, count in surface(program).items():
            print(f'{name}: {count}')


main()
