//! Tests verbs of an ordinary user on file systems that only the guest may make.

use crate::common::{json, stderr};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

/// A folder that the user may write, and the cache with the kernel.
struct Place {
    folder: tempfile::TempDir,
    cache: tempfile::TempDir,
}

/// The user `nobody` of most systems.
const USER: u32 = 65534;

impl Place {
    fn new() -> Self {
        let [folder, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let place = Self { folder, cache };
        let kernels = place.cache.path().join("senesce/vm");
        std::fs::create_dir_all(&kernels).unwrap();
        let own = std::env::var_os("XDG_CACHE_HOME").map(std::path::PathBuf::from);
        let own =
            own.unwrap_or_else(|| Path::new(&std::env::var_os("HOME").unwrap()).join(".cache")).join("senesce/vm");
        assert!(Command::new("cp").arg("-a").arg(own.join("kernels")).arg(&kernels).status().unwrap().success());
        for path in [place.folder.path(), place.cache.path()] {
            let owned = Command::new("chown").arg("-R").arg(format!("{USER}:{USER}")).arg(path).status().unwrap();
            assert!(owned.success());
        }
        place
    }

    fn run(&self, words: &str) -> Output {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("senesce"));
        command
            .current_dir(self.folder.path())
            .env("XDG_CACHE_HOME", self.cache.path())
            .env("HOME", self.folder.path());
        command.args(words.split(' ')).uid(USER).gid(USER).output().unwrap()
    }

    fn succeeds(&self, words: &str) -> Value {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {}", stderr(&output));
        json(&output)
    }
}

pub(super) const STUDY: &str = "name = 't'\nsize = '64M'\nrepetitions = 1\nnumbers_only = true\nfile_system = [{ kind = 'ext4' }]\n\
     workload = [{ personality = 'webserver', scale = 0.02, seconds = 0.5 }]\n[[state]]\nkind = 'fresh'\n";

#[test]
#[ignore = "needs root, the user-mode kernel, a build that every user may run"]
fn ordinary_user_ages_measures_and_reproduces() {
    let place = Place::new();
    let aged = place.succeeds("age image:a.img,size=64M --overwrites 1 --truncate-sizes --out aged --json");
    assert_eq!(aged["environment"]["vm.accelerator"], "uml");
    let benched = place.succeeds("--vm bench memory:64M webserver --scale 0.02 --time 1s --out benched --json");
    assert!(benched["repetitions"][0]["ops"].as_u64() > Some(0), "{benched}");
    std::fs::write(place.folder.path().join("study.toml"), STUDY).unwrap();
    let studied = place.succeeds("--vm study study.toml --out studied --json");
    assert_eq!((&studied["runs_done"], &studied["cells"][0]["emulated"]), (&1.into(), &true.into()), "{studied}");
    let demo = place.run("demo --out demo");
    assert!(demo.status.success(), "{}", stderr(&demo));
    for run in ["benched", "demo"] {
        let environment = std::fs::read_to_string(place.folder.path().join(run).join("env.json")).unwrap();
        assert!(environment.contains("\"vm.accelerator\": \"uml\""), "{run}: {environment}");
    }
}

#[test]
#[ignore = "needs root, the user-mode kernel, a build that every user may run"]
fn missing_driver_is_a_missing_requirement() {
    let place = Place::new();
    let output = place.run("age image:a.img,size=256M --fs nilfs2 --overwrites 1 --out aged");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
}
