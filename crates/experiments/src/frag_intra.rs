//! Fragmentation inside files: parts of several files appended in turn (Conway et al., "File Systems Fated for Senescence?
//! Nonsense, Says Science!", FAST 2017, section 4).

use crate::fragmentation::analysis::{Story, analyse};
use crate::fragmentation::rounds;
use crate::fragmentation::tree::check;
use crate::fragmentation::volume::failed;
use crate::fragmentation::{Common, common_parameters, read};
use rand::Rng;
use senesce_core::interrupt::Interrupt;
use senesce_core::{
    Analysis, Bytes, Experiment, Failure, Parameter, ParameterKind, Plan, Record, RunContext, RunKind, Seed, Settings,
};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// The experiment.
pub struct FragIntra;

const OWN: [Parameter; 7] = [
    Parameter {
        name: "files",
        help: "files",
        kind: ParameterKind::Integer { min: 1, max: 100_000 },
        defaults: ["10", "10", "10"],
    },
    Parameter {
        name: "file-size",
        help: "size of each file",
        kind: ParameterKind::Size,
        defaults: ["400K", "400K", "400K"],
    },
    Parameter { name: "chunk", help: "bytes per append", kind: ParameterKind::Size, defaults: ["4K", "4K", "4K"] },
    Parameter {
        name: "rounds",
        help: "last round; in it every chunk of every file is appended in turn, in round 0 none",
        kind: ParameterKind::Integer { min: 1, max: 10_000 },
        defaults: ["2", "100", "100"],
    },
    Parameter {
        name: "step",
        help: "rounds from one to the next that is run",
        kind: ParameterKind::Integer { min: 1, max: 10_000 },
        defaults: ["1", "10", "1"],
    },
    Parameter {
        name: "fsync-every",
        help: "appends to a file from fsync to fsync; 0: only at the end",
        kind: ParameterKind::Integer { min: 0, max: 1_000_000 },
        defaults: ["1", "1", "1"],
    },
    Parameter {
        name: "pause",
        help: "wait after every append (5s lets write-back come instead of fsync)",
        kind: ParameterKind::Duration,
        defaults: ["0s", "0s", "0s"],
    },
];

const COMMON: [Parameter; 8] = common_parameters!("64M", "512M", "20G");

const PARAMETERS: [Parameter; 15] = {
    let [a, b, c, d, e, f, g, h] = COMMON;
    let [i, j, k, l, m, n, o] = OWN;
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o]
};

/// How the files of a round are written.
#[derive(Debug, Clone, PartialEq)]
struct Procedure {
    files: u64,
    chunks: u64,
    chunk: usize,
    rounds: u64,
    fsync_every: u64,
    pause: Duration,
    seed: Seed,
}

impl Procedure {
    fn of(settings: &Settings) -> Result<Self, Failure> {
        let (chunk, size) = (settings.size("chunk")?.0, settings.size("file-size")?.0);
        if chunk == 0 || size % chunk != 0 || size == 0 {
            return Err(Failure::usage(format!(
                "file-size {} must be a multiple of chunk {}, both above zero",
                Bytes(size),
                Bytes(chunk)
            )));
        }
        Ok(Self {
            files: settings.integer("files")?,
            chunks: size / chunk,
            chunk: chunk as usize,
            rounds: settings.integer("rounds")?,
            fsync_every: settings.integer("fsync-every")?,
            pause: settings.duration("pause")?,
            seed: settings.seed().child("frag-intra"),
        })
    }

    fn bytes(&self) -> Bytes {
        Bytes(self.files * self.chunks * self.chunk as u64)
    }

    /// Chunks of each file that are appended in turn in a round.
    fn appended(&self, round: u64) -> u64 {
        self.chunks * round / self.rounds
    }

    fn content(&self, file: u64) -> Vec<u8> {
        let mut content = vec![0; self.chunks as usize * self.chunk];
        self.seed.stream(&format!("file/{file}")).fill_bytes(&mut content);
        content
    }

    /// First parts one file after the other, each ended by fsync; then chunks in turn.
    fn write(&self, root: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        let first = (self.chunks - self.appended(round)) as usize * self.chunk;
        let mut open = Vec::new();
        for number in 0..self.files {
            let path = root.join(format!("file{number:03}"));
            let content = self.content(number);
            let mut file = File::create(&path).map_err(failed("create", &path))?;
            for chunk in content[..first].chunks(self.chunk) {
                file.write_all(chunk).map_err(failed("write", &path))?;
            }
            file.sync_all().map_err(failed("fsync", &path))?;
            open.push((path, file, content));
        }
        for turn in 0..self.appended(round) {
            check(interrupt)?;
            for (path, file, content) in &mut open {
                let chunk = &content[first + turn as usize * self.chunk..][..self.chunk];
                file.write_all(chunk).map_err(failed("append to", path))?;
                if self.fsync_every > 0 && (turn + 1) % self.fsync_every == 0 {
                    file.sync_all().map_err(failed("fsync", path))?;
                }
                read::pause(self.pause, interrupt)?;
            }
        }
        Ok(())
    }
}

fn rounds_of(settings: &Settings) -> Result<Vec<u64>, Failure> {
    Ok(rounds::steps(settings.integer("rounds")?, settings.integer("step")?))
}

impl RunKind for FragIntra {
    fn kind(&self) -> &'static str {
        "frag-intra"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        analyse(
            record,
            &Story {
                title: "Fragmentation inside files",
                round: "round",
                summary: "In round r the last r parts of a hundred of every file were appended in turn, 4 KiB at a time, \
                          each append ended by fsync; then all files were read cold in directory order. Beside each \
                          round stands its unaged copy.",
                published: self.published(),
                variant: None,
                claims: None,
            },
        )
    }
}

impl Experiment for FragIntra {
    fn title(&self) -> &'static str {
        "Fragmentation inside files: appends in turn, then a cold read"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/frag-intra.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/frag-intra.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let (common, procedure) = (Common::of(settings)?, Procedure::of(settings)?);
        common.check_room(procedure.bytes())?;
        let rounds = rounds_of(settings)?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for fs in &common.file_systems {
            for round in &rounds {
                let appended = procedure.appended(*round);
                plan.step(
                    format!(
                        "append {appended} times {} to {} files in turn, read cold",
                        Bytes(procedure.chunk as u64),
                        procedure.files
                    ),
                    format!("{fs}, {}", common.place.words(common.size)),
                );
                plan.bytes_to_write += 2 * procedure.bytes().0;
                plan.estimated_seconds += common.seconds_of_round(procedure.bytes())
                    + (appended * procedure.files) as f64 * (3e-4 + procedure.pause.as_secs_f64());
            }
        }
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let (common, procedure) = (Common::of(settings)?, Procedure::of(settings)?);
        rounds::run(self.kind(), &common, &rounds_of(settings)?, settings, context, &|root, round, interrupt| {
            procedure.write(root, round, interrupt)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn procedure() -> Procedure {
        let (pause, seed) = (Duration::ZERO, Seed(1));
        Procedure { files: 3, chunks: 8, chunk: 16, rounds: 4, fsync_every: 1, pause, seed }
    }

    #[test]
    fn every_round_leaves_the_same_files() {
        let (first, last) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        procedure().write(first.path(), 0, &Interrupt::new()).unwrap();
        procedure().write(last.path(), 4, &Interrupt::new()).unwrap();
        for number in 0..3 {
            let name = format!("file{number:03}");
            let read = |room: &Path| std::fs::read(room.join(&name)).unwrap();
            assert_eq!(read(first.path()), procedure().content(number));
            assert_eq!(read(last.path()), procedure().content(number));
        }
    }

    #[test]
    fn content_follows_from_the_seed() {
        let golden: Vec<u8> = procedure().content(0)[..8].to_vec();
        assert_eq!(golden, GOLDEN);
        assert_ne!(procedure().content(0), procedure().content(1));
    }

    const GOLDEN: [u8; 8] = [241, 243, 76, 133, 114, 188, 116, 68];

    #[test]
    fn round_0_appends_nothing_and_the_last_one_everything() {
        let appended: Vec<u64> = (0..=4).map(|round| procedure().appended(round)).collect();
        assert_eq!(appended, [0, 2, 4, 6, 8]);
    }
}
