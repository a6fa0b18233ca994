//! Records block traces of the guest's drives, and the zones before and after.

use senesce_core::{ExitCode, Failure};
use senesce_runner::{Context, Run};
use senesce_volume::{BlockDevice, TraceSession};
use senesce_zoned::survey::Survey;
use senesce_zoned::{Geometry, ZoneInfo};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The use of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// A conventional drive that holds all data and metadata.
    Conventional,
    /// A zoned drive.
    Zoned,
    /// A small conventional drive for the metadata of a zoned one. The published runs kept it in memory (null_blk), so
    /// it takes no time on the model.
    Metadata,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Conventional => "conventional",
            Self::Zoned => "zoned",
            Self::Metadata => "metadata",
        }
    }
}

/// The zones of a drive around a recording: blocks up to the write pointer of each zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Zones {
    /// Number, size and limits.
    pub geometry: Geometry,
    /// At the start.
    pub before: Vec<u64>,
    /// After the end.
    pub after: Vec<u64>,
    /// Shortly before the end, because a file system may reset zones between the two readings. Empty: not read.
    #[serde(default)]
    pub shortly_before: Vec<u64>,
}

/// One drive of a recording. Its requests are in a file of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TracedDrive {
    /// Use of the drive.
    pub role: Role,
    /// Name of the file.
    pub file: String,
    /// Origin of its times, in nanoseconds of the clock that all drives share.
    pub start_ns: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Zones of a zoned drive.
    pub zones: Option<Zones>,
}

/// All drives of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TracedDrives {
    /// Start of the measurement, in nanoseconds of the same clock.
    pub begin_ns: u64,
    /// End of the measurement, in nanoseconds of the same clock.
    pub end_ns: u64,
    /// The drives of the recording.
    pub drives: Vec<TracedDrive>,
}

impl TracedDrives {
    pub(crate) fn folder(&self, folders: Vec<PathBuf>) -> Result<PathBuf, Failure> {
        let holds =
            |folder: &PathBuf| self.drives.iter().all(|drive| folder.join(&drive.file).symlink_metadata().is_ok());
        let found = folders.into_iter().find(holds);
        found.ok_or_else(|| {
            let files: Vec<&str> = self.drives.iter().map(|drive| drive.file.as_str()).collect();
            Failure::new(
                ExitCode::RunFailed,
                format!("the recordings {} were not found in the record of any guest of this run", files.join(", ")),
            )
        })
    }
}

pub(crate) struct Recording {
    sessions: Vec<(Role, BlockDevice, TraceSession, Option<Survey>)>,
}

impl Recording {
    pub(crate) fn start(drives: &[(Role, PathBuf)]) -> Result<Self, Failure> {
        let start = |(role, path): &(Role, PathBuf)| {
            let device = BlockDevice::open(path)?;
            let survey = (*role == Role::Zoned).then(|| survey(path)).transpose()?;
            let session = TraceSession::start(&device)?;
            Ok((*role, device, session, survey))
        };
        Ok(Self { sessions: drives.iter().map(start).collect::<Result<_, Failure>>()? })
    }

    /// Stops the recording and writes the requests to files `NAME-ROLE.blocks` of the record. Sync all writes first.
    /// `measured` is the start and end of the measurement ([`now_ns`]).
    pub(crate) fn stop<R: Run>(
        self,
        context: &mut Context<'_, R>,
        name: &str,
        measured: (u64, u64),
    ) -> Result<TracedDrives, Failure> {
        let mut drives = Vec::new();
        for (role, device, session, survey_before) in self.sessions {
            let (start_ns, bytes) = (session.start_ns(), device.size().0);
            let shortly_before = survey_before.as_ref().map(|_| survey(device.path())).transpose()?;
            let trace = session.stop()?;
            let after = (role == Role::Zoned).then(|| survey(device.path())).transpose()?;
            let file = format!("{name}-{}.blocks", role.word());
            context.write_file(&file, &trace.to_bytes())?;
            let zones = survey_before.zip(after).map(|(before, after)| Zones {
                geometry: before.geometry,
                before: pointers(&before.zones),
                after: pointers(&after.zones),
                shortly_before: shortly_before.map(|found| pointers(&found.zones)).unwrap_or_default(),
            });
            drives.push(TracedDrive { role, file, start_ns, bytes, zones });
        }
        Ok(TracedDrives { begin_ns: measured.0, end_ns: measured.1, drives })
    }
}

/// Reads the clock of recordings, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    senesce_sys::clock::monotonic().as_nanos() as u64
}

fn survey(path: &Path) -> Result<Survey, Failure> {
    Ok(Survey::of(&path.display().to_string().parse()?)?)
}

fn pointers(zones: &[ZoneInfo]) -> Vec<u64> {
    zones.iter().map(ZoneInfo::written).collect()
}
