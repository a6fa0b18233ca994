use senesce_core::failure::{errno_message, failed};
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure};
use senesce_runs::tree::check;
use senesce_volume::guardian;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program git, isolated from the user's configuration.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    home: PathBuf,
}

impl Git {
    pub(crate) fn at_home(home: &Path) -> Self {
        Self { home: home.into() }
    }

    fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(name);
        }
        command
            .arg("-C")
            .arg(folder)
            .args(["-c", "safe.directory=*", "-c", "user.name=Senesce", "-c", "user.email=senesce@localhost"])
            .args(["-c", "core.hooksPath=/dev/null"])
            .args(arguments)
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command and returns its output.
    ///
    /// # Errors
    /// git cannot be started or fails (the error has its message), or the user interrupts the run.
    pub(crate) fn run(&self, folder: &Path, arguments: &[&str], interrupt: &Interrupt) -> Result<String, Failure> {
        check(interrupt)?;
        finish(self.command(folder, arguments), arguments, folder)
    }

    /// Returns the first commits, oldest first: one more than `pulls`, if there are enough.
    pub(crate) fn commits(
        &self,
        folder: &Path,
        branch: &str,
        pulls: u64,
        interrupt: &Interrupt,
    ) -> Result<Vec<String>, Failure> {
        let list = self.run(folder, &["rev-list", "--reverse", branch], interrupt);
        let list = list.map_err(|failure| match failure.exit_code() {
            // Objections of git concern the repository given by the user.
            ExitCode::RunFailed => {
                Failure::usage(format!("repository: {failure}; name a local git repository that has commits"))
            }
            _ => failure,
        })?;
        Ok(list.lines().take(pulls as usize + 1).map(str::to_string).collect())
    }

    /// Returns the total size of the files of a commit, each rounded up to blocks of 4 KiB.
    pub(crate) fn bytes_of(&self, folder: &Path, commit: &str) -> Result<u64, Failure> {
        // Each line has mode, type, name, size and path (git-ls-tree(1)); only files have a size.
        let list = self.run(folder, &["ls-tree", "-r", "-l", "--full-tree", commit], &Interrupt::new())?;
        let sizes = list.lines().filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
        Ok(sizes.map(|size| size.next_multiple_of(4096)).sum())
    }

    pub(crate) fn import(&self, folder: &Path, stream: &Path) -> Result<String, Failure> {
        let arguments = ["fast-import", "--quiet"];
        let mut command = self.command(folder, &arguments);
        command.stdin(File::open(stream).map_err(failed("open", stream))?);
        finish(command, &arguments, folder)
    }
}

fn finish(mut command: Command, arguments: &[&str], folder: &Path) -> Result<String, Failure> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = guardian::output(&mut command)
        .map_err(|error| Failure::new(ExitCode::Missing, format!("run git: {}; install git", errno_message(&error))))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let full = ["No space left on device", "unable to write"].iter().any(|message| said.contains(message));
        let remedy = if full { "; if its volume is full, choose a larger --size" } else { "" };
        return Err(Failure::new(
            ExitCode::RunFailed,
            format!("git {} in {}: {} ({}){remedy}", arguments.join(" "), folder.display(), said.trim(), output.status),
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs git"]
    fn folder_without_commits_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let git = Git::at_home(&temporary.path().join("home"));
        let refused = || git.commits(temporary.path(), "HEAD", 1, &Interrupt::new()).unwrap_err();
        assert_eq!(refused().exit_code(), ExitCode::Usage);
        git.run(temporary.path(), &["init", "-q"], &Interrupt::new()).unwrap();
        assert_eq!(refused().exit_code(), ExitCode::Usage, "no commits");
    }
}
