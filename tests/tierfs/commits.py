"""Load for the kill test: commits to SQLite databases and appends to a log, each acknowledged outside the file system.

write MOUNT LIST SEED   commits until the server dies; a line of LIST follows each commit that was acknowledged
verify MOUNT LIST       compares what was acknowledged with what is there, then prints how much that was
"""
import hashlib
import os
import random
import sqlite3
import sys
import threading

# Both ways of SQLite to commit: a journal that is deleted, and a log that is written ahead (and mapped).
JOURNALS = ("delete", "wal")


def content(kind, number):
    """What commit `number` stores: 1 to 9000 bytes that follow from its number."""
    rng = random.Random(f"{kind}-{number}")
    return rng.randbytes(rng.choice([1, 50, 900, 4096, 9000]))


def acknowledged(path):
    """Kind -> greatest number that was acknowledged."""
    found = {}
    if os.path.exists(path):
        for line in open(path):
            if line.endswith("\n"):
                kind, number = line.split()
                found[kind] = max(found.get(kind, 0), int(number))
    return found


def open_database(mount, journal):
    database = sqlite3.connect(f"{mount}/{journal}.db", timeout=30, isolation_level=None)
    database.execute(f"PRAGMA journal_mode={journal}")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE IF NOT EXISTS commits(number INTEGER PRIMARY KEY, content BLOB)")
    return database


def commit(mount, journal, acknowledge, seed):
    rng = random.Random(f"{journal}-{seed}")
    database = open_database(mount, journal)
    number = database.execute("SELECT coalesce(max(number), 0) FROM commits").fetchone()[0]
    while True:
        database.execute("BEGIN IMMEDIATE")
        last = number + rng.choice([1, 1, 1, 20])
        for each in range(number + 1, last + 1):
            database.execute("INSERT INTO commits VALUES(?, ?)", (each, content(journal, each)))
        # Pages are freed and used again.
        database.execute("DELETE FROM commits WHERE number < ? AND number > 0", (number - 300,))
        database.execute("COMMIT")
        number = last
        acknowledge(journal, number)


def records(mount):
    """Bytes of the log, and where each of its whole records ends."""
    path = f"{mount}/log"
    data = open(path, "rb").read() if os.path.exists(path) else b""
    ends, at = [0], 0
    while True:
        at += len(content("append", len(ends)))
        if at > len(data):
            return data, ends
        ends.append(at)


def append(mount, acknowledge):
    _, ends = records(mount)
    number = len(ends) - 1
    with open(f"{mount}/log", "ab", buffering=0) as log:
        log.truncate(ends[-1])
        while number < 3000:
            number += 1
            data = content("append", number)
            if log.write(data) != len(data):
                raise OSError("short write")
            os.fsync(log.fileno())
            acknowledge("append", number)


def write(mount, path, seed):
    log, lock = open(path, "a", buffering=1), threading.Lock()

    def acknowledge(kind, number):
        with lock:
            log.write(f"{kind} {number}\n")

    def until_it_dies(work, *arguments):
        try:
            work(mount, *arguments)
        except (OSError, sqlite3.Error):
            pass

    threads = [threading.Thread(target=until_it_dies, args=(commit, journal, acknowledge, seed)) for journal in JOURNALS]
    threads.append(threading.Thread(target=until_it_dies, args=(append, acknowledge)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def verify(mount, path):
    found, wrong = acknowledged(path), []
    for journal in JOURNALS:
        last = found.get(journal, 0)
        if not os.path.exists(f"{mount}/{journal}.db"):
            wrong += [f"{journal}: the database is gone"] if last else []
            continue
        database = open_database(mount, journal)
        state = database.execute("PRAGMA integrity_check").fetchone()[0]
        rows = dict(database.execute("SELECT number, content FROM commits"))
        first = max(1, max(rows, default=0) - 300)
        missing = [number for number in range(first, last + 1) if rows.get(number) != content(journal, number)]
        if state != "ok" or missing or max(rows, default=0) < last:
            wrong.append(f"{journal}: {state}; of {last} acknowledged commits these are wrong: {missing[:5]}")
        database.close()
    data, ends = records(mount)
    if len(ends) - 1 < found.get("append", 0):
        wrong.append(f"append: {len(ends) - 1} records of {found['append']}")
    for number, (start, end) in enumerate(zip(ends, ends[1:]), 1):
        if data[start:end] != content("append", number):
            wrong.append(f"append: record {number} is wrong")
            break
    if len(ends) > 2900:
        os.unlink(f"{mount}/log")
        with open(path) as log:
            kept = [line for line in log if not line.startswith("append ")]
        with open(path, "w") as log:
            log.writelines(kept)
    for each in wrong:
        print(each, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    verb, mount, path = sys.argv[1:4]
    if verb == "write":
        write(mount, path, int(sys.argv[4]))
    else:
        verify(mount, path)
