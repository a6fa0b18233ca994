//! The TOML file of a gate: two variants of a file system, and how they are aged.

use crate::aged::ImageAging;
use senesce_core::machine::VIRTUAL_TIME_ADVICE;
use senesce_core::{Bytes, Failure, Seed};
use senesce_guest::kernel::{self, Engine};
use senesce_study::spec::{CUSTOM, FileSystemSpec};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A gate: does the second file system age worse than the first?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateSpec {
    /// Title of the report.
    pub name: String,
    /// Size of every image.
    pub size: Bytes,
    /// Root seed.
    #[serde(default = "defaults::seed")]
    pub seed: u64,
    /// Number of agings, and what counts as worse.
    pub gate: Rules,
    /// How both are aged.
    #[serde(default)]
    pub aging: AgingSpec,
    /// The reference, then the variant.
    pub file_system: Vec<FileSystemSpec>,
}

/// Number of agings, and what counts as worse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Pairs of agings with the same seed before the first analysis, 3 to 64.
    pub pairs: u32,
    /// Pairs of an undecided gate, at most 64; equal to `pairs`: a single analysis.
    pub max_pairs: u32,
    /// Change that matters, a share of the reference, 0 to 1.
    pub minimum_effect: f64,
    /// Age on this machine's kernel (root), not in user-mode kernels.
    pub host: bool,
    /// Memory of a guest.
    pub memory: Bytes,
}

impl Default for Rules {
    fn default() -> Self {
        Self { pairs: 4, max_pairs: 8, minimum_effect: 0.03, host: false, memory: Bytes::gib(1) }
    }
}

/// How both file systems are aged. Files are written, and those too large for the image left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgingSpec {
    /// Profile or file.
    pub profile: String,
    /// Allocated bytes of files over the size, 0 to 1.
    pub fullness: f64,
    /// Bytes created over the size.
    pub overwrites: f64,
    /// Operations per second of virtual time; none: commits follow from the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<f64>,
    /// A program that ages the mounted directory in which it starts, in place of a profile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

impl Default for AgingSpec {
    fn default() -> Self {
        let (operations_per_second, command) = (None, Vec::new());
        Self { profile: "agrawal".into(), fullness: 0.7, overwrites: 2.0, operations_per_second, command }
    }
}

mod defaults {
    pub(crate) fn seed() -> u64 {
        senesce_core::seed::DEFAULT_SEED.0
    }
}

const MOST_PAIRS: u32 = 64;

impl GateSpec {
    /// Returns whether the text is a gate, not a study.
    pub fn is_gate(text: &str) -> bool {
        text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("gate"))
    }

    /// Reads and checks a gate. A kernel named by its tree becomes the kernel that was built there.
    ///
    /// # Errors
    /// Usage errors that begin with `origin`; a kernel that is not installed.
    pub fn parse(origin: &str, text: &str) -> Result<Self, Failure> {
        let named = |problem: &dyn std::fmt::Display| Failure::usage(format!("{origin}: {problem}"));
        let mut spec: Self = toml::from_str(text).map_err(|error| named(&error))?;
        for one in spec.file_system.iter_mut().filter(|one| one.name.is_empty()) {
            one.name.clone_from(&one.kind);
        }
        spec.check().map_err(|problem| named(&problem))?;
        spec.image_aging(0).plan_spec().map_err(|problem| named(&problem))?;
        if !spec.gate.host {
            spec.name_kernels()?;
        }
        Ok(spec)
    }

    fn check(&self) -> Result<(), String> {
        let [reference, variant] = &self.file_system[..] else {
            return Err(format!("a gate compares 2 file systems, but this one has {}", self.file_system.len()));
        };
        if reference.name == variant.name {
            return Err(format!("both file systems have the name '{}'\nhint: give each a name", variant.name));
        }
        for one in &self.file_system {
            if one.kind != CUSTOM {
                one.kind()?;
            }
            if one.device.is_some() {
                return Err(format!("'{}': a gate ages images in memory; remove the key device", one.name));
            }
            if self.gate.host && !one.kernel.is_empty() {
                return Err(format!("'{}': a gate with host = true uses the kernel of this machine", one.name));
            }
        }
        let Rules { pairs, max_pairs, minimum_effect, .. } = self.gate;
        if !(3..=MOST_PAIRS).contains(&pairs) || !(pairs..=MOST_PAIRS).contains(&max_pairs) {
            return Err(format!("pairs = {pairs}, max_pairs = {max_pairs}: 3 <= pairs <= max_pairs <= {MOST_PAIRS}"));
        }
        if !(minimum_effect > 0.0 && minimum_effect < 1.0) {
            return Err(format!("minimum_effect = {minimum_effect}: must be between 0 and 1"));
        }
        let AgingSpec { fullness, overwrites, operations_per_second, .. } = self.aging;
        if !(0.05..=0.95).contains(&fullness) {
            return Err(format!("fullness = {fullness}: 0.05 to 0.95"));
        }
        if !(1.0..=1e4).contains(&overwrites) {
            return Err(format!("overwrites = {overwrites}: 1 to 10000"));
        }
        match operations_per_second {
            Some(rate) if self.gate.host || !(1e-4..=1e6).contains(&rate) => {
                Err(format!("operations_per_second = {rate}: 0.0001 to 1000000, and not with host = true"))
            }
            _ => Ok(()),
        }
    }

    /// Names the kernel of each file system, because the kernel shapes the result.
    fn name_kernels(&mut self) -> Result<(), Failure> {
        for one in &mut self.file_system {
            let chosen = match one.kernel.as_str() {
                "" => kernel::choose(None, Some(Engine::Uml))?,
                tree if tree.contains('/') => senesce_guest::uml::of_tree(Path::new(tree))?,
                release => kernel::with_virtual_time(release)?,
            };
            if !chosen.has_virtual_time() {
                let words = format!("kernel {} has no virtual time\nhint: {VIRTUAL_TIME_ADVICE}", chosen.version);
                return Err(Failure::new(senesce_core::ExitCode::Missing, words));
            }
            one.kernel = chosen.version;
        }
        Ok(())
    }

    /// Returns how both images of a seed are aged.
    pub(crate) fn image_aging(&self, seed: u32) -> ImageAging<'_> {
        let root = Seed(self.seed).child(&format!("gate/{seed}"));
        ImageAging { size: self.size, aging: &self.aging, seed: root, number: seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(change: impl Fn(String) -> String) -> Result<GateSpec, String> {
        let text = change(crate::EXAMPLE.replace("[gate]", "[gate]\nhost = true"));
        GateSpec::parse("gate.toml", &text).map_err(|failure| failure.to_string())
    }

    #[test]
    fn example_is_a_gate() {
        let spec = parse(|text| text).unwrap();
        assert_eq!((spec.file_system[0].name.as_str(), spec.gate.pairs), ("ext4", 4));
        assert!(GateSpec::is_gate(crate::EXAMPLE) && !GateSpec::is_gate("name = 'a'") && !GateSpec::is_gate("["));
    }

    #[test]
    fn wrong_gates_are_refused() {
        for (from, to, expected) in [
            ("name = \"nodelalloc\"", "name = \"ext4\"", "both file systems"),
            ("pairs = 4", "pairs = 2", "pairs = 2"),
            ("max_pairs = 8", "max_pairs = 3", "max_pairs = 3"),
            ("minimum_effect = 0.03", "minimum_effect = 0.0", "minimum_effect"),
            ("fullness = 0.7", "fullness = 1.5", "fullness"),
            ("overwrites = 2", "overwrites = 0.5", "overwrites"),
            ("kind = \"ext4\"", "kind = \"ext5\"", "ext5"),
            ("\"agrawal\"", "\"agrawall\"", "agrawal"),
            ("mkfs =", "mkfss =", "mkfss"),
            ("mount = \"nodelalloc\"", "device = \"/dev/sdz\"", "device"),
            ("mount = \"nodelalloc\"", "kernel = \"6.1\"", "host = true"),
        ] {
            let refused = parse(|text| text.replacen(from, to, 1)).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn both_sides_of_a_seed_have_one_plan_and_seeds_differ() {
        let spec = parse(|text| text).unwrap();
        let seed = |seed| spec.image_aging(seed).plan_spec().unwrap().seed;
        assert_eq!(seed(1), seed(1));
        assert_ne!(seed(1), seed(2));
    }
}
