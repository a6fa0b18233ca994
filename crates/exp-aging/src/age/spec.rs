//! The specification of `senesce age`.

#[cfg(test)]
pub(super) mod tests;

pub use super::limits::Limits;

use crate::compressed_aging::certificate::{CertificateRequest, certified};
use senesce_aging::measure::Measures;
use senesce_aging::parts::{part_capacity, part_seed};
use senesce_aging::plan::DEFAULT_FULLNESS;
use senesce_aging::{
    AgingPlan, Churn, Clock, Compression, Limit, PlanSpec, Planner, Profile, Summary, Tally, Truncate,
};
use senesce_core::parameter::suggest;
use senesce_core::{Bytes, ExitCode, Failure, Plan, Seed};
use senesce_volume::{BlockDevice, FileSystem, TargetSpec};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The specification of an aging. Every field shapes the result, so runs with equal specifications are the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgeSpec {
    /// The target as given by the user; `None` for a plan without a target.
    pub target: Option<String>,
    /// Name of a built-in profile, or a file.
    pub profile: String,
    /// BLAKE3 hash of the profile's content: a changed file is another run.
    pub profile_hash: String,
    /// Declared size; `None`: the size of the target.
    pub size: Option<Bytes>,
    /// Target fullness; `None`: the profile's, else 0.8.
    pub fullness: Option<f64>,
    /// Root seed.
    pub seed: Seed,
    /// Which files are replaced.
    pub churn: Churn,
    /// Draw sizes inside their bins.
    pub spread_sizes: bool,
    /// How to handle files larger than the volume.
    pub truncate: Truncate,
    /// The executed share of each age class; `None`: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// Limits that end the aging.
    #[serde(flatten)]
    pub limits: Limits,
    /// File system to make.
    pub file_system: Option<FileSystem>,
    /// More options for mkfs.
    pub mkfs_options: String,
    /// Mount options.
    pub mount_options: String,
    /// Keep the image in memory while aging.
    pub in_memory: bool,
    /// How files get their content: `fallocate`, `write` or `sparse`.
    pub data: String,
    /// Record the order of the last writes of the image's blocks.
    #[serde(default, skip_serializing_if = "is_false")]
    pub record_order: bool,
    /// fsync after this number of creates; 0: never.
    pub fsync_every: u64,
    /// When the file system must commit.
    #[serde(flatten)]
    pub clock: Clock,
    /// Maximum operations per second; `None`: unlimited.
    pub pace: Option<f64>,
    /// Worker threads.
    pub threads: usize,
    /// Files that are kept open and grow concurrently.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub writers: u32,
    /// This machine's share of the directories: (part, parts).
    pub shard: Option<(u32, u32)>,
    /// Parts that the plan is divided into.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub parts: u32,
}

fn one() -> u32 {
    1
}

// Serde passes a reference.
fn is_false(flag: &bool) -> bool {
    !flag
}

// Serde passes a reference.
fn is_one(parts: &u32) -> bool {
    *parts == 1
}

impl AgeSpec {
    /// Loads the profile and compares its hash.
    ///
    /// # Errors The profile was not found, cannot be read or has changed.
    pub fn load_profile(&self) -> Result<Profile, Failure> {
        let profile = Profile::load(&self.profile)?;
        let hash = profile_hash(&profile);
        if !self.profile_hash.is_empty() && hash != self.profile_hash {
            let words = format!(
                "profile {} has changed since the run began; restore the previous file to continue",
                self.profile
            );
            return Err(Failure::usage(words));
        }
        Ok(profile)
    }

    /// The declared size: as given, of the image to make, or of the device.
    ///
    /// # Errors A usage error when neither `size` nor the target has a size; the device cannot be opened.
    pub fn capacity(&self) -> Result<Bytes, Failure> {
        self.size.map_or_else(|| self.own_size(), Ok)
    }

    fn own_size(&self) -> Result<Bytes, Failure> {
        let needs = |what: &str| {
            Failure::usage(format!("{what}: give the size of the volume with --size, for example --size 1G"))
        };
        let Some(target) = &self.target else { return Err(needs("a plan without a target")) };
        match target.parse::<TargetSpec>()? {
            TargetSpec::Image { size: Some(size), .. } | TargetSpec::Memory { size } => Ok(size),
            TargetSpec::Image { path, size: None } => std::fs::metadata(&path)
                .map(|found| Bytes(found.len()))
                .map_err(|_| needs(&format!("{} does not exist yet", path.display()))),
            TargetSpec::Device(path) => Ok(BlockDevice::open(&path)?.size()),
            TargetSpec::Directory(path) => {
                Err(needs(&format!("{} as a directory has no size of its own", path.display())))
            }
        }
    }

    /// Refuses compression if the files fill only a part of their volume: layouts were measured on whole volumes.
    fn check_whole_volume(&self) -> Result<(), Failure> {
        let (Some(declared), Ok(own)) = (self.size, self.own_size()) else { return Ok(()) };
        if declared == own {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "--compress with --size {declared} on a target of {own}: compression was measured only on whole \
             volumes; omit --size, or age it in full"
        )))
    }

    /// The specification with the strongest compression certified for its profile and file system.
    pub fn compressed(mut self) -> Result<Self, Failure> {
        let file_system = self.file_system.ok_or_else(|| {
            Failure::usage(match self.target {
                None => "--compress: name the file system with --fs",
                Some(_) => {
                    "--compress: other files on the file system of a directory shape its layout; age an \
                    image or a device"
                }
            })
        })?;
        self.check_whole_volume()?;
        let fullness = self.fullness.or(self.load_profile()?.fullness).unwrap_or(DEFAULT_FULLNESS);
        let as_measured = self.clock == Clock::default()
            && self.churn == Churn::Profile
            && !self.spread_sizes
            && self.data == "fallocate"
            && self.fsync_every == 0
            && self.writers == 1
            && self.pace.is_none()
            && (self.mkfs_options.trim(), self.mount_options.trim()) == ("", "")
            && (self.parts, self.shard) == (1, None);
        let size = self.capacity()?;
        let threads = self.threads as u32;
        let wanted = CertificateRequest { profile: &self.profile, file_system, size, fullness, threads, as_measured };
        self.compression = Some(certified(&wanted)?);
        Ok(self)
    }

    fn plan_of(&self, part: u32) -> Result<Arc<AgingPlan>, Failure> {
        let profile = self.load_profile()?;
        self.check_together(&profile)?;
        let base = PlanSpec {
            profile,
            capacity: part_capacity(self.capacity()?, self.parts),
            fullness: self.fullness,
            seed: part_seed(self.seed, part, self.parts),
            churn: self.churn,
            spread_sizes: self.spread_sizes,
            truncate: self.truncate,
            limit: Limit::Bound,
            clock: self.clock,
            compression: self.compression,
        };
        let plan = |limit| AgingPlan::new(&PlanSpec { limit, ..base.clone() });
        let make = |limit| Ok(Arc::new(plan(limit).map_err(|error| error.of_parts(self.parts))?));
        self.limits.plan(self.parts, &make)
    }

    /// Refuses conflicting options.
    fn check_together(&self, profile: &Profile) -> Result<(), Failure> {
        if self.data == "sparse" && profile.changes.iter().any(|row| row.overwrites > 0.0) {
            return Err(Failure::usage(format!(
                "profile {} overwrites files in place, and --data sparse gives them no blocks: use --data \
                 fallocate or write",
                profile.name
            )));
        }
        if self.writers == 1 {
            return Ok(());
        }
        let refused =
            |what: &str, why: &str| Err(Failure::usage(format!("--writers {} with {what}: {why}", self.writers)));
        if self.threads > 1 {
            refused(
                "--threads",
                "one thread writes to all files in turn, so that the same pieces are adjacent every time",
            )
        } else if self.parts > 1 || self.shard.is_some() {
            refused("--parts or --shard", "files of one plan are written concurrently on one machine")
        } else if self.data == "sparse" {
            refused("--data sparse", "sparse files have no pieces; use --data fallocate or write")
        } else {
            Ok(())
        }
    }

    /// A planner of one part under the limits, before its first operation.
    ///
    /// # Errors Those of [`Self::load_profile`], [`Self::capacity`] and [`Limits::plan`]; [`senesce_aging::AgingError`] names
    /// values that cannot be planned.
    pub fn planner(&self, part: u32) -> Result<Planner, Failure> {
        Ok(self.plan_of(part)?.operations())
    }

    /// The totals of the plan, the same for every part.
    pub fn summary(&self) -> Result<Summary, Failure> {
        let part = self.plan_of(0)?.summary().clone();
        let whole = Summary::of_parts(&vec![part; self.parts.max(1) as usize]);
        whole.ok_or_else(|| Failure::usage("a plan has at least one part"))
    }

    /// Checks that the order of writes can be recorded if requested.
    ///
    /// # Errors A usage error for files without written blocks, and for a target that is not an image.
    pub fn check_recording(&self) -> Result<(), Failure> {
        if !self.record_order {
            return Ok(());
        }
        if self.data != "write" {
            return Err(Failure::usage("--record-order needs --data write: other files have no written blocks"));
        }
        match self.target.as_deref().map(str::parse) {
            Some(Ok(TargetSpec::Image { .. })) => Ok(()),
            _ => Err(Failure::usage(
                "--record-order is for images: the order is stored next to the file, as \
                IMAGE.order",
            )),
        }
    }

    pub fn measures(&self, tally: &Tally) -> Result<Measures, Failure> {
        Ok(self.plan_of(0)?.measures(self.parts, tally))
    }

    /// Adds the actions of the run to `plan`.
    pub fn describe(&self, mut plan: Plan, summary: &Summary) -> Plan {
        let target = self.target.as_deref().unwrap_or("-");
        if let Some(file_system) = self.file_system {
            plan.step(format!("make {file_system}"), target);
        }
        plan.step(format!("create {} files up to fullness {:.3}", summary.files, summary.fullness), target);
        if !self.clock.is_none() {
            plan.step(self.clock.to_string(), target);
        }
        if self.writers > 1 {
            plan.step(format!("write {} files concurrently", self.writers), target);
        }
        if summary.changes {
            plan.step("append to, truncate, overwrite and rename files at the rates of the profile", target);
        }
        plan.step(
            format!("age by {} to operation {} ({:.1} overwrites)", summary.profile, summary.t_end, summary.overwrites),
            target,
        );
        if let Some(words) = self.limits.missed(summary) {
            plan.step(words, target);
        }
        let (content, metadata) = self.bytes_to_write(summary);
        plan.bytes_to_write = content + metadata;
        plan.estimated_seconds = self.estimate_seconds(summary, content);
        plan
    }

    /// Bytes of content and metadata to write. An overwrite in place also writes content that was not written before, and a
    /// truncated file is longer at first.
    fn bytes_to_write(&self, summary: &Summary) -> (u64, u64) {
        let changes = &summary.changes_expected;
        match &*self.data {
            "write" => (summary.bytes_created.0 + changes.bytes_truncated + changes.bytes_overwritten, 0),
            _ => (changes.bytes_overwritten, (summary.creates + changes.all()) * 4096),
        }
    }

    /// Assumes ext4 in memory if unknown, and 1 GiB of content per second; at least the time that the pace requires.
    fn estimate_seconds(&self, summary: &Summary, content: u64) -> f64 {
        let file_system = self.file_system.unwrap_or(FileSystem::Ext4);
        let operations = summary.t_end + summary.changes_expected.all();
        let own = file_system.seconds_of_operations(operations) + content as f64 / 1e9;
        self.pace.map_or(own, |pace| own.max(summary.t_end as f64 / pace))
    }
}

pub fn profile_hash(profile: &Profile) -> String {
    let text = serde_json::to_vec(profile).unwrap_or_default();
    blake3::hash(&text).to_hex().as_str()[..16].to_string()
}

/// Parses `confidence=0.95` of `--until`.
///
/// # Errors A usage error for other text, and for a number outside of 0 to 1.
pub fn parse_until(text: &str) -> Result<f64, Failure> {
    let wrong = |problem: String| Failure::usage(format!("--until {text}: {problem}"));
    let (name, value) =
        text.split_once('=').ok_or_else(|| wrong("write confidence=P, for example confidence=0.95".into()))?;
    if name != "confidence" {
        return Err(wrong(format!("unknown limit '{name}'{}", suggest(name, ["confidence"]))));
    }
    match value.parse::<f64>() {
        Ok(p) if p > 0.0 && p < 1.0 => Ok(p),
        _ => Err(wrong("P is a probability above 0 and below 1".into())),
    }
}

/// Parses `i/n` of `--shard`, with i from 0.
///
/// # Errors A usage error unless both are numbers and the first is smaller.
pub fn parse_shard(text: &str) -> Result<(u32, u32), Failure> {
    let parts = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((part, of)) if part < of => Ok((part, of)),
        _ => Err(Failure::new(
            ExitCode::Usage,
            format!("--shard {text}: write I/N with I from 0 to N-1, for example 0/4"),
        )),
    }
}
