# Runs in the guest: tries each file system named; prints `FILE_SYSTEM ok|failed SECONDS words`.
small= large= zoned=
for disk in /sys/block/nvme*n*; do
  name=/dev/${disk##*/}
  if [ "$(cat "$disk/queue/zoned")" = host-managed ]; then zoned=$name
  elif [ "$(cat "$disk/size")" -le 262144 ]; then small=$name
  else large=$name
  fi
done
make() {
  case $1 in
    ext4) mkfs.ext4 -q -F "$large" ;;
    xfs) mkfs.xfs -q -f "$large" ;;
    btrfs) mkfs.btrfs -q -f "$large" ;;
    f2fs) mkfs.f2fs -q -f "$large" ;;
    nilfs2) mkfs.nilfs2 -q -f "$large" ;;
    zoned-btrfs) mkfs.btrfs -q -f -O zoned -m single -d single "$zoned" ;;
    zoned-f2fs) mkfs.f2fs -q -f -m -c "$zoned" "$small" ;;
  esac
}
try() {
  local device=$large kind=$1
  case $1 in
    zoned-btrfs) device=$zoned kind=btrfs ;;
    zoned-f2fs) device=$small kind=f2fs ;;
  esac
  # nilfs2's mount helper starts a cleaner that holds the device: the system call alone is wanted here.
  local mount="mount -i -t $kind $device /mnt"
  make "$1" </dev/null &&
    $mount &&
    head -c 2097152 /dev/urandom >/tmp/expected &&
    cp /tmp/expected /mnt/written && sync &&
    umount /mnt && echo 3 >/proc/sys/vm/drop_caches && $mount &&
    cmp /tmp/expected /mnt/written &&
    umount /mnt
}
for name in "$@"; do
  before=${EPOCHREALTIME/,/.}
  said=$(try "$name" 2>&1) && state=ok || state=failed
  [ "$state" = ok ] || umount -l /mnt 2>/dev/null
  after=${EPOCHREALTIME/,/.}
  [ "$state" = ok ] && said=
  echo "$name $state $(awk "BEGIN{print $after - $before}") $(tr "\n" " " <<<"$said" | tail -c 200)"
done
