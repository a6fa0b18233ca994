//! The same measurements over the two versions of the library, whose types are different ones.

macro_rules! side {
    ($side:ident, $core:ident) => {
        pub mod $side {
            use crate::{Times, calls, drive};
            use std::io;
            use std::path::Path;
            use $core::Bytes;
            use $side::format::{Identity, ROOT_INO};
            use $side::open::format_region;
            use $side::pair::{MakeRequest, make};
            use $side::serve::{Memory, MountRequest, Server};
            use $side::{ColdStore, MappedNvm, NewInode, Options, SetAttr, TierFs};

            const FILE: u32 = libc::S_IFREG | 0o644;
            const BYTES: u64 = 128 << 20;

            struct Unused;

            impl ColdStore for Unused {
                fn read(&self, _: u32, _: &mut [u8]) -> io::Result<()> {
                    Err(io::ErrorKind::Unsupported.into())
                }
                fn write(&self, _: u32, _: &[u8]) -> io::Result<()> {
                    Err(io::ErrorKind::Unsupported.into())
                }
                fn sync(&self) -> io::Result<()> {
                    Ok(())
                }
                fn describe(&self) -> String {
                    "unused".into()
                }
            }

            fn new(mode: u32) -> NewInode<'static> {
                NewInode { mode, uid: 0, gid: 0, rdev: 0, target: b"" }
            }

            fn hot() -> Options {
                Options { threshold: Bytes::gib(64), ..Options::default() }
            }

            fn empty() -> TierFs {
                let identity = Identity { pair: [7; 16], blocks: BYTES / 4096, slots: 1000 };
                let nvm = format_region(Box::new(MappedNvm::anonymous(BYTES).unwrap()), &identity).unwrap();
                TierFs::open(nvm, Box::new(Unused), Path::new("region"), &hot()).unwrap()
            }

            pub fn core(times: &mut Times) {
                const COUNT: usize = 10_000;
                let fs = empty();
                let names =
                    |word: &str| -> Vec<String> { (0..COUNT).map(|number| format!("{word}-{number}")).collect() };
                let (files, others) = (names("file"), names("name"));
                let mut inos = Vec::new();
                calls(&mut times[0], COUNT, |n| {
                    inos.push(fs.create(ROOT_INO, files[n].as_bytes(), &new(FILE)).unwrap().ino);
                });
                let folder = |n: usize| fs.create(ROOT_INO, format!("d{n}").as_bytes(), &new(libc::S_IFDIR | 0o755));
                let folders: Vec<u32> = (0..COUNT / 200).map(|n| folder(n).unwrap().ino).collect();
                calls(&mut times[1], COUNT, |n| fs.create(folders[n / 200], files[n].as_bytes(), &new(FILE)).unwrap());
                calls(&mut times[2], COUNT, |n| fs.lookup(ROOT_INO, files[n * 7 % COUNT].as_bytes()).unwrap());
                calls(&mut times[3], COUNT, |n| fs.get_attr(inos[n * 7 % COUNT]).unwrap());
                content(&fs, &inos, times);
                let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
                calls(&mut times[9], COUNT, |n| fs.set_attr(inos[n], &mode).unwrap());
                calls(&mut times[10], COUNT, |n| {
                    fs.rename(ROOT_INO, files[n].as_bytes(), ROOT_INO, others[n].as_bytes(), false).unwrap();
                });
                calls(&mut times[11], COUNT, |n| {
                    fs.unlink(ROOT_INO, others[n].as_bytes()).unwrap();
                    fs.forget(inos[n], 2);
                });
            }

            /// Writes and reads of a hundred files of 80 blocks.
            fn content(fs: &TierFs, inos: &[u32], times: &mut Times) {
                let (data, mut out) = (vec![5; 131_072], [0; 4096]);
                let block = |n: usize| (n * 37 % 80) as u64 * 4096;
                calls(&mut times[4], 8000, |n| {
                    fs.write(inos[n / 80], (n % 80) as u64 * 4096, &data[..4096], false).unwrap()
                });
                calls(&mut times[5], 10_000, |n| fs.write(inos[n % 100], block(n), &data[..4096], false).unwrap());
                calls(&mut times[6], 10_000, |n| fs.write(inos[n % 100], block(n) + 16, &data[..8], false).unwrap());
                calls(&mut times[7], 1000, |n| {
                    fs.write(inos[n % 100], (n % 2) as u64 * 131_072, &data, false).unwrap()
                });
                calls(&mut times[8], 10_000, |n| fs.read(inos[n % 100], block(n), &mut out).unwrap());
            }

            /// Calls on a mount of a new file system.
            pub fn fuse(room: &Path, threads: usize, times: &mut Times) {
                let (nvm, cold, mount_point) = (room.join("nvm"), room.join("cold"), room.join("mount"));
                let nvm_size = Some(Bytes(BYTES));
                make(&MakeRequest {
                    nvm: nvm.clone(),
                    nvm_size,
                    cold: cold.clone(),
                    cold_size: None,
                    erase: Vec::new(),
                })
                .unwrap();
                let memory = Memory::File(nvm.clone());
                let (options, cold_latency) = (hot(), None);
                let request = MountRequest { memory, cold: cold.clone(), mount_point, options, threads, cold_latency };
                let server = Server::start(request).unwrap();
                drive(&room.join("mount"), times);
                server.stop().unwrap();
                [nvm, cold].into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
            }
        }
    };
}

side!(before, before_core);
side!(now, now_core);
