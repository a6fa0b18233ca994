//! `--user NAME`: drops the rights of root.

use senesce_core::failure::failed;
use senesce_core::{ExitCode, Failure, input};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

#[derive(Debug, PartialEq, Eq)]
struct User {
    number: u32,
    group: u32,
    home: String,
}

/// The variables kept from root's environment; others may name root's files or contain secrets.
const HARMLESS: [&str; 10] =
    ["PATH", "TERM", "LANG", "TZ", "COLUMNS", "NO_COLOR", "CLICOLOR_FORCE", "RUST_BACKTRACE", "RUST_LOG", "TMPDIR"];

/// Continues as this user; returns if the process already is that user. The program is executed again with the same arguments.
/// So nothing that it opened or started as root remains, no open files and no environment of its caller, only the terminal.
///
/// # Errors
/// The user does not exist or is root, or this process is neither root nor that user.
pub fn become_user(name: &str) -> Result<(), Failure> {
    let accounts = Path::new("/etc/passwd");
    let accounts = input::text(accounts).map_err(failed("read", accounts))?;
    let user = find(&accounts, name)?;
    let now = rustix::process::geteuid();
    if now.as_raw() == user.number {
        return Ok(());
    }
    if !now.is_root() {
        return Err(Failure::new(
            ExitCode::Missing,
            format!("cannot become {name}: only root can change the user\nhint: omit --user"),
        ));
    }
    let kept = senesce_sys::descriptor::keep_from_programs();
    kept.map_err(|errno| failed("keep root's open files from", Path::new(name))(errno.into()))?;
    let is_harmless = |word: &OsStr| {
        let word = word.to_string_lossy();
        HARMLESS.contains(&&*word) || word.starts_with("LC_") || word.starts_with("SENESCE_")
    };
    // std drops all other groups before the change (std::process, `CommandExt::uid`).
    let error = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .arg0("senesce")
        .uid(user.number)
        .gid(user.group)
        .env_clear()
        .envs(std::env::vars_os().filter(|(word, _)| is_harmless(word)))
        .env("HOME", &user.home)
        .env("USER", name)
        .exec();
    Err(failed("continue as another user with", Path::new("/proc/self/exe"))(error))
}

fn find(accounts: &str, name: &str) -> Result<User, Failure> {
    let of = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [own, _, number, group, _, home, _] = fields[..] else { return None };
        let user = User { number: number.parse().ok()?, group: group.parse().ok()?, home: home.into() };
        (own == name || number == name).then_some(user)
    };
    match accounts.lines().find_map(of) {
        Some(user) if user.number != 0 => Ok(user),
        Some(_) => Err(Failure::usage(format!(
            "cannot drop privileges to {name}: it is root\nhint: name another user, such as nobody"
        ))),
        None => Err(Failure::usage(format!("user {name} not found in /etc/passwd"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/sh\n# a remark\nnobody:x:65534:65533::/nonexistent:/bin/false\n\
                            twin:x:0:7::/:/bin/sh\nbroken:x:12\n";

    #[test]
    fn user_is_found_by_name_and_number_and_root_is_refused() {
        let nobody = User { number: 65534, group: 65533, home: "/nonexistent".into() };
        assert_eq!(find(ACCOUNTS, "nobody").unwrap(), nobody);
        assert_eq!(find(ACCOUNTS, "65534").unwrap(), nobody);
        for name in ["root", "0", "twin", "broken", "nobod", ""] {
            assert_eq!(find(ACCOUNTS, name).unwrap_err().exit_code(), ExitCode::Usage, "{name}");
        }
    }
}
