//! The data that a model is fitted to: measurements of a drive, or tables of published values.

use crate::job::cost::of_job;
use senesce_core::failure::failed;
use senesce_core::{Bytes, Failure};
use senesce_zoned::fit::block::Observations;
use senesce_zoned::fit::design::{Design, Effort, design, start_model};
use senesce_zoned::fit::fit_data::{self, FitData};
use senesce_zoned::fit::probe::{Probe, Work};
use senesce_zoned::job::check;
use senesce_zoned::sim::model::Model;
use senesce_zoned::survey::{DriveNature, Survey};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The parameters that determine the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// The drive: `sim:MODEL`, a device, or `tables` for published values.
    pub device: String,
    /// Tables of published values, instead of a drive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableFile>,
    /// The model that supplies the structure, and the constants that are not measured.
    pub start: String,
    /// Measurements of each point, at least 2.
    pub repetitions: u32,
    /// Commands of an actor that runs on its own.
    pub commands: u64,
    /// Seconds of concurrent actors.
    pub seconds: f64,
    /// Rounds of single commands.
    pub rounds: u32,
}

impl Spec {
    pub fn of(device: &str, start: &str) -> Self {
        let Effort { commands, seconds, rounds } = Effort::usual(device.starts_with("sim:"));
        let (device, start, tables) = (device.into(), start.into(), Vec::new());
        Self { device, tables, start, repetitions: 3, commands, seconds, rounds }
    }

    pub fn of_tables(files: &[PathBuf], start: &str) -> Result<Self, Failure> {
        let tables = files.iter().map(|file| TableFile::of(file)).collect::<Result<_, _>>()?;
        Ok(Self { tables, ..Self::of("tables", start) })
    }

    fn effort(&self) -> Effort {
        Effort { commands: self.commands, seconds: self.seconds, rounds: self.rounds }
    }

    fn check(&self) -> Result<(), Failure> {
        if self.repetitions < 2 {
            let words = "--repetitions: at least 2, because the uncertainty is computed from the differences between \
                         repetitions";
            return Err(Failure::usage(words));
        }
        if self.commands < 100 || self.rounds < 5 || !(0.1..=3600.0).contains(&self.seconds) {
            return Err(Failure::usage("too little is measured: at least 100 commands, 0.1 s and 5 rounds"));
        }
        Ok(())
    }
}

/// A file with a table, identified by its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TableFile {
    /// Path.
    pub path: PathBuf,
    /// CRC-32 of its text, hexadecimal.
    pub crc32: String,
}

impl TableFile {
    fn of(path: &Path) -> Result<Self, Failure> {
        let path = path.canonicalize().map_err(failed("read the table", path))?;
        let crc32 = checksum(&text_of(&path)?);
        Ok(Self { path, crc32 })
    }

    /// Reads the text and checks that it is unchanged since the run began.
    fn text(&self) -> Result<String, Failure> {
        let text = text_of(&self.path)?;
        match checksum(&text) == self.crc32 {
            true => Ok(text),
            false => Err(Failure::usage(format!(
                "the table {} has changed since this run began; begin another run",
                self.path.display()
            ))),
        }
    }
}

fn text_of(path: &Path) -> Result<String, Failure> {
    senesce_core::input::text(path).map_err(failed("read the table", path))
}

fn checksum(text: &str) -> String {
    format!("{:08x}", crc32fast::hash(text.as_bytes()))
}

pub(super) struct Source {
    pub survey: Option<Survey>,
    pub design: Design,
    pub start: Model,
    pub given: Observations,
}

impl Source {
    pub(crate) fn of(spec: &Spec) -> Result<Self, Failure> {
        spec.check()?;
        let start = Model::load(&spec.start)?;
        if start.zones.is_none() {
            return Err(Failure::usage(format!("--start {}: it is the model of a drive without zones", spec.start)));
        }
        if !spec.tables.is_empty() {
            let text = |table: &TableFile| Ok((table.path.display().to_string(), table.text()?));
            let texts = spec.tables.iter().map(text).collect::<Result<Vec<_>, Failure>>()?;
            let FitData { design, observations } = fit_data::read(&texts)?;
            let start = Model { name: "fitted".into(), fit: None, ..start };
            return Ok(Self { survey: None, design, start, given: observations });
        }
        let survey = Survey::of(&spec.device.parse()?)?;
        let design = design(&survey, spec.effort())?;
        let start = start_model(&survey, &start, "fitted")?;
        Ok(Self { survey: Some(survey), design, start, given: Observations::new() })
    }

    pub(crate) fn probes(&self) -> impl Iterator<Item = (&Probe, &Survey)> {
        self.survey.iter().flat_map(|survey| self.design.probes().map(move |probe| (probe, survey)))
    }
}

/// Returns an upper bound of the bytes that a point writes, and a rough estimate of its seconds.
pub(super) fn cost(probe: &Probe, survey: &Survey) -> (Bytes, f64) {
    let (Work::Job(job), false) = (&probe.work, survey.nature == DriveNature::Simulated) else {
        return (Bytes(0), 0.1);
    };
    let checked = check(job, &survey.geometry, &survey.zones);
    checked.map_or((Bytes(0), 0.0), |checked| of_job(&checked, &survey.geometry))
}
