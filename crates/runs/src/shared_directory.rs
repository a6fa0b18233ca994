//! Checks that a directory is the same for all ranks: rank 0 writes a file with random content, and the others look for
//! it.

use senesce_cluster::{Cluster, Member};
use senesce_core::failure::errno_message;
use senesce_core::{ExitCode, Failure};
use senesce_volume::ClaimedDirectory;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file that rank 0 wrote.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Token {
    directory: PathBuf,
    name: String,
    content: String,
}

/// Clients of network file systems cache directory contents for some time.
const PATIENCE: Duration = Duration::from_secs(4);

impl Token {
    pub fn place(directory: &ClaimedDirectory) -> Result<Self, Failure> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let content = format!("{host} {} {}\n", std::process::id(), now.as_nanos());
        let name = format!(".senesce-{}", &blake3::hash(content.as_bytes()).to_hex()[..16]);
        let token = Self { directory: directory.path().into(), name, content };
        let written = std::fs::write(token.path(), &token.content);
        written.map_err(|error| {
            let message = format!("write {}: {}", token.path().display(), errno_message(&error));
            Failure::new(ExitCode::RunFailed, message)
        })?;
        Ok(token)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    pub(crate) fn is_visible(&self) -> bool {
        let begun = Instant::now();
        loop {
            if std::fs::read_to_string(self.path()).is_ok_and(|text| text == self.content) {
                return true;
            }
            if begun.elapsed() > PATIENCE || !self.directory.exists() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a step of all ranks, which returns when each of them has checked. Rank 0 removes the file, even if a rank
    /// ended meanwhile, and refuses a directory that some rank does not see.
    pub fn compare(&self, cluster: &Cluster) -> Result<(), Failure> {
        let seen = cluster.gather(&self.is_visible());
        if cluster.is_first() {
            self.remove();
        }
        if let Some(seen) = seen? {
            judge(&self.directory, &seen, &cluster.members())?;
        }
        Ok(cluster.barrier()?)
    }

    fn remove(&self) {
        // A leftover is harmless; its name states the owner.
        let _ = std::fs::remove_file(self.path());
    }
}

/// Refuses a directory that some rank does not see, naming the first such rank.
fn judge(directory: &Path, seen: &[bool], members: &[Member]) -> Result<(), Failure> {
    let Some(blind) = seen.iter().position(|seen| !seen) else { return Ok(()) };
    let host = |rank: usize| members.get(rank).map_or("an unknown host", |member| member.host.as_str());
    let words = format!(
        "{} is not shared: rank {blind} on {} does not see what rank 0 on {} wrote there; mount the same file system there \
         under the same path, or start all ranks where it is mounted",
        directory.display(),
        host(blind),
        host(0)
    );
    Err(Failure::new(ExitCode::Refused, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_found_only_in_its_directory() {
        let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let claimed = ClaimedDirectory::claim(here.path(), None).unwrap();
        let token = Token::place(&claimed).unwrap();
        assert!(token.is_visible());
        let gone = elsewhere.path().join("not-mounted");
        assert!(!Token { directory: gone, ..token.clone() }.is_visible());
        let other = Token { content: "another".into(), ..token.clone() };
        assert_ne!(other.content, std::fs::read_to_string(token.path()).unwrap());
        token.remove();
        assert!(!token.path().exists());
    }

    #[test]
    fn rank_without_the_directory_is_named_with_its_host() {
        let member = |rank, host: &str| Member { rank, host: host.into(), process: 1 };
        let members = [member(0, "alpha"), member(1, "alpha"), member(2, "beta")];
        assert!(judge(Path::new("/scratch"), &[true, true, true], &members).is_ok());
        let refused = judge(Path::new("/scratch"), &[true, true, false], &members).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Refused);
        assert!(refused.to_string().starts_with("/scratch is not shared: rank 2 on beta"), "{refused}");
    }
}
