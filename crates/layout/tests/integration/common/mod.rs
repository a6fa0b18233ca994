//! Loop images with file systems, for tests as root.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Unmounted and deleted on drop.
pub struct Image {
    directory: tempfile::TempDir,
    mounted: bool,
}

impl Image {
    pub fn new(mkfs: &str, mib: u64) -> Self {
        let in_memory = Path::new("/dev/shm");
        let directory = match in_memory.is_dir() {
            true => tempfile::tempdir_in(in_memory),
            false => tempfile::tempdir(),
        };
        let mut image = Self { directory: directory.unwrap(), mounted: false };
        std::fs::File::create(image.path()).unwrap().set_len(mib << 20).unwrap();
        std::fs::create_dir(image.mount_point()).unwrap();
        let path = image.path();
        run(&format!("{mkfs} {}", path.display()));
        image.mount("");
        image
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    pub fn mount_point(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }

    pub fn mount(&mut self, options: &str) {
        run(&format!("mount -o loop,{options} {} {}", self.path().display(), self.mount_point().display()));
        self.mounted = true;
    }

    pub fn unmount(&mut self) {
        // Busy for a moment if a process uses a copy of the mount in another namespace.
        let tries = "for i in $(seq 100); do umount \"$0\" && exit; done; exit 1"
            .replace("$0", &self.mount_point().to_string_lossy());
        run(&tries);
        self.mounted = false;
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(self.mount_point()).status();
        }
    }
}

/// Runs a shell command and returns its output; panics if it fails.
pub fn run(command: &str) -> String {
    try_run(command).unwrap_or_else(|| panic!("failed: {command}"))
}

fn try_run(command: &str) -> Option<String> {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    if !output.status.success() {
        eprintln!("{command}: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64 (Steele et al., OOPSLA 2014).
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}

/// Creates about `files` files in a tree and ages it slightly: small and large files, interleaved appends, deletions, holes,
/// unwritten ranges, hard links, empty files.
pub fn grow_tree(root: &Path, files: u64) {
    use std::fs::{self, File};
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    let mut numbers = Numbers(7);
    let name = |number: u64| root.join(format!("d{}/e{}/f{number}", number % 7, number % 53));
    for directory in 0..7 * 53 {
        fs::create_dir_all(name(directory).parent().unwrap()).unwrap();
    }
    let data = vec![7u8; 64 << 10];
    for number in 0..files {
        let length = if numbers.below(8) == 0 { numbers.below(60_000) } else { numbers.below(9000) };
        fs::write(name(number), &data[..length as usize]).unwrap();
        if number % 3 == 2 && numbers.below(2) == 0 {
            fs::remove_file(name(number - 2)).unwrap();
        }
    }
    run(&format!("sync -f {}", root.display()));
    for round in 0..6u64 {
        for number in (0..files).filter(|number| number % 97 == 1) {
            if let Ok(mut file) = File::options().append(true).open(name(number)) {
                file.write_all(&data[..4096 * (1 + round as usize % 2)]).unwrap();
                file.sync_data().unwrap();
            }
        }
    }
    for number in (0..files).filter(|number| number % 101 == 5) {
        let Ok(file) = File::options().write(true).open(name(number)) else { continue };
        file.write_all_at(&data[..5000], 300_000 + numbers.below(100_000)).unwrap();
        let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 200_000, 40_000);
    }
    for number in (0..files).filter(|number| number % 211 == 8) {
        let _ = fs::hard_link(name(number), root.join(format!("link{number}")));
    }
    run(&format!("sync -f {}", root.display()));
}
