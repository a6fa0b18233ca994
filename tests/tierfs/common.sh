# Sourced by the long tests of the tier file system. Needs root and /dev/fuse.
set -eu
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SENESCE=${SENESCE:-$ROOT/target/release/senesce}
TOOLS=${TOOLS:-$ROOT/target/test-tools}
ROOM=$(mktemp -d -p /dev/shm tierfs-test.XXXXXX)
MOUNT=$ROOM/mount
SERVER=
# Tests of permissions reach the mount point as other users.
chmod 755 "$ROOM"
mkdir "$MOUNT"

say() { echo "$*" >&2; }

if [ "$(id -u)" != 0 ] || [ ! -c /dev/fuse ]; then
    say "skipped: needs root and /dev/fuse"
    exit 0
fi

clean_up() {
    if [ -n "$SERVER" ]; then kill -9 "$SERVER" 2>/dev/null || true; fi
    umount -l "$MOUNT" 2>/dev/null || true
    rm -rf "$ROOM"
}
trap clean_up EXIT

# tool NAME VERSION: a program of another project, built once.
tool() {
    [ -x "$TOOLS/bin/$1" ] || cargo install --quiet "$1" --version "$2" --locked --root "$TOOLS"
    echo "$TOOLS/bin/$1"
}

# make_tier NVM_SIZE
make_tier() {
    rm -f "$ROOM/nvm" "$ROOM/cold"
    "$SENESCE" tier mkfs --nvm "$ROOM/nvm" --nvm-size "$1" --cold "$ROOM/cold"
}

# mount_tier OPTIONS...: mounts and leaves the server's pid in SERVER.
mount_tier() {
    "$SENESCE" tier mount --nvm "$ROOM/nvm" --cold "$ROOM/cold" --foreground "$@" "$MOUNT" 2>"$ROOM/log" &
    SERVER=$!
    for _ in $(seq 600); do
        if mountpoint -q "$MOUNT"; then return; fi
        if ! kill -0 "$SERVER" 2>/dev/null; then break; fi
        sleep 0.05
    done
    say "not mounted:"
    cat "$ROOM/log" >&2
    exit 1
}

# unmount_tier: unmounts, waits for the server, and checks what it left.
unmount_tier() {
    umount "$MOUNT"
    wait "$SERVER"
    SERVER=
    check_tier
}

check_tier() {
    "$SENESCE" tier check --nvm "$ROOM/nvm" --cold "$ROOM/cold"
}
