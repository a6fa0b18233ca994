//! Loop images in memory, in states that the rules must predict.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Image {
    directory: tempfile::TempDir,
    mounted: bool,
}

pub fn mkfs(name: &str) -> &'static str {
    match name {
        "ext4" => "mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0",
        "ext4 with bigalloc" => "mkfs.ext4 -qF -O bigalloc",
        "ext4 with inline data" => "mkfs.ext4 -qF -O inline_data -I 256",
        "ext3" => "mkfs.ext3 -qF -b 4096",
        "btrfs with metadata once" => "mkfs.btrfs -qf -m single",
        "xfs" => "mkfs.xfs -qf",
        "xfs without sparse inodes" => "mkfs.xfs -qf -i sparse=0",
        _ => "mkfs.btrfs -qf",
    }
}

impl Image {
    pub fn new(name: &str, mib: u64) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let image = Self { directory, mounted: false };
        File::create(image.path()).unwrap().set_len(mib << 20).unwrap();
        std::fs::create_dir(image.point()).unwrap();
        run(&format!("{} {}", mkfs(name), image.path().display()));
        image
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    pub fn point(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn mount(&mut self, options: &str) {
        run(&format!("mount -o loop,{options} {} {}", self.path().display(), self.point().display()));
        self.mounted = true;
    }

    pub fn unmount(&mut self) {
        run(&format!("umount {}", self.point().display()));
        self.mounted = false;
    }

    pub fn copy(&self) -> Self {
        let directory = tempfile::tempdir_in(self.directory.path().parent().unwrap()).unwrap();
        let copy = Self { directory, mounted: false };
        std::fs::create_dir(copy.point()).unwrap();
        run(&format!("cp --sparse=always {} {}", self.path().display(), copy.path().display()));
        copy
    }

    pub fn digest(&self) -> String {
        run(&format!("b2sum < {}", self.path().display()))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(self.point()).status();
        }
    }
}

fn shell(command: &str) -> Result<String, String> {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

pub fn run(command: &str) -> String {
    shell(command).unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// Reproducible pseudo-random numbers (SplitMix64; Steele et al., OOPSLA 2014).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}

fn used(root: &Path) -> f64 {
    let found = rustix::fs::statvfs(root).unwrap();
    1.0 - found.f_bfree as f64 / found.f_blocks as f64
}

/// Creates files of mixed sizes to this fullness, then deletes and creates at random until `turns` times the size was
/// written.
pub fn grow(root: &Path, fullness: f64, turns: f64, seed: u64) {
    const SIZES: [usize; 7] = [0, 1000, 4096, 12_000, 40_000, 130_000, 600_000];
    let mut numbers = Numbers(seed);
    let data = vec![0u8; 600_000];
    let found = rustix::fs::statvfs(root).unwrap();
    let capacity = (found.f_blocks * found.f_frsize) as f64;
    let (mut live, mut written, mut next) = (Vec::new(), 0.0, 0u64);
    for directory in 0..24 {
        std::fs::create_dir_all(root.join(format!("d{directory}"))).unwrap();
    }
    loop {
        for _ in 0..16 {
            let size = SIZES[numbers.below(7) as usize];
            let path = root.join(format!("d{}/f{next}", numbers.below(24)));
            next += 1;
            if std::fs::write(&path, &data[..size]).is_err() {
                let _ = std::fs::remove_file(&path);
                return;
            }
            live.push(path);
            written += size as f64;
        }
        if used(root) >= fullness {
            if written > turns * capacity {
                return;
            }
            for _ in 0..160.min(live.len()) {
                let chosen = live.swap_remove(numbers.below(live.len() as u64) as usize);
                std::fs::remove_file(chosen).unwrap();
            }
            run(&format!("sync -f {}", root.display()));
        }
    }
}

/// Fills the whole file system with one file and punches `holes` of `every` blocks of 4 KiB out of it.
pub fn punch(root: &Path, holes: u64, every: u64) {
    use std::io::Write;
    let mut file = File::create(root.join("large")).unwrap();
    let data = vec![0u8; 1 << 20];
    let mut length = 0;
    while let Ok(count) = file.write(&data) {
        length += count as u64;
    }
    let _ = file.sync_all();
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    for index in 0..length / 4096 / every {
        let (at, bytes) = ((index * every * 4096) as i64, (holes * 4096) as i64);
        // SAFETY: fallocate takes numbers and an open descriptor.
        assert_eq!(unsafe { libc::fallocate(file.as_raw_fd(), mode, at, bytes) }, 0);
    }
    file.sync_all().unwrap();
}

/// Fragmented files: written in turns, each piece made durable.
pub fn scatter(root: &Path, files: u64, pieces: u64) {
    use std::io::Write;
    std::fs::create_dir_all(root.join("scattered")).unwrap();
    let open =
        |file: u64| File::options().append(true).create(true).open(root.join(format!("scattered/{file:04}"))).unwrap();
    let data = vec![0u8; 16 << 10];
    for _ in 0..pieces {
        for file in 0..files {
            let mut file = open(file);
            file.write_all(&data).unwrap();
            file.sync_data().unwrap();
        }
    }
}
