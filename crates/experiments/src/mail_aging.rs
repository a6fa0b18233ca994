//! A mail server ages its Maildirs: boxes of two users that messages are appended to and expunged from (Conway et al., "File
//! Systems Fated for Senescence? Nonsense, Says Science!", FAST 2017, section 5).

use crate::fragmentation::analysis::{Story, analyse};
use crate::fragmentation::course::{self, Ager};
use crate::fragmentation::tree::check;
use crate::fragmentation::volume::failed;
use crate::fragmentation::{Common, common_parameters, rounds};
use rand::{Rng, RngExt};
use rand_pcg::Pcg64;
use senesce_core::interrupt::Interrupt;
use senesce_core::{
    Analysis, Bytes, Experiment, Failure, Parameter, ParameterKind, Plan, Record, RunContext, RunKind, Seed, Settings,
};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The experiment.
pub struct MailAging;

const OWN: [Parameter; 6] = [
    Parameter {
        name: "boxes",
        help: "boxes of each user",
        kind: ParameterKind::Integer { min: 1, max: 10_000 },
        defaults: ["8", "80", "80"],
    },
    Parameter {
        name: "messages",
        help: "messages that a box begins with",
        kind: ParameterKind::Integer { min: 1, max: 100_000 },
        defaults: ["8", "8", "1000"],
    },
    Parameter {
        name: "longest",
        help: "longest message; lengths are uniform from 1",
        kind: ParameterKind::Size,
        defaults: ["32K", "32K", "32K"],
    },
    Parameter {
        name: "operations",
        help: "appends and expunges of each user per cycle",
        kind: ParameterKind::Integer { min: 1, max: 1_000_000 },
        defaults: ["100", "400", "8000"],
    },
    Parameter {
        name: "cycles",
        help: "cycles",
        kind: ParameterKind::Integer { min: 1, max: 10_000 },
        defaults: ["2", "12", "100"],
    },
    Parameter {
        name: "read-every",
        help: "cycles from one cold read to the next",
        kind: ParameterKind::Integer { min: 1, max: 10_000 },
        defaults: ["1", "3", "1"],
    },
];

const COMMON: [Parameter; 8] = common_parameters!("64M", "512M", "20G");

const PARAMETERS: [Parameter; 14] = {
    let [a, b, c, d, e, f, g, h] = COMMON;
    let [i, j, k, l, m, n] = OWN;
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n]
};

/// Users.
const USERS: u64 = 2;

/// How much mail there is.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Load {
    boxes: u64,
    messages: u64,
    longest: u64,
    operations: u64,
    seed: Seed,
}

impl Load {
    fn of(settings: &Settings) -> Result<Self, Failure> {
        let longest = settings.size("longest")?.0;
        if longest == 0 {
            return Err(Failure::usage("longest: a message has at least one byte"));
        }
        Ok(Self {
            boxes: settings.integer("boxes")?,
            messages: settings.integer("messages")?,
            longest,
            operations: settings.integer("operations")?,
            seed: settings.seed().child("mail-aging"),
        })
    }

    /// Bytes of all messages, each in whole blocks of 4 KiB.
    fn bytes(&self) -> Bytes {
        Bytes(USERS * self.boxes * self.messages * (self.longest / 2 + 2048))
    }
}

/// One box: its messages in the order of arrival.
#[derive(Debug, Default)]
struct Mailbox {
    messages: Vec<PathBuf>,
    next: u64,
}

/// A mail store in the making.
struct Store {
    load: Load,
    random: Pcg64,
    boxes: Vec<Mailbox>,
    cycle: u64,
}

impl Store {
    fn new(load: Load) -> Self {
        let boxes = (0..USERS * load.boxes).map(|_| Mailbox::default()).collect();
        Self { load, random: load.seed.stream("operations"), boxes, cycle: 0 }
    }

    /// Where a box lies: the inbox is the Maildir itself, other boxes are folders that begin with a dot (Maildir++).
    fn folder(&self, number: u64) -> PathBuf {
        let (user, own) = (number / self.load.boxes, number % self.load.boxes);
        let maildir = PathBuf::from(format!("user{}/Maildir", user + 1));
        if own == 0 { maildir } else { maildir.join(format!(".box{own:03}")) }
    }

    fn fill(&mut self, root: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
        for number in 0..self.boxes.len() as u64 {
            for part in ["cur", "new", "tmp"] {
                let path = root.join(self.folder(number)).join(part);
                fs::create_dir_all(&path).map_err(failed("make directory", &path))?;
            }
            for _ in 0..self.load.messages {
                check(interrupt)?;
                self.append(root, number)?;
            }
        }
        Ok(())
    }

    /// As a delivery does it: into tmp, fsync, rename into cur (maildir(5)); a line in the list of the box.
    fn append(&mut self, root: &Path, number: u64) -> Result<(), Failure> {
        let folder = root.join(self.folder(number));
        let length = self.random.random_range(1..=self.load.longest) as usize;
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

    /// Marks a random message as deleted and expunges it.
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

    /// One cycle; the users take turns, so that the order follows from the seed.
    fn one_cycle(&mut self, root: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
        for _ in 0..self.load.operations {
            check(interrupt)?;
            for user in 0..USERS {
                let number = user * self.load.boxes + self.random.random_range(0..self.load.boxes);
                match self.random.random_bool(0.5) {
                    true => self.append(root, number)?,
                    false => self.expunge(root, number)?,
                }
            }
        }
        Ok(())
    }
}

impl Ager for Store {
    fn advance(&mut self, folder: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        if round == 0 {
            return self.fill(folder, interrupt);
        }
        while self.cycle < round {
            self.one_cycle(folder, interrupt)?;
            self.cycle += 1;
        }
        Ok(())
    }
}

fn rounds_of(settings: &Settings) -> Result<Vec<u64>, Failure> {
    Ok(rounds::steps(settings.integer("cycles")?, settings.integer("read-every")?))
}

impl RunKind for MailAging {
    fn kind(&self) -> &'static str {
        "mail-aging"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        analyse(
            record,
            &Story {
                title: "Aging by a mail server",
                round: "cycle",
                summary: "Messages were appended to and expunged from the Maildirs of two users; every few cycles all \
                          mail was read cold, and so was a copy of it on a fresh volume.",
                published: self.published(),
                variant: None,
                claims: None,
            },
        )
    }
}

impl Experiment for MailAging {
    fn title(&self) -> &'static str {
        "Aging by a mail server: appends to and expunges from Maildirs"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/mail-aging.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/mail-aging.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let (common, load) = (Common::of(settings)?, Load::of(settings)?);
        common.check_room(load.bytes())?;
        common.place.second(Path::new(""))?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        let rounds = rounds_of(settings)?;
        let written = load.bytes().0 + settings.integer("cycles")? * load.operations * load.longest / 2;
        for fs in &common.file_systems {
            plan.step(
                format!("{} cycles of {} operations for each user", settings.text("cycles"), load.operations),
                format!("{fs}, {}", common.place.words(common.size)),
            );
            plan.bytes_to_write += written + rounds.len() as u64 * load.bytes().0;
            plan.estimated_seconds += rounds.len() as f64 * common.seconds_of_round(load.bytes())
                + (settings.integer("cycles")? * load.operations * USERS) as f64 * 5e-4;
        }
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let (common, load) = (Common::of(settings)?, Load::of(settings)?);
        course::run(self.kind(), &common, &rounds_of(settings)?, settings, context, &|| Ok(Box::new(Store::new(load))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::tree::Tree;

    fn state(cycles: u64) -> Vec<(PathBuf, Vec<u8>)> {
        let room = tempfile::tempdir().unwrap();
        let load = Load { boxes: 3, messages: 4, longest: 100, operations: 20, seed: Seed(1) };
        let mut store = Store::new(load);
        for round in 0..=cycles {
            store.advance(room.path(), round, &Interrupt::new()).unwrap();
        }
        let mut files = Tree::below(room.path()).unwrap().contents(room.path()).unwrap();
        files.sort();
        files
    }

    #[test]
    fn the_same_seed_leaves_the_same_mail() {
        assert_eq!(state(2), state(2));
        assert_ne!(state(2), state(1));
    }

    #[test]
    fn a_full_store_holds_its_messages_and_lists() {
        let files = state(0);
        let messages = files.iter().filter(|(path, _)| path.parent().unwrap().ends_with("cur")).count();
        assert_eq!((messages, files.len() - messages), (24, 6));
    }
}
