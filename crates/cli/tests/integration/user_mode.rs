//! Tests guests of user-mode Linux.

mod built_kernels;
mod verbs;

use crate::common::{json, stderr, wait_until};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

/// What the host permits, and so the confinement of the kernel.
#[derive(Debug, Clone, Copy)]
enum Host {
    Namespaces,
    /// A limit of this user namespace, not of the machine, forbids others.
    NoNamespaces,
}

const HOSTS: [Host; 2] = [Host::Namespaces, Host::NoNamespaces];

impl Host {
    /// The program with the cache of this machine, which holds the user-mode kernel.
    fn senesce(self, folder: &Path, words: &[&str]) -> Command {
        let program = assert_cmd::cargo::cargo_bin!("senesce");
        let mut command = Command::new(if matches!(self, Self::Namespaces) { program } else { Path::new("unshare") });
        if matches!(self, Self::NoNamespaces) {
            let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
            command.args(["-Ur", "sh", "-c", script]).arg(program);
        }
        command.current_dir(folder).args(words);
        command
    }

    fn in_guest(self, folder: &Path, words: &[&str]) -> Output {
        let run = ["vm", "run", "--engine", "uml", "--memory", "600M", "--time-limit", "5min", "--"];
        self.senesce(folder, &[&run, words].concat()).output().expect("run senesce")
    }
}

fn senesce(folder: &Path, words: &[&str]) -> Output {
    Host::Namespaces.senesce(folder, words).output().expect("run senesce")
}

fn sh(folder: &Path, script: &str) -> Output {
    Host::Namespaces.in_guest(folder, &["sh", "-c", script])
}

#[test]
#[ignore = "needs the user-mode kernel"]
fn exit_status_and_output_are_returned() {
    let folder = tempfile::tempdir().unwrap();
    for host in HOSTS {
        let output = host.in_guest(folder.path(), &["sh", "-c", "echo out; echo err >&2; id -u; exit 7"]);
        assert_eq!(output.status.code(), Some(7), "{host:?} {}", stderr(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n0\n");
        assert!(stderr(&output).contains("err"));
        assert_eq!(stderr(&output).contains("Landlock"), matches!(host, Host::NoNamespaces));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{host:?}: the guest wrote nothing");
    }
}

#[test]
#[ignore = "needs the user-mode kernel"]
fn guest_starts_in_any_folder() {
    for host in HOSTS {
        for folder in ["/", "/tmp", "/var/tmp", "/dev/shm"].map(Path::new) {
            let output = host.in_guest(folder, &["pwd"]);
            let shown = String::from_utf8_lossy(&output.stdout).into_owned();
            let found = (output.status.code(), shown.trim_end());
            assert_eq!(found, (Some(0), folder.to_str().unwrap()), "{host:?} {}", stderr(&output));
        }
    }
}

#[test]
#[ignore = "needs the user-mode kernel"]
fn guest_sees_programs_and_shares_only() {
    let folder = tempfile::tempdir().unwrap();
    let (work, secret) = (folder.path().join("work"), folder.path().join("secret"));
    std::fs::create_dir(&work).unwrap();
    std::fs::write(&secret, "1").unwrap();
    let before = std::fs::metadata(&secret).unwrap();
    // The kernel of the guest shows all that its own process may open. Landlock does not hide names.
    let script = format!(
        "mkdir /all && mount -t hostfs all /all -o / && cd /all && \
         for path in etc/shadow etc/hosts root/.bashrc home/* tmp/* var/tmp/* dev/shm/* run/senesce {secret} proc/{process}/environ; do \
           cat \"$path\" > /dev/null 2>&1 && echo \"sees $path\"; done; \
         for path in home root {folder}; do ls -A $path 2>/dev/null; done; \
         for path in usr/x etc/x guest/x x; do (echo 1 > $path) 2>/dev/null && echo \"writes $path\"; done; \
         for change in 'touch {folder}/x' 'chmod 777' 'touch -d 2001-01-01' 'chown 7' 'truncate -s 9' rm; do \
           $change {secret} 2>/dev/null; done; \
         echo done > {results}/seen",
        folder = &folder.path().display().to_string()[1..],
        secret = &secret.display().to_string()[1..],
        process = std::process::id(),
        results = work.join("senesce-runs").display(),
    );
    for host in HOSTS {
        let output = host.in_guest(&work, &["sh", "-c", &script]);
        assert!(output.status.success(), "{host:?} {}", stderr(&output));
        // In namespaces, the folder has nothing but the working directory.
        assert_eq!(String::from_utf8_lossy(&output.stdout).replace("work\n", ""), "", "{host:?}");
        assert_eq!(std::fs::read_to_string(work.join("senesce-runs/seen")).unwrap(), "done\n");
        std::fs::remove_file(work.join("senesce-runs/seen")).unwrap();
        let state =
            |found: &std::fs::Metadata| (found.mode(), found.uid(), found.len(), found.ctime(), found.ctime_nsec());
        assert_eq!(state(&std::fs::metadata(&secret).unwrap()), state(&before), "{host:?}");
        assert!(!folder.path().join("x").exists(), "{host:?}");
    }
}

#[test]
#[ignore = "needs the user-mode kernel"]
fn aging_of_an_image_stays_on_the_host_with_its_layout() {
    for host in HOSTS {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("senesce-runs")).unwrap();
        let words = "senesce age image:senesce-runs/a.img,size=64M --overwrites 1 --truncate-sizes --no-cost --out senesce-runs/a --json";
        let output = host.in_guest(folder.path(), &words.split(' ').collect::<Vec<_>>());
        let aged = json(&output);
        let method = if matches!(host, Host::Namespaces) { "namespaces" } else { "landlock" };
        let facts = &aged["environment"];
        assert_eq!((&aged["stopped_by"], &facts["vm.accelerator"]), (&"overwrites".into(), &"uml".into()));
        assert_eq!(facts["vm.confinement"], method);
        let known = json(&senesce(folder.path(), &["vm", "list", "--json"]));
        let releases: Vec<&Value> = known["kernels"].as_array().unwrap().iter().map(|one| &one["release"]).collect();
        assert!(releases.contains(&&facts["vm.kernel"]), "{facts}");
        let seen = json(&senesce(folder.path(), &["layout", "senesce-runs/a.img", "--json"]));
        for key in ["extents", "fragmented_files", "files"] {
            assert_eq!(seen[key], aged["layout"][key], "{key}");
        }
        let verified = senesce(folder.path(), &["verify", "senesce-runs/a"]);
        assert!(verified.status.success(), "{host:?} {}", stderr(&verified));
    }
}

#[test]
#[ignore = "needs the user-mode kernel"]
fn other_ends_of_a_user_mode_kernel_have_their_own_status() {
    crate::vm::other_ends_have_their_own_status("uml");
}

#[test]
#[ignore = "needs the user-mode kernel"]
fn guest_ends_with_a_killed_senesce() {
    for host in HOSTS {
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().join("senesce-runs/begun");
        let script = format!("echo > {}; sync; sleep 1000", marker.display());
        let mut command = host.senesce(folder.path(), &["vm", "run", "--engine", "uml", "--", "sh", "-c", &script]);
        let mut child = command.spawn().unwrap();
        wait_until(|| marker.exists());
        let running = kernels_below(child.id());
        assert!(!running.is_empty(), "{host:?}");
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        let is_gone = |pid: &u32| !Path::new(&format!("/proc/{pid}/exe")).exists();
        wait_until(|| running.iter().all(is_gone));
    }
}

#[test]
#[ignore = "needs root, the user-mode kernel"]
fn guest_of_root_runs_as_another_user_and_makes_files_of_root() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("senesce-runs");
    std::fs::create_dir(&shared).unwrap();
    // Root's and another user's: only root may read them.
    for (name, owner) in [("of-root", 0), ("of-daemon", 1)] {
        let path = shared.join(name);
        std::fs::write(&path, name).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
    }
    let at = |name: &str| shared.join(name).display().to_string();
    let script = format!(
        "cat {}; cat {} 2>/dev/null && echo sees; echo 1 > {begun}; sync; while [ ! -e {end} ]; do sleep 0.1; done",
        at("of-root"),
        at("of-daemon"),
        begun = at("begun"),
        end = at("end")
    );
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("senesce"));
    command.current_dir(folder.path()).args(["vm", "run", "--engine", "uml", "--", "sh", "-c", &script]);
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    wait_until(|| shared.join("begun").exists());
    let kernels = kernels_below(child.id());
    let owner = |pid: &u32| std::fs::metadata(format!("/proc/{pid}/status")).unwrap().uid();
    let owners: Vec<u32> = kernels.iter().map(owner).collect();
    std::fs::write(shared.join("end"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && !owners.is_empty() && !owners.contains(&0), "{owners:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "of-root");
    assert_eq!(std::fs::metadata(shared.join("begun")).unwrap().uid(), 0);
}

#[test]
#[ignore = "needs loop devices, the user-mode kernel"]
fn guest_keeps_no_mount_of_the_host_alive() {
    let folder = tempfile::tempdir().unwrap();
    // Mounts in the working directory are visible in the guest.
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (image, point, begun) = (path("image"), path("point"), path("work/senesce-runs/begun"));
    let host = |script: &str| assert!(Command::new("sh").args(["-ec", script]).status().unwrap().success(), "{script}");
    host(&format!(
        "PATH=$PATH:/sbin:/usr/sbin; truncate -s 8M {image}; mkfs.ext4 -q {image}; mkdir {point}; mount -o loop {image} {point}; \
         findmnt -no SOURCE {point} > {image}.device"
    ));
    let device = std::fs::read_to_string(format!("{image}.device")).unwrap();
    let alive = Path::new("/sys/fs/ext4").join(device.trim().trim_start_matches("/dev/"));
    assert!(alive.exists());
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("senesce"));
    let script = format!("echo > {begun}; sync; sleep 1000");
    command.current_dir(&work).args(["vm", "run", "--engine", "uml", "--", "sh", "-c", &script]);
    let mut child = command.spawn().unwrap();
    wait_until(|| Path::new(&begun).exists());
    host(&format!("umount {point}"));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    wait_until(|| !alive.exists() || std::time::Instant::now() > deadline);
    let is_gone = !alive.exists();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    assert!(is_gone);
}

#[test]
#[ignore = "needs root, the user-mode kernel"]
fn landlock_confines_where_mounts_are_forbidden() {
    let folder = tempfile::tempdir().unwrap();
    // As in a chroot, which cannot make user namespaces; here its tree is a second view of the host's.
    let script = "mount --rbind / \"$1\" && cd \"$1$2\" && exec chroot \"$1\" sh -c 'cd \"$1\" && exec \"$0\" vm run --engine uml \
                  -- sh -c \"exit 7\"' \"$0\" \"$2\"";
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(assert_cmd::cargo::cargo_bin!("senesce")).arg(root).arg(folder.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(stderr(&output).contains("Landlock"), "{}", stderr(&output));
}

/// As an ordinary user in a chroot, where the guest shows the owners of the host.
#[test]
#[ignore = "needs root, the user-mode kernel"]
fn user_in_a_chroot_reads_images_and_continues_runs() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mkdir \"$1/root\" \"$1/cache\" \"$1/home\" && mount --bind \"${XDG_CACHE_HOME:-$HOME/.cache}\" \"$1/cache\" && \
                  chown 65534:65534 \"$1\" \"$1/home\" && mount --rbind / \"$1/root\" && \
                  exec chroot --userspec=65534:65534 \"$1/root\" sh -c 'cd \"$1/home\" && export XDG_CACHE_HOME=\"$1/cache\" && \
                  \"$0\" age image:a.img,size=64M --overwrites 1 --truncate-sizes --no-cost --out aged && \
                  \"$0\" --vm layout a.img && \"$0\" --vm verify aged && \
                  cp \"$1/study.toml\" . && \"$0\" --vm study study.toml --out studied && \
                  for turn in 1 2; do \"$0\" --vm reproduce zns-finish --scale smoke --out run && \"$0\" --vm report run || exit; done' \"$0\" \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(assert_cmd::cargo::cargo_bin!("senesce")).arg(folder.path());
    std::fs::write(folder.path().join("study.toml"), verbs::STUDY).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{} {}", String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(stderr(&output).contains("Landlock"), "{}", stderr(&output));
}

/// In a mount namespace of its own, with a copy of /etc.
#[test]
#[ignore = "needs root, the user-mode kernel"]
fn shared_settings_of_the_host_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cp -a /etc copy && mount --bind copy /etc && sha256sum /etc/passwd > before && \
                  \"$0\" vm run --engine uml --share /etc -- test -e /etc/passwd && sha256sum -c before";
    let mut command = Command::new("unshare");
    command.current_dir(folder.path()).args(["-m", "sh", "-c", script]).arg(assert_cmd::cargo::cargo_bin!("senesce"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{} {}", String::from_utf8_lossy(&output.stdout), stderr(&output));
}

/// The kernel of most distributions has no realtime devices.
#[test]
#[ignore = "needs the user-mode kernel, XFS in it"]
fn free_space_of_an_xfs_with_a_realtime_device_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("senesce-runs")).unwrap();
    let script = "set -e; PATH=$PATH:/sbin:/usr/sbin; cd /dev/shm; truncate -s 320M data; truncate -s 200M rt; \
                  data=$(losetup -f --show data); rt=$(losetup -f --show rt); \
                  mkfs.xfs -q -r rtdev=$rt -d rtinherit=1 $data; mkdir /mnt/x; mount -t xfs -o rtdev=$rt $data /mnt/x; \
                  for i in 1 2 3; do head -c 100000 /dev/zero > /mnt/x/f$i; done; sync; \
                  senesce diagnose /mnt/x --json > $OLDPWD/senesce-runs/d.json; senesce layout /mnt/x --json";
    let output = sh(folder.path(), script);
    let layout = json(&output);
    assert_eq!((&layout["files"], &layout["free_space"]), (&3.into(), &Value::Null), "{}", stderr(&output));
    let text = std::fs::read_to_string(folder.path().join("senesce-runs/d.json")).unwrap();
    let diagnosed: Value = serde_json::from_str(&text).unwrap();
    for key in ["creatable", "longest_free"] {
        assert_eq!(diagnosed[key], Value::Array(Vec::new()), "{key}");
    }
}

/// The kernel of many machines has no quotas.
#[test]
#[ignore = "needs the user-mode kernel, XFS in it"]
fn quotas_end_an_aging_with_their_limit() {
    let folder = tempfile::tempdir().unwrap();
    let script = "set -e; PATH=$PATH:/sbin:/usr/sbin; cd /dev/shm; truncate -s 320M data; mkfs.xfs -q data; mkdir /mnt/x; \
                  mount -o loop,prjquota,usrquota data /mnt/x; mkdir /mnt/x/project /mnt/x/user; \
                  xfs_quota -x -c 'project -s -p /mnt/x/project 42' -c 'limit -p bhard=20m 42' /mnt/x >&2; \
                  xfs_quota -x -c 'limit -u bhard=20m 65534' /mnt/x; chmod 1777 /mnt/x/user; \
                  chmod 1777 .; options='--size 64M --fullness 0.5 --overwrites 1 --no-cost --out'; \
                  senesce age /mnt/x/project $options project || echo $?; \
                  setpriv --reuid 65534 --regid 65534 --clear-groups senesce age /mnt/x/user $options user || echo $?";
    let output = sh(folder.path(), script);
    // A project's limit is the free space, before the first file. A user's limit shows only when it is reached.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n5\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("EDQUOT"));
}

/// Many kernels have no F2FS.
#[test]
#[ignore = "needs the user-mode kernel, F2FS in it"]
fn blocks_of_f2fs_are_free_or_of_files_directories_and_nodes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("senesce-runs")).unwrap();
    let script = "set -e; PATH=$PATH:/sbin:/usr/sbin; cd /dev/shm; truncate -s 200M data; mkfs.f2fs -q data; \
                  mkdir /mnt/f; mount -t f2fs $(losetup -f --show data) /mnt/f; \
                  for i in $(seq 300); do head -c $((i % 60 * 4096 + 4096)) /dev/zero > /mnt/f/a$i; done; sync; \
                  rm /mnt/f/a*7; sync; cat /proc/fs/f2fs/loop*/segment_info > $OLDPWD/senesce-runs/segments; \
                  senesce layout /mnt/f --json";
    let output = sh(folder.path(), script);
    let layout = json(&output);
    let segments = std::fs::read_to_string(folder.path().join("senesce-runs/segments")).unwrap();
    let valid: Vec<u64> =
        segments.split('|').skip(2).map(|rest| rest.split_whitespace().next().unwrap()).map(number).collect();
    let used: u64 = valid.iter().sum();
    let free = &layout["free_space"];
    assert_eq!(free["free_blocks"].as_u64(), Some(512 * valid.len() as u64 - used), "{}", stderr(&output));
    assert!(free["extents"].as_u64() > Some(10));
    // One node per file; the root directory has a node and at least one block.
    let nodes = used - layout["blocks"].as_u64().unwrap() - layout["files"].as_u64().unwrap();
    assert!((2..8).contains(&nodes), "{nodes}");
}

fn number(word: &str) -> u64 {
    word.parse().unwrap()
}

/// Processes of the user-mode kernel that descend from a process.
fn kernels_below(parent: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let is_linux = |line: String| line.split('\0').next().is_some_and(|program| program.ends_with("/linux"));
    let is_kernel = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(is_linux);
    let own: Vec<u32> = children.iter().copied().filter(is_kernel).collect();
    own.into_iter().chain(children.into_iter().flat_map(kernels_below)).collect()
}
