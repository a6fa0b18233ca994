"""Load for the kill test: writes files and keeps a list, outside the file system, of what was promised to be durable.

write MOUNT LIST SEED   changes files until the server dies; a line of LIST follows each completed fsync
verify MOUNT LIST       compares every promise with what is there, then empties the list's history
"""
import hashlib
import os
import random
import sys

FILES = 24
MOST = 700_000


def content(path):
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return file.readall()


def promises(path):
    """Name -> (promised digest, digest of the change that was under way or None)."""
    found = {}
    if os.path.exists(path):
        for line in open(path):
            kind, name, digest = line.split()
            durable, _ = found.get(name, ("none", None))
            found[name] = (digest, None) if kind == "durable" else (durable, digest)
    return found


def digest(data):
    return "none" if data is None else hashlib.sha256(data).hexdigest()


def write(mount, path, seed):
    rng = random.Random(seed)
    known = {name: None for name in (f"file{n}" for n in range(FILES))}
    for name in known:
        if os.path.exists(f"{mount}/{name}"):
            known[name] = bytearray(content(f"{mount}/{name}"))
    log = open(path, "a", buffering=1)
    while True:
        name = rng.choice(list(known))
        data = known[name]
        step = rng.random()
        target = f"{mount}/{name}"
        if data is None or step < 0.5:
            data = bytearray() if data is None else data
            start = rng.randrange(len(data) + 1)
            piece = rng.randbytes(rng.choice([1, 100, 4096, 5000, 60_000, 200_000]))
            piece = piece[: max(1, MOST - start)]
            changed = data[:start] + piece + data[start + len(piece):]
            log.write(f"begun {name} {digest(changed)}\n")
            with open(target, "r+b" if os.path.exists(target) else "w+b", buffering=0) as file:
                file.seek(start)
                if file.write(piece) != len(piece):
                    raise OSError("short write")
                os.fsync(file.fileno())
        elif step < 0.6:
            changed = data[: rng.randrange(len(data) + 1)]
            log.write(f"begun {name} {digest(changed)}\n")
            os.truncate(target, len(changed))
        elif step < 0.8:
            changed = bytearray(rng.randbytes(rng.randrange(1, 50_000)))
            log.write(f"begun {name} {digest(changed)}\n")
            with open(f"{target}.new", "wb", buffering=0) as file:
                file.write(changed)
                os.fsync(file.fileno())
            os.rename(f"{target}.new", target)
        elif step < 0.85:
            changed = None
            log.write(f"begun {name} {digest(changed)}\n")
            os.unlink(target)
        else:
            if content(target) != data:
                raise SystemExit(f"{name} reads wrong")
            continue
        known[name] = changed
        log.write(f"durable {name} {digest(changed)}\n")


def verify(mount, path):
    wrong = 0
    known = promises(path)
    for name, allowed in known.items():
        target = f"{mount}/{name}"
        found = digest(content(target) if os.path.exists(target) else None)
        # A change is there as a whole or not at all; a new file may be there without its first write.
        just_made = allowed[0] == "none" and allowed[1] is not None and found == digest(b"")
        if found not in allowed and not just_made:
            print(f"{name}: {found} is not {allowed}", file=sys.stderr)
            wrong += 1
    with open(path, "w") as log:
        for name in known:
            target = f"{mount}/{name}"
            log.write(f"durable {name} {digest(content(target) if os.path.exists(target) else None)}\n")
    print(f"{len(known)} files as promised", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    verb, mount, path = sys.argv[1:4]
    if verb == "write":
        try:
            write(mount, path, int(sys.argv[4]))
        except (OSError, ConnectionError):
            pass
    else:
        verify(mount, path)
