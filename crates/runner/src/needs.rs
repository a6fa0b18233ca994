//! The requirements of a run, checked in one place before anything is made.

use senesce_core::environment::{USE_SUDO, is_root};
use senesce_core::{Bytes, ExitCode, Failure, machine};
use std::path::PathBuf;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Needs {
    /// Why root is needed ("loop devices need root").
    pub root: Option<String>,
    /// Required programs, with their Debian packages.
    pub programs: Vec<(String, String)>,
    pub memory: Bytes,
    pub space: Vec<(PathBuf, Bytes)>,
}

impl Needs {
    pub fn root(message: &str) -> Self {
        Self { root: Some(message.into()), ..Self::default() }
    }

    pub fn and_program(mut self, program: &str, package: &str) -> Self {
        self.programs.push((program.into(), package.into()));
        self
    }

    /// Adds programs, each with its package.
    pub fn and_programs<'a>(self, programs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        programs.fold(self, |needs, (program, package)| needs.and_program(program, package))
    }

    pub fn and_memory(mut self, memory: Bytes) -> Self {
        self.memory = memory;
        self
    }

    pub fn are_met(&self) -> bool {
        self.check().is_ok()
    }

    /// Fails with exit code 4 at the first missing requirement and names its remedy.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let missing = |words: String| Err(Failure::new(ExitCode::Missing, words));
        if let Some(words) = self.root.as_ref().filter(|_| !is_root()) {
            return missing(format!("{words}; {USE_SUDO}"));
        }
        if let Some((program, package)) = self.programs.iter().find(|(program, _)| !is_on_path(program)) {
            return missing(format!("{program} is not installed; on Debian: apt-get install {package}"));
        }
        let available = machine::memory_available();
        if self.memory.0 > 0 && available.is_none_or(|available| available < self.memory) {
            let available = available.map_or("an unknown amount".into(), |available| available.to_string());
            return missing(format!(
                "it needs {} of memory, but {available} is available; make it smaller, or end other programs",
                self.memory
            ));
        }
        for (path, space) in &self.space {
            let existing = path.ancestors().find(|path| path.exists());
            let free = existing.and_then(|path| rustix::fs::statvfs(path).ok());
            let free = free.map(|found| Bytes(found.f_bavail * found.f_frsize));
            if free.is_none_or(|free| free < *space) {
                let free = free.map_or("an unknown amount".into(), |free| free.to_string());
                let path = path.display();
                return missing(format!("it needs {space} in {path}, but {free} is free there; free some space"));
            }
        }
        Ok(())
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_requirement_is_named() {
        assert!(Needs::default().check().is_ok());
        assert!(Needs::default().and_program("sh", "dash").check().is_ok());
        let failure = Needs::default().and_program("mkfs.none", "none-progs").check().unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::Missing);
        assert!(failure.to_string().contains("apt-get install none-progs"), "{failure}");
        let failure = Needs::default().and_memory(Bytes(u64::MAX - 1)).check().unwrap_err();
        assert!(failure.to_string().contains("memory"), "{failure}");
        let space = vec![(PathBuf::from("/tmp/not-there"), Bytes(u64::MAX - 1))];
        assert!(Needs { space, ..Needs::default() }.check().is_err());
    }
}
