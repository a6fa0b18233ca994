//! `pgbench`: a PostgreSQL server on the volume runs its own benchmark. Every transaction adds a row to the history,
//! whose sum must equal the change of the accounts.
//!
//! PostgreSQL does not run as root. Root gives the directory to another user and shows it only to the server, at
//! another path in a private mount namespace: only root may access the mount point of the volume.

use super::{ReadySetup, failed, wrong};
use senesce_core::analysis::Better;
use senesce_core::{Failure, Measurement};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

/// Transactions of each client at scale 1.
const TRANSACTIONS: f64 = 500.0;
const CLIENTS: u32 = 2;

/// Directories of the server's programs in distributions: `POSTGRES/VERSION/bin`.
const FOLDERS: [&str; 2] = ["/usr/lib/postgresql", "/usr"];

const SEEN_AT: &str = "/mnt";

pub(super) fn programs() -> Option<PathBuf> {
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let of_versions = FOLDERS.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut of_versions: Vec<(u32, PathBuf)> = of_versions.filter_map(|entry| version(&entry.path())).collect();
    of_versions.sort();
    let found = std::env::split_paths(&searched).chain(of_versions.into_iter().rev().map(|(_, path)| path));
    found
        .into_iter()
        .find(|folder| ["initdb", "pg_ctl", "pgbench", "psql"].iter().all(|name| folder.join(name).is_file()))
}

/// Accepts `15` and `pgsql-15` as versions.
fn version(path: &Path) -> Option<(u32, PathBuf)> {
    let name = path.file_name()?.to_str()?;
    Some((name.trim_start_matches("pgsql-").parse().ok()?, path.join("bin")))
}

pub(super) fn run(place: &ReadySetup<'_>) -> Result<Vec<Measurement>, Failure> {
    let programs = programs().ok_or_else(|| wrong("the programs of PostgreSQL are no longer installed".into()))?;
    let (each, accounts) = (place.count(TRANSACTIONS, 10), place.count(1.0, 1));
    place.progress.phase("pgbench", u64::from(each * CLIENTS), "transactions");
    let file = place.folder.join("run.sh");
    fs::write(&file, script(&programs, each, accounts)).map_err(failed("write", &file))?;
    let printed = match rustix::process::geteuid().is_root() {
        false => place.program("sh", &["run.sh"])?,
        true => as_another(place)?,
    };
    let result = PgbenchReport::of(&printed, u64::from(each * CLIENTS)).map_err(wrong)?;
    Ok(vec![
        Measurement::new("transactions", "transactions/s", Better::Higher, result.per_second)?,
        Measurement::new("latency mean", "ns", Better::Lower, result.latency_ms * 1e6)?,
    ])
}

fn script(programs: &Path, each: u32, accounts: u32) -> String {
    let arguments = |name: &str| programs.join(name).display().to_string();
    let (initdb, pg_ctl, pgbench, psql) =
        (arguments("initdb"), arguments("pg_ctl"), arguments("pgbench"), arguments("psql"));
    format!(
        "set -e\n\
         '{initdb}' -D data -U postgres -A trust --no-locale -E UTF8 >init.log\n\
         '{pg_ctl}' -D data -w -s -l server.log -o \"-c listen_addresses= -c unix_socket_directories=$PWD\" start >&2\n\
         trap \"'{pg_ctl}' -D data -m immediate -w -s stop >&2\" EXIT\n\
         export PGHOST=\"$PWD\" PGUSER=postgres PGDATABASE=postgres\n\
         '{pgbench}' -i -q -s {accounts} >&2\n\
         '{pgbench}' -c {CLIENTS} -j {CLIENTS} -t {each} --random-seed=42\n\
         '{psql}' -At -c 'select count(*), sum(delta) from pgbench_history' -c 'select sum(abalance) from pgbench_accounts'\n\
         trap - EXIT\n\
         '{pg_ctl}' -D data -m fast -w -s stop >&2\n"
    )
}

/// Runs the script as an ordinary user, in a mount namespace with the directory at [`SEEN_AT`].
fn as_another(place: &ReadySetup<'_>) -> Result<String, Failure> {
    let (user, group) = ordinary_user();
    chown(place.folder, Some(user), Some(group)).map_err(failed("give away", place.folder))?;
    let inside = format!(
        "mount --bind . {SEEN_AT} && cd {SEEN_AT} && exec setpriv --reuid={user} --regid={group} --clear-groups sh \
         run.sh"
    );
    place.program("unshare", &["--mount", "--propagation", "private", "sh", "-c", &inside])
}

/// Returns the user of the PostgreSQL package, or `nobody` (65534, as in Linux's own /proc/sys/kernel/overflowuid).
fn ordinary_user() -> (u32, u32) {
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    accounts.lines().find_map(numbers_of_postgres).unwrap_or((65534, 65534))
}

fn numbers_of_postgres(line: &str) -> Option<(u32, u32)> {
    let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
    let mut number = || fields.next()?.parse().ok().filter(|number| *number != 0);
    Some((number()?, number()?))
}

#[derive(Debug, PartialEq)]
struct PgbenchReport {
    per_second: f64,
    latency_ms: f64,
}

impl PgbenchReport {
    fn of(printed: &str, transactions: u64) -> Result<Self, String> {
        let after = |message: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(message));
            line.and_then(|rest| rest.split_whitespace().next()).ok_or(format!("pgbench did not print '{message}'"))
        };
        let number = |message: &str| -> Result<f64, String> {
            let word = after(message)?;
            word.parse().map_err(|_| format!("pgbench printed '{message}{word}'"))
        };
        let processed = after("number of transactions actually processed: ")?;
        let wanted = format!("{transactions}/{transactions}");
        if processed != wanted {
            return Err(format!("pgbench completed {processed} transactions instead of {wanted}"));
        }
        let mut lines = printed.lines().rev();
        let (balance, history) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        if history != format!("{transactions}|{balance}") {
            return Err(format!(
                "after {transactions} transactions the history holds {history} (rows, sum), but the accounts {balance}"
            ));
        }
        Ok(Self { per_second: number("tps = ")?, latency_ms: number("latency average = ")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Silent;
    use senesce_core::interrupt::Interrupt;

    const PRINTED: &str = "number of transactions actually processed: 20/20\nnumber of failed transactions: 0 (0.000%)\n\
        latency average = 1.500 ms\ninitial connection time = 3.1 ms\n\
        tps = 1333.250000 (without initial connection time)\n20|-731\n-731\n";

    #[test]
    fn pgbench_output_is_parsed() {
        assert_eq!(PgbenchReport::of(PRINTED, 20).unwrap(), PgbenchReport { per_second: 1333.25, latency_ms: 1.5 });
    }

    #[test]
    fn lost_transaction_is_detected() {
        for (from, to) in
            [("20|-731", "19|-731"), ("\n-731", "\n-730"), ("20/20", "19/20"), ("tps", "per s"), (PRINTED, "")]
        {
            assert!(PgbenchReport::of(&PRINTED.replace(from, to), 20).is_err(), "{to}");
        }
    }

    #[test]
    fn ordinary_user_is_not_root() {
        assert_eq!(numbers_of_postgres("postgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash"), Some((101, 104)));
        assert_eq!(numbers_of_postgres("postgres:x:0:0::/root:/bin/sh"), None);
        assert_eq!(numbers_of_postgres("root:x:0:0::/root:/bin/sh"), None);
    }

    #[test]
    #[ignore = "needs pgbench"]
    fn server_completes_transactions_and_stops() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new();
        let place = ReadySetup { folder: directory.path(), scale: 0.05, progress: &Silent, interrupt: &interrupt };
        let found = run(&place).unwrap();
        let seconds = f64::from(CLIENTS) / found[0].value.get();
        let mean_seconds = found[1].value.get() / 1e9;
        assert!((seconds / mean_seconds - 1.0).abs() < 0.05, "{found:?}");
        assert!(!directory.path().join("data/postmaster.pid").exists());
    }
}
