//! A mail server ages Maildirs: messages are appended to and expunged from the boxes of two users (Conway et al., "File Systems
//! Fated for Senescence? Nonsense, Says Science!", FAST 2017, section 5).

use crate::fragmentation::experiment::Fragmentation;
use crate::fragmentation::{Procedure, Round, Story, numbers};
use clap::{Args, value_parser};
use rand::{Rng, RngExt};
use rand_pcg::Pcg64;
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Failure, Level, Seed, Size};
use senesce_runs::tree::check;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

pub type MailAging = Fragmentation<Load>;

/// Amount of mail, and number of appends and expunges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case")]
pub struct Parameters {
    /// boxes of each user
    #[arg(long, value_parser = value_parser!(u64).range(1..=10_000))]
    pub boxes: u64,
    /// messages in each box at the start
    #[arg(long, value_parser = value_parser!(u64).range(1..=100_000))]
    pub messages: u64,
    /// longest message; lengths are uniform from 1
    #[arg(long)]
    pub longest: Size,
    /// appends and expunges of each user per cycle
    #[arg(long, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub operations: u64,
    /// cycles
    #[arg(long, value_parser = value_parser!(u64).range(1..=10_000))]
    pub cycles: u64,
    /// cycles between two cold reads
    #[arg(long, value_parser = value_parser!(u64).range(1..=10_000))]
    pub read_every: u64,
}

const USERS: u64 = 2;

impl Parameters {
    fn bytes(&self) -> Bytes {
        Bytes(USERS * self.boxes * self.messages * (self.longest.bytes() / 2 + 2048))
    }
}

#[derive(Debug, Clone)]
pub struct Load {
    own: Parameters,
    seed: Seed,
}

impl Procedure for Load {
    const ID: &'static str = "mail-aging";
    const TITLE: &'static str = "Aging by a mail server: appends and expunges in Maildirs";
    const PAGE: &'static str = include_str!("../docs/experiments/mail-aging.md");
    const PUBLISHED: &'static str = include_str!("../data/published/mail-aging.csv");
    const CLAIMS: &'static str = include_str!("../data/published/mail-aging.claims.toml");
    const STORY: Story = Story {
        title: "Aging by a mail server",
        round: "cycle",
        summary: "Messages were appended to and expunged from the Maildirs of two users; every few cycles all mail was read \
                  cold, and so was a copy of it on a fresh volume.",
    };
    const AGES_ON: bool = true;
    const NAMED: &'static [&'static str] = &["cycles", "read-every"];
    type Parameters = Parameters;
    type State = Store;

    fn defaults(level: Level) -> Parameters {
        Parameters {
            boxes: level.of([8, 80, 80]),
            messages: level.of([8, 8, 1000]),
            longest: Size(Bytes::kib(32)),
            operations: level.of([100, 400, 8000]),
            cycles: level.of([2, 12, 100]),
            read_every: level.of([1, 3, 1]),
        }
    }

    fn rounds(own: &Parameters, _seed: Seed) -> Result<Vec<Round>, Failure> {
        if own.longest.bytes() == 0 {
            return Err(Failure::usage("longest: must be at least 1 byte"));
        }
        let numbers = numbers(own.cycles, own.read_every);
        let round = |(index, number): (usize, &u64)| {
            let before = index.checked_sub(1).map(|before| numbers[before]);
            let operations = (number - before.unwrap_or(0)) * own.operations;
            let filled = if before.is_none() { own.bytes().0 } else { 0 };
            Round {
                number: *number,
                action: match number {
                    0 => format!("fill {} boxes of each user, read cold", own.boxes),
                    _ => format!("to cycle {number}, {} operations for each user in each, read cold", own.operations),
                },
                data: own.bytes(),
                written: Bytes(filled + operations * own.longest.bytes() / 2),
                seconds: (operations * USERS) as f64 * 5e-4,
            }
        };
        Ok(numbers.iter().enumerate().map(round).collect())
    }

    fn begin(own: &Parameters, seed: Seed, _scratch: &Path, _interrupt: &Interrupt) -> Result<Self, Failure> {
        Ok(Self { own: own.clone(), seed: seed.child("mail-aging") })
    }

    fn start(&self, _mode: Option<&str>) -> Store {
        Store::new(self.clone())
    }

    fn advance(&self, store: &mut Store, folder: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        if round == 0 {
            return store.fill(folder, interrupt);
        }
        while store.cycle < round {
            store.one_cycle(folder, interrupt)?;
            store.cycle += 1;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Mailbox {
    messages: Vec<PathBuf>,
    next: u64,
}

pub struct Store {
    load: Load,
    random: Pcg64,
    boxes: Vec<Mailbox>,
    cycle: u64,
}

impl Store {
    fn new(load: Load) -> Self {
        let boxes = (0..USERS * load.own.boxes).map(|_| Mailbox::default()).collect();
        Self { random: load.seed.stream("operations"), load, boxes, cycle: 0 }
    }

    /// Returns the directory of a box: the Maildir for the inbox, a folder whose name starts with a dot for other boxes
    /// (Maildir++).
    fn folder(&self, number: u64) -> PathBuf {
        let (user, own) = (number / self.load.own.boxes, number % self.load.own.boxes);
        let maildir = PathBuf::from(format!("user{}/Maildir", user + 1));
        if own == 0 { maildir } else { maildir.join(format!(".box{own:03}")) }
    }

    fn fill(&mut self, root: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
        for number in 0..self.boxes.len() as u64 {
            for part in ["cur", "new", "tmp"] {
                let path = root.join(self.folder(number)).join(part);
                fs::create_dir_all(&path).map_err(failed("make directory", &path))?;
            }
            for _ in 0..self.load.own.messages {
                check(interrupt)?;
                self.append(root, number)?;
            }
        }
        Ok(())
    }

    /// Delivers a message: write into tmp, fsync, rename into cur (maildir(5)), and add a line to the list of the box.
    fn append(&mut self, root: &Path, number: u64) -> Result<(), Failure> {
        let folder = root.join(self.folder(number));
        let length = self.random.random_range(1..=self.load.own.longest.bytes()) as usize;
        let uid = self.boxes[number as usize].next;
        let name = format!("{:010}.M{uid}P1.host,S={length}", 1_000_000_000 + uid);
        let mut content = vec![0; length];
        self.load.seed.stream(&format!("message/{number}/{uid}")).fill_bytes(&mut content);
        let temporary = folder.join("tmp").join(&name);
        let mut file = File::create(&temporary).map_err(failed("create", &temporary))?;
        file.write_all(&content).map_err(failed("write", &temporary))?;
        file.sync_all().map_err(failed("fsync", &temporary))?;
        let kept = folder.join("cur").join(format!("{name}:2,S"));
        fs::rename(&temporary, &kept).map_err(failed("rename", &temporary))?;
        let list = folder.join("dovecot-uidlist");
        let mut lines = OpenOptions::new().create(true).append(true).open(&list).map_err(failed("open", &list))?;
        writeln!(lines, "{uid} :{name}").map_err(failed("append to", &list))?;
        let path = self.folder(number).join("cur").join(format!("{name}:2,S"));
        let own = &mut self.boxes[number as usize];
        own.next += 1;
        own.messages.push(path);
        Ok(())
    }

    fn expunge(&mut self, root: &Path, number: u64) -> Result<(), Failure> {
        let own = &mut self.boxes[number as usize];
        if own.messages.is_empty() {
            return Ok(());
        }
        let path = own.messages.swap_remove(self.random.random_range(0..own.messages.len()));
        let path = root.join(path);
        let marked = path.with_file_name(format!("{}T", path.file_name().unwrap_or_default().to_string_lossy()));
        fs::rename(&path, &marked).map_err(failed("mark as deleted", &path))?;
        fs::remove_file(&marked).map_err(failed("expunge", &marked))
    }

    /// Runs one cycle; the users alternate, so that the order follows from the seed.
    fn one_cycle(&mut self, root: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
        for _ in 0..self.load.own.operations {
            check(interrupt)?;
            for user in 0..USERS {
                let number = user * self.load.own.boxes + self.random.random_range(0..self.load.own.boxes);
                match self.random.random_bool(0.5) {
                    true => self.append(root, number)?,
                    false => self.expunge(root, number)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_runs::tree::Tree;

    fn state(cycles: u64) -> Vec<(PathBuf, Vec<u8>)> {
        let temporary = tempfile::tempdir().unwrap();
        let (boxes, messages, longest, operations) = (3, 4, Size(Bytes(100)), 20);
        let own = Parameters { boxes, messages, longest, operations, ..Load::defaults(Level::Smoke) };
        let load = Load { own, seed: Seed(1) };
        let mut store = load.start(None);
        for round in 0..=cycles {
            load.advance(&mut store, temporary.path(), round, &Interrupt::new()).unwrap();
        }
        let mut files = Tree::below(temporary.path()).unwrap().contents(temporary.path()).unwrap();
        files.sort();
        files
    }

    #[test]
    fn same_seed_leaves_the_same_mail() {
        assert_eq!(state(2), state(2));
        assert_ne!(state(2), state(1));
    }

    #[test]
    fn full_store_matches_its_message_lists() {
        let files = state(0);
        let messages = files.iter().filter(|(path, _)| path.parent().unwrap().ends_with("cur")).count();
        assert_eq!((messages, files.len() - messages), (24, 6));
    }
}
