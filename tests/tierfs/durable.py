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
    """Name -> (promised digest, digest of the change that was under way or None, whether that was a write)."""
    found = {}
    if os.path.exists(path):
        for line in open(path):
            kind, name, digest = line.split()
            if kind == "wrong":
                sys.exit(f"{name} was read wrong while the server lived")
            durable = found.get(name, ("none",))[0]
            found[name] = (digest, None, False) if kind == "durable" else (durable, digest, kind == "write")
    return found


def digest(data):
    return "none" if data is None else hashlib.sha256(data).hexdigest()


def begin(path, log, kind, name, before, after):
    """Promises that `name` holds `before` or `after`; keeps both, to judge a write that was cut."""
    for side, data in (("before", before), ("after", after)):
        with open(f"{path}.{name}.{side}", "wb") as file:
            file.write(data or b"")
    log.write(f"{kind} {name} {digest(after)}\n")


def is_cut(found, path, name):
    """Whether a write under way reached a page boundary. write(2) has not returned, and the kernel passes it on in
    several requests: a page of its own where it begins inside one that is not cached (fuse_fill_write_pages)."""
    before, after = (open(f"{path}.{name}.{side}", "rb").read() for side in ("before", "after"))
    ends = range(0, len(after) + 4096, 4096)
    return any(found == after[:end] + before[end:] for end in ends)


def explain(found, path, name):
    """Which blocks of a wrong file come from before, from after the change under way, or from nowhere."""
    sides = {side: open(f"{path}.{name}.{side}", "rb").read() for side in ("before", "after")}
    print(f"  {len(found)} bytes; " + ", ".join(f"{len(data)} {side}" for side, data in sides.items()), file=sys.stderr)
    runs = []
    for start in range(0, len(found), 4096):
        piece = found[start : start + 4096]
        from_sides = [side for side, data in sides.items() if data[start : start + len(piece)] == piece]
        what = "both" if len(from_sides) == 2 else from_sides[0] if from_sides else "neither"
        if runs and runs[-1][1] == what:
            runs[-1][2] = start // 4096
        else:
            runs.append([start // 4096, what, start // 4096])
    print("  blocks " + ", ".join(f"{first}-{last}: {what}" for first, what, last in runs), file=sys.stderr)


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
            begin(path, log, "write", name, known[name], changed)
            with open(target, "r+b" if os.path.exists(target) else "w+b", buffering=0) as file:
                file.seek(start)
                if file.write(piece) != len(piece):
                    raise OSError("short write")
                os.fsync(file.fileno())
        elif step < 0.6:
            changed = data[: rng.randrange(len(data) + 1)]
            begin(path, log, "truncate", name, known[name], changed)
            os.truncate(target, len(changed))
        elif step < 0.8:
            changed = bytearray(rng.randbytes(rng.randrange(1, 50_000)))
            begin(path, log, "replace", name, known[name], changed)
            with open(f"{target}.new", "wb", buffering=0) as file:
                file.write(changed)
                os.fsync(file.fileno())
            os.rename(f"{target}.new", target)
        elif step < 0.85:
            changed = None
            begin(path, log, "unlink", name, known[name], changed)
            os.unlink(target)
        else:
            if content(target) != data:
                log.write(f"wrong {name} {digest(data)}\n")
                raise SystemExit(f"{name} reads wrong")
            continue
        known[name] = changed
        log.write(f"durable {name} {digest(changed)}\n")


def verify(mount, path):
    wrong = 0
    known = promises(path)
    for name, (durable, under_way, is_write) in known.items():
        target = f"{mount}/{name}"
        data = content(target) if os.path.exists(target) else None
        # A change is there as a whole or not at all, a write at least as a whole number of pages; a new file may be
        # there without its first write.
        if digest(data) in (durable, under_way) or is_write and data is not None and is_cut(data, path, name):
            continue
        print(f"{name}: {digest(data)} is neither {durable} nor {under_way}", file=sys.stderr)
        if data is not None and under_way is not None:
            explain(data, path, name)
        wrong += 1
    with open(path, "w") as log:
        for name in known:
            target = f"{mount}/{name}"
            log.write(f"durable {name} {digest(content(target) if os.path.exists(target) else None)}\n")
    print(f"{len(known) - wrong} files as promised", file=sys.stderr)
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
