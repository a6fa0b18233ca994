//! The specification of `senesce age`, which its flags are parsed into.

mod checks;
mod estimate;
#[cfg(test)]
pub(super) mod tests;

pub use super::limits::Limits;

use super::own_target::LocatedTarget;
use super::words;
use crate::compressed_aging::certificate::{CertificateRequest, certified};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Command, FromArgMatches};
use senesce_aging::measure::Measures;
use senesce_aging::parts::{MOST_PARTS, part_capacity, part_seed};
use senesce_aging::plan::DEFAULT_FULLNESS;
use senesce_aging::{
    AgingPlan, Churn, Clock, CommitShare, Compression, Data, ExecuteOptions, Limit, PlanSpec, Planner, Profile, Shard,
    Summary, Tally, Truncate,
};
use senesce_core::{Bytes, Failure, Plan, Seed};
use senesce_volume::{BlockDevice, FileSystem, TargetSpec};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The specification of an aging. Every field shapes the result, so runs with equal specifications are the same run. A flag of
/// `senesce age` that shapes the result is declared here only. Those of [`Limits`] may change when a run is resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
pub struct AgeSpec {
    /// The target; `None` for a plan without a target.
    #[arg(skip)]
    pub target: Option<TargetSpec>,
    /// Where this process finds the target of a continued run.
    #[arg(skip)]
    #[serde(skip)]
    pub located: Option<LocatedTarget>,
    /// Profile or TOML file
    #[arg(long, default_value = "agrawal", value_name = "NAME", help_heading = "Aged state")]
    pub profile: String,
    /// BLAKE3 of the profile's content: a changed file is another run.
    #[arg(skip)]
    pub profile_hash: String,
    /// Size of the volume [default: the target's]
    #[arg(long, help_heading = "Aged state")]
    pub size: Option<Bytes>,
    /// Fullness [default: the profile's, or 80%]
    #[arg(long, value_name = "SHARE", value_parser = words::share, help_heading = "Aged state")]
    pub fullness: Option<f64>,
    /// Root seed
    #[arg(long, value_name = "N", default_value = words::SEED, value_parser = words::seed(), help_heading = "Aged state")]
    pub seed: Seed,
    /// Replaced sizes: profile (default) or bins
    #[arg(long, value_name = "HOW", default_value = "profile", hide_default_value = true, value_parser = words::churn(), hide_possible_values = true, help_heading = "Aged state")]
    pub churn: Churn,
    /// Locality of births, 0 to 1 [default: profile's]
    #[arg(long, value_name = "SHARE", value_parser = words::locality, help_heading = "Aged state")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locality: Option<f64>,
    /// Draw file sizes within their size bin
    #[arg(long, help_heading = "Aged state")]
    pub spread_sizes: bool,
    /// Large files: refuse (default), drop, clamp
    #[arg(long = "truncate-sizes", value_name = "HOW", num_args = 0..=1, default_value = "refuse", hide_default_value = true,
          default_missing_value = "clamp", value_parser = words::truncate(), hide_possible_values = true, help_heading = "Aged state")]
    pub truncate: Truncate,
    /// Execute fewer operations for the same layout
    #[arg(long, conflicts_with_all = ["overwrites", "confidence", "max_overwrites", "max_operations"],
          help_heading = "Aged state")]
    #[serde(skip)]
    pub compress: bool,
    /// The executed share of each age class; `None`: everything.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// Limits that end the aging.
    #[command(flatten)]
    #[serde(flatten)]
    pub limits: Limits,
    /// File system to make [default: ext4]
    #[arg(long = "fs", value_name = "NAME", help_heading = "Target")]
    pub file_system: Option<FileSystem>,
    /// More options for mkfs
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true,
        help_heading = "Target"
    )]
    pub mkfs_options: String,
    /// Mount options
    #[arg(long, value_name = "OPTIONS", default_value = "", hide_default_value = true, help_heading = "Target")]
    pub mount_options: String,
    /// Hold the image in memory until the run ends
    #[arg(long, help_heading = "Target")]
    pub in_memory: bool,
    /// write (default), fallocate or sparse
    #[arg(long, value_name = "HOW", default_value = "write", default_value_if("compress", "true", "fallocate"), value_parser = words::data(), hide_default_value = true, hide_possible_values = true, help_heading = "Execution")]
    pub data: Data,
    /// Skip the modelled cost of age
    #[arg(long, conflicts_with = "copies", help_heading = "Execution")]
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_cost: bool,
    /// Compare with real copies of the files; for memory:SIZE
    #[arg(long, help_heading = "Execution")]
    #[serde(default, skip_serializing_if = "is_false")]
    pub copies: bool,
    /// Measure a cold read of all files at the end
    #[arg(long, conflicts_with = "record_order", help_heading = "Execution")]
    #[serde(default, skip_serializing_if = "is_false")]
    pub measure: bool,
    /// Record the order of last writes in IMAGE.order
    #[arg(long, help_heading = "Execution")]
    #[serde(default, skip_serializing_if = "is_false")]
    pub record_order: bool,
    /// fsync after every N creates; 0: never
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Execution")]
    pub fsync_every: u64,
    /// Commit after freeing this share [default: 5%]
    #[arg(long, value_name = "SHARE", help_heading = "Clock")]
    pub commit_share: Option<CommitShare>,
    /// Commit after every N operations
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = "Clock")]
    pub sync_every: u64,
    /// Maximum operations per second
    #[arg(long, value_name = "N", value_parser = words::pace, help_heading = "Clock")]
    pub pace: Option<f64>,
    /// Operations per virtual time, such as 10/s or 1/min
    #[arg(long, value_name = "RATE", value_parser = words::time_scale, conflicts_with_all = ["pace", "commit_share", "sync_every"], help_heading = "Clock")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_scale: Option<f64>,
    /// Operations that arrive at once
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..), help_heading = "Clock")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Worker threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024),
          help_heading = "Execution")]
    pub threads: usize,
    /// Files that grow at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024),
          help_heading = "Execution")]
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub writers: u32,
    /// Share I of N of the directories; I starts at 0
    #[arg(long, value_name = "I/N", value_parser = words::shard, help_heading = "Execution")]
    pub shard: Option<(u32, u32)>,
    /// Parts of the plan, for ranks of --mpi
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "shard",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_PARTS)), help_heading = "Execution")]
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
    /// Parses the flags of `senesce age`.
    ///
    /// # Errors
    /// A usage error with the message of clap.
    pub fn of_flags(flags: &[&str]) -> Result<Self, Failure> {
        let command = Self::augment_args(Command::new("age").no_binary_name(true));
        let matches = command.try_get_matches_from(flags);
        let spec = matches.and_then(|matches| Self::from_arg_matches(&matches));
        spec.map_err(|error| Failure::usage(error.to_string()))
    }

    /// Completes the specification for a target: with the hash of its profile and the defaults that depend on other
    /// values.
    ///
    /// # Errors
    /// The profile cannot be read, the file system does not go with the target, or the compression is not certified.
    pub fn on(self, target: Option<TargetSpec>) -> Result<Self, Failure> {
        let profile = Profile::load(&self.profile)?;
        let profile_hash = profile_hash(&profile);
        let burst = self.burst.or(profile.burst.filter(|_| self.pace().is_some())).filter(|burst| *burst > 1);
        let file_system = match (&target, self.file_system) {
            (Some(TargetSpec::Directory(_)), Some(_)) => {
                return Err(Failure::usage(
                    "cannot make a file system in a directory: --fs is for images and devices\nhint: omit --fs",
                ));
            }
            (Some(TargetSpec::Directory(_)), None) => None,
            (Some(_), chosen) => Some(chosen.unwrap_or(FileSystem::Ext4)),
            (None, chosen) => chosen,
        };
        let commit_share = Some(self.clock().commit_share);
        let spec = Self { target, profile_hash, file_system, commit_share, burst, compress: false, ..self.clone() };
        if self.compress { Self { locality: spec.locality.or(Some(0.0)), ..spec }.compressed() } else { Ok(spec) }
    }

    /// Returns the clock. A time scale that is named replaces the default one.
    pub(crate) fn clock(&self) -> Clock {
        let is_named = self.sync_every > 0 || self.pace().is_some();
        let default = if is_named { CommitShare::NONE } else { CommitShare::DEFAULT };
        Clock { commit_share: self.commit_share.unwrap_or(default), sync_every: self.sync_every }
    }

    /// Returns whether all commits follow from the plan, none from a timer of the file system.
    pub fn commits_by_plan(&self) -> bool {
        self.pace().is_none() && !self.clock().is_none()
    }

    /// Returns the maximum operations per second, of the machine's clock or of a virtual one.
    pub(crate) fn pace(&self) -> Option<f64> {
        self.pace.or(self.time_scale)
    }

    /// Operations that arrive at once.
    pub(crate) fn burst(&self) -> u32 {
        self.burst.unwrap_or(1)
    }

    /// Returns the options that decide when operations arrive.
    pub(crate) fn arrivals(&self) -> ExecuteOptions {
        ExecuteOptions { pace: self.pace(), burst: self.burst().into(), ..ExecuteOptions::default() }
    }

    pub(crate) fn shard(&self) -> Option<Shard> {
        self.shard.map(|(index, count)| Shard { index, count })
    }

    /// Returns the target with its path for this process. A continued run may have started in another directory.
    pub fn local_target(&self) -> Option<&TargetSpec> {
        self.located.as_ref().map(|located| &located.target).or(self.target.as_ref())
    }

    pub(crate) fn target_words(&self) -> String {
        self.target.as_ref().map_or_else(|| "-".into(), ToString::to_string)
    }

    /// Loads the profile and compares its hash.
    ///
    /// # Errors
    /// The profile was not found, cannot be read or has changed.
    pub(crate) fn load_profile(&self) -> Result<Profile, Failure> {
        let profile = Profile::load(&self.profile)?;
        let hash = profile_hash(&profile);
        if !self.profile_hash.is_empty() && hash != self.profile_hash {
            let words = format!(
                "profile {} has changed since the run began\nhint: restore the former file to continue",
                self.profile
            );
            return Err(Failure::usage(words));
        }
        Ok(profile)
    }

    /// Returns the declared size: as given, of the image to make, or of the device.
    ///
    /// # Errors
    /// A usage error when neither `size` nor the target has a size; the device cannot be opened.
    pub(crate) fn capacity(&self) -> Result<Bytes, Failure> {
        self.size.map_or_else(|| self.own_size(), Ok)
    }

    fn own_size(&self) -> Result<Bytes, Failure> {
        let needs = |what: &str| {
            Failure::usage(format!(
                "cannot plan without a size: {what}\nhint: give the size of the volume with --size, such as --size 1G"
            ))
        };
        let Some(target) = self.local_target() else { return Err(needs("no target given")) };
        match target {
            TargetSpec::Image { size: Some(size), .. } | TargetSpec::Memory { size } => Ok(*size),
            TargetSpec::Image { path, size: None } => std::fs::metadata(path)
                .map(|found| Bytes(found.len()))
                .map_err(|_| needs(&format!("{} does not exist yet", path.display()))),
            TargetSpec::Device(path) => Ok(BlockDevice::open(path)?.size()),
            TargetSpec::Directory(path) => Err(needs(&format!("{} is a directory", path.display()))),
        }
    }

    /// Returns the specification with the strongest compression certified for its profile and file system.
    pub(crate) fn compressed(mut self) -> Result<Self, Failure> {
        let file_system = self.file_system.ok_or_else(|| {
            Failure::usage(match self.target {
                None => "cannot compress a plan without a file system\nhint: name it with --fs",
                Some(_) => "cannot compress the aging of a directory: other files shape its layout\nhint: age an image or a device",
            })
        })?;
        self.check_whole_volume()?;
        let fullness = self.fullness.or(self.load_profile()?.fullness).unwrap_or(DEFAULT_FULLNESS);
        let as_measured = self.clock() == Clock::default()
            && self.churn == Churn::Profile
            && !self.spread_sizes
            && self.locality == Some(0.0)
            && self.data == Data::Fallocate
            && self.fsync_every == 0
            && self.writers == 1
            && self.pace().is_none()
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
        let locality = self.locality.or(profile.locality).unwrap_or(0.0);
        let base = PlanSpec {
            profile,
            capacity: part_capacity(self.capacity()?, self.parts),
            fullness: self.fullness,
            seed: part_seed(self.seed, part, self.parts),
            churn: self.churn,
            locality: Some(locality),
            spread_sizes: self.spread_sizes,
            truncate: self.truncate,
            limit: Limit::Bound,
            clock: self.clock(),
            compression: self.compression,
        };
        let plan = |limit| AgingPlan::new(&PlanSpec { limit, ..base.clone() });
        let make = |limit| Ok(Arc::new(plan(limit).map_err(|error| error.of_parts(self.parts))?));
        self.limits.plan(self.parts, &make)
    }

    /// Creates a planner of one part under the limits, before its first operation.
    ///
    /// # Errors
    /// Those of [`Self::load_profile`], [`Self::capacity`] and [`Limits::plan`]; [`senesce_aging::AgingError`] names
    /// values that cannot be planned.
    pub fn planner(&self, part: u32) -> Result<Planner, Failure> {
        Ok(self.plan_of(part)?.operations())
    }

    pub fn summary(&self) -> Result<Summary, Failure> {
        let part = self.plan_of(0)?.summary().clone();
        let whole = Summary::of_parts(&vec![part; self.parts.max(1) as usize]);
        whole.ok_or_else(|| Failure::usage("a plan has at least one part"))
    }

    /// Returns whether the cost of age is modelled: only files with content take time to read.
    pub(crate) fn has_cost(&self) -> bool {
        self.data == Data::Write && !self.no_cost
    }

    pub(crate) fn measures(&self, tally: &Tally) -> Result<Measures, Failure> {
        Ok(self.plan_of(0)?.measures(self.parts, tally))
    }

    pub(crate) fn describe(&self, mut plan: Plan, summary: &Summary) -> Plan {
        let target = &self.target_words();
        if let Some(file_system) = self.file_system {
            plan.step(format!("make {file_system}"), target);
        }
        plan.step(format!("create {} files up to fullness {:.3}", summary.files, summary.fullness), target);
        if !self.clock().is_none() {
            plan.note(self.clock().to_string());
        }
        if self.writers > 1 {
            plan.note(format!("write {} files concurrently", self.writers));
        }
        if summary.changes {
            plan.note("append to, truncate, overwrite and rename files at the rates of the profile");
        }
        plan.step(
            format!("age by {} to operation {} ({:.1} overwrites)", summary.profile, summary.t_end, summary.overwrites),
            target,
        );
        if let Some(words) = self.limits.missed(summary) {
            plan.note(words);
        }
        self.add_estimates(&mut plan, summary);
        plan
    }
}

pub fn profile_hash(profile: &Profile) -> String {
    let text = serde_json::to_vec(profile).unwrap_or_default();
    blake3::hash(&text).to_hex().as_str()[..16].to_string()
}
