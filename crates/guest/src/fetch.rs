//! Fetches Debian packages without installing them.

use crate::error::{GuestError, io_error};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Runs apt with its own folders: the host's package state is neither read nor changed.
pub(crate) struct Apt {
    work: PathBuf,
    options: Vec<String>,
}

/// Suites with kernels that are newer than those of the host's release.
const NEWER: [&str; 4] = ["stable-backports", "testing", "sid", "experimental"];

impl Apt {
    /// Fetches from the host's release and its backports.
    pub(crate) fn prepare(work: &Path) -> Result<Self, GuestError> {
        let (mirror, codename) = host_mirror()?;
        Self::with_suites(work, &mirror, &[&codename, &format!("{codename}-backports")])
    }

    /// Fetches from newer releases on the same mirror.
    pub(crate) fn prepare_newer(work: &Path) -> Result<Self, GuestError> {
        Self::with_suites(work, &host_mirror()?.0, &NEWER)
    }

    fn with_suites(work: &Path, mirror: &str, suites: &[&str]) -> Result<Self, GuestError> {
        for name in ["state/lists/partial", "cache/archives/partial", "etc"] {
            let path = work.join(name);
            fs::create_dir_all(&path).map_err(io_error("make folder", &path))?;
        }
        let sources = work.join("etc/sources.list");
        let lines: String = suites.iter().map(|suite| format!("deb {mirror} {suite} main\n")).collect();
        fs::write(&sources, lines).map_err(io_error("write", &sources))?;
        let at = |name: &str| work.join(name).display().to_string();
        let options = vec![
            format!("Dir::Etc::SourceList={}", sources.display()),
            "Dir::Etc::SourceParts=/dev/null".to_string(),
            format!("Dir::State={}", at("state")),
            format!("Dir::Cache={}", at("cache")),
            "APT::Sandbox::User=root".to_string(),
            // Without a network it should fail soon.
            "Acquire::http::Timeout=20".to_string(),
            "Acquire::https::Timeout=20".to_string(),
        ];
        Ok(Self { work: work.into(), options })
    }

    pub(crate) fn update(&self, announce: &dyn Fn(&str)) -> Result<(), GuestError> {
        announce("fetching package lists");
        self.run("apt-get", &["update", "-qq"]).map(drop)
    }

    /// Fetches a package and returns the folder with its files.
    pub(crate) fn unpack(&self, package: &str, announce: &dyn Fn(&str)) -> Result<PathBuf, GuestError> {
        self.update(announce)?;
        self.unpack_known(package, announce)
    }

    /// Fetches a package like [`Self::unpack`], but only after [`Self::update`].
    pub(crate) fn unpack_known(&self, package: &str, announce: &dyn Fn(&str)) -> Result<PathBuf, GuestError> {
        announce(&format!("fetching {package}"));
        self.run("apt-get", &["download", "-qq", package])?;
        let archive = fs::read_dir(&self.work)
            .map_err(io_error("list", &self.work))?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension() == Some(OsStr::new("deb")))
            .ok_or_else(|| GuestError::Missing {
                what: format!("{package} was not fetched"),
                remedy: "try again".into(),
            })?;
        let root = self.work.join("root");
        run_program(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&root))?;
        Ok(root)
    }

    pub(crate) fn run(&self, program: &str, words: &[&str]) -> Result<String, GuestError> {
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        run_program(command.args(words).current_dir(&self.work))
    }
}

pub(crate) fn run_program(command: &mut Command) -> Result<String, GuestError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| cannot_run(&program, &error))?;
    check_status(program, output.status, &output.stderr)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program like [`run_program`], and passes on each line of its output as soon as it is written.
pub(crate) fn run_watched(command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<(), GuestError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| cannot_run(&program, &error);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    // Read at the same time: a full pipe would stop the program.
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = errors.map(|mut errors| errors.read_to_end(&mut text));
        read.transpose().map(|_| text)
    });
    for line in output.into_iter().flat_map(|output| BufReader::new(output).split(b'\n')) {
        on_line(&String::from_utf8_lossy(&line.map_err(failed)?));
    }
    let status = child.wait().map_err(failed)?;
    let errors = errors.join().unwrap_or_else(|_| Ok(Vec::new())).map_err(failed)?;
    check_status(program, status, &errors)
}

fn cannot_run(program: &str, error: &io::Error) -> GuestError {
    GuestError::Missing {
        what: format!("{program} cannot be run ({error})"),
        remedy: "on a system other than Debian, give a kernel with --kernel FILE --modules DIR".into(),
    }
}

/// Checks that a program succeeded.
///
/// # Errors
/// The program failed; with the last lines of its `errors`.
fn check_status(program: String, status: ExitStatus, errors: &[u8]) -> Result<(), GuestError> {
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(errors);
    let tail: Vec<&str> = said.lines().rev().take(6).collect();
    let output = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
    Err(GuestError::Program { program, status: status.to_string(), output })
}

/// Finds the host's own mirror and the name of its release.
fn host_mirror() -> Result<(String, String), GuestError> {
    let missing =
        |what: String| GuestError::Missing { what, remedy: "give a kernel with --kernel FILE --modules DIR".into() };
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .ok_or_else(|| missing("this host does not run a Debian release".into()))?
        .trim_matches('"')
        .to_string();
    let mut texts = vec![fs::read_to_string("/etc/apt/sources.list").unwrap_or_default()];
    for entry in fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "list" || extension == "sources") {
            texts.push(fs::read_to_string(&path).unwrap_or_default());
        }
    }
    let mirror = texts
        .iter()
        .find_map(|text| mirror_of(text, &codename))
        .ok_or_else(|| missing(format!("apt has no mirror of {codename}")))?;
    Ok((mirror, codename))
}

/// Finds the first address for `codename` in either form of sources file.
fn mirror_of(text: &str, codename: &str) -> Option<String> {
    for line in text.lines().filter(|line| line.starts_with("deb ")) {
        let words: Vec<&str> = line.split_whitespace().filter(|word| !word.contains(['[', ']', '='])).collect();
        if words.get(2) == Some(&codename) {
            return words.get(1).map(|word| (*word).to_string());
        }
    }
    for stanza in text.split("\n\n") {
        let field = |name: &str| stanza.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let suites = field("Suites:").unwrap_or_default();
        if suites.split_whitespace().any(|suite| suite == codename) {
            return field("URIs:").and_then(|uris| uris.split_whitespace().next()).map(str::to_string);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_program_gives_its_lines_and_its_errors() {
        let mut lines = Vec::new();
        let watched = run_watched(Command::new("sh").args(["-c", "echo a; echo b >&2; echo c; exit 3"]), |line| {
            lines.push(line.to_string());
        });
        assert_eq!(lines, ["a", "c"]);
        assert!(matches!(watched, Err(GuestError::Program { output, .. }) if output == "b"));
        assert!(run_watched(&mut Command::new("true"), |_| ()).is_ok());
    }

    #[test]
    fn mirror_is_found_in_both_forms_of_sources() {
        let list =
            "deb-src http://a.example/debian bookworm main\ndeb [signed-by=/k] http://b.example/debian bookworm main\n";
        assert_eq!(mirror_of(list, "bookworm").as_deref(), Some("http://b.example/debian"));
        let stanza = "Types: deb\nURIs: http://c.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n\nTypes: deb\nURIs: http://d\nSuites: other\n";
        assert_eq!(mirror_of(stanza, "bookworm").as_deref(), Some("http://c.example/debian"));
        assert_eq!(mirror_of(stanza, "trixie"), None);
    }
}
