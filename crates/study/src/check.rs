//! Validates a study before anything is written.

use crate::spec::{CellSpec, FileSystemSpec, StateKind, StateSpec, StudySpec, WorkloadSpec};
use senesce_aging::{Data, Profile};
use senesce_core::parameter::{nearest, suggest};
use senesce_volume::FileSystem;

impl StudySpec {
    /// Returns the first problem in words: a list without entries, a count out of range, a duplicate name, an invalid
    /// entry, or entries that do not fit together.
    pub fn check(&self) -> Result<(), String> {
        let counts = [self.file_system.len(), self.state.len(), self.workload.len()];
        for (count, what) in counts.into_iter().zip(["file_system", "state", "workload"]) {
            if count == 0 {
                return Err(format!("it has no [[{what}]]; a study needs at least one"));
            }
        }
        for (what, value, most) in [
            ("repetitions", u64::from(self.repetitions), 10_000),
            ("images", u64::from(self.images), 1_000),
            ("threads", self.threads as u64, 1_024),
        ] {
            if !(1..=most).contains(&value) {
                return Err(format!("{what} = {value}: must be at least 1 and at most {most}"));
            }
        }
        unique("file_system", self.file_system.iter().map(|one| &one.name))?;
        unique("state", self.state.iter().map(|one| &one.name))?;
        unique("workload", self.workload.iter().map(|one| &one.name))?;
        for one in &self.file_system {
            self.check_file_system(one).map_err(|problem| format!("file_system '{}': {problem}", one.name))?;
        }
        for one in &self.state {
            self.check_state(one).map_err(|problem| format!("state '{}': {problem}", one.name))?;
        }
        for one in &self.workload {
            one.check().map_err(|problem| format!("workload '{}': {problem}", one.name))?;
        }
        for one in &self.cell {
            self.check_cell(one)?;
        }
        self.check_changed_workloads()?;
        self.check_traces()?;
        for name in &self.models {
            senesce_devmodel::DeviceModel::builtin(name).map_err(|error| error.to_string())?;
        }
        self.check_until_decided()?;
        self.check_cold_reads()
    }

    /// Checks that the trace of a run contains only the measured part, because a model times the whole trace.
    fn check_traces(&self) -> Result<(), String> {
        for one in self.workload.iter().filter(|_| !self.models.is_empty()) {
            let more = match (one.launcher.as_str(), one.microbenchmark.as_str()) {
                ("", "") => continue,
                ("", _) => "a microbenchmark would include the preparation and removal of its files",
                _ => "a run by a launcher would include the writing of its file sets",
            };
            return Err(format!("workload '{}': the trace of {more}: leave out models", one.name));
        }
        Ok(())
    }

    /// Checks that a sequential study has measured values from runs on this machine, one after the other.
    fn check_until_decided(&self) -> Result<(), String> {
        if !self.until_decided {
            return match self.max_time {
                Some(_) => Err("max_time ends a study that runs until it is decided: set until_decided = true".into()),
                None => Ok(()),
            };
        }
        if self.most_seconds().is_infinite() {
            return Err(
                "until_decided needs a time limit: set max_time = \"1h\" (on the command line --max-time 1h)".into()
            );
        }
        if !self.models.is_empty() || self.noise {
            return Err("until_decided decides measured values: leave models and noise out".into());
        }
        let in_guest = |(fs, state, workload): (usize, usize, usize)| {
            let name = &self.workload[workload].name;
            !self.exception(fs, state, name).skip && self.guest_kernel(fs, state, name).is_some()
        };
        match self.combinations().find(|cell| in_guest(*cell)) {
            Some(cell) => {
                let (fs, state, workload) = self.names(cell);
                Err(format!(
                    "cell {fs} / {state} / {workload} runs in the guest, which is not booted for every interim \
                     analysis: leave until_decided or the cell out"
                ))
            }
            None => Ok(()),
        }
    }

    fn check_file_system(&self, one: &FileSystemSpec) -> Result<(), String> {
        if one.device.is_some() {
            self.check_device(one)?;
        }
        if one.custom().is_some() {
            return self.check_custom(one);
        }
        if !one.unmount.is_empty() || !one.fsck.is_empty() {
            return Err("unmount and fsck are for kind = \"custom\"".into());
        }
        let kind = one.kind()?;
        if one.is_zoned() {
            return self.check_zoned(one);
        }
        let least = kind.minimum_size();
        if one.mkfs.is_empty() && self.size < least {
            return Err(format!("{kind} needs an image of at least {least}; size = {}", self.size));
        }
        Ok(())
    }

    /// Checks that a custom file system has its commands.
    fn check_custom(&self, one: &FileSystemSpec) -> Result<(), String> {
        for (key, command, word) in [("mkfs", &one.mkfs, "$DEVICE"), ("mount", &one.mount, "$MNT")] {
            if !command.contains(word) {
                return Err(format!(
                    "kind = \"custom\": {key} must be a command that contains {word}, not '{command}'"
                ));
            }
        }
        let in_guest = |(fs, state, workload): (usize, usize, usize)| {
            self.file_system[fs].name == one.name
                && self.guest_kernel(fs, state, &self.workload[workload].name).is_some()
        };
        match self.combinations().any(in_guest) {
            true => Err("the guest has none of its programs: leave vm and kernel out".into()),
            false => Ok(()),
        }
    }

    /// Options for images and for drives of the guest do not apply to a device of this machine.
    fn check_device(&self, one: &FileSystemSpec) -> Result<(), String> {
        let named = |cell: &&CellSpec| cell.file_system.is_empty() || cell.file_system == one.name;
        if self.cell.iter().filter(named).any(|cell| cell.device_state.is_some()) {
            return Err("device_state is for images; prepare the device beforehand".into());
        }
        let in_guest = |(fs, state, workload): (usize, usize, usize)| {
            self.file_system[fs].name == one.name
                && self.guest_kernel(fs, state, &self.workload[workload].name).is_some()
        };
        match one.is_zoned() || self.combinations().any(in_guest) {
            true => {
                Err("device names a drive of this machine, which the guest does not have; leave one of the two out"
                    .into())
            }
            false => Ok(()),
        }
    }

    /// Refuses options that need an image, which a zoned drive is not.
    fn check_zoned(&self, one: &FileSystemSpec) -> Result<(), String> {
        let least = crate::zoned::LEAST_SIZE;
        if self.size < least || !self.size.0.is_multiple_of(64 << 20) {
            return Err(format!("size = {}: a zoned drive has at least {least}, in steps of 64 MiB", self.size));
        }
        if !self.models.is_empty() {
            return Err(
                "models time the trace of one conventional device; leave models out, or this file system".into()
            );
        }
        if self.state.iter().any(|state| state.kind == StateKind::Image) {
            return Err(
                "a saved image cannot be put on a zoned drive; leave this cell out with [[cell]] skip = true".into()
            );
        }
        // Here fallocate(2) fails: the zone's write pointer decides where blocks go (fs/btrfs/file.c).
        let allocated = |state: &&StateSpec| !state.profile.is_empty() && state.data == Data::Fallocate;
        if one.kind()? == FileSystem::Btrfs
            && let Some(state) = self.state.iter().find(allocated)
        {
            return Err(format!(
                "btrfs on a zoned drive cannot allocate without writing: state '{}' needs data = \"write\"",
                state.name
            ));
        }
        let named = |cell: &&CellSpec| cell.file_system.is_empty() || cell.file_system == one.name;
        if self.cell.iter().filter(named).any(|cell| cell.device_state.is_some()) {
            return Err("device_state is for images; name the other file systems in its [[cell]]".into());
        }
        Ok(())
    }

    fn check_state(&self, state: &StateSpec) -> Result<(), String> {
        if let Some(fullness) = state.fullness.filter(|fullness| !(*fullness > 0.0 && *fullness < 1.0)) {
            return Err(format!("fullness = {fullness}: must be above 0 and below 1"));
        }
        if let Some(times) = state.overwrites.filter(|times| !(0.0..=1e9).contains(times)) {
            return Err(format!("overwrites = {times}: must be between 0 and 1000000000"));
        }
        check_needed_key(state)?;
        let needs_profile = matches!(state.kind, StateKind::Aged | StateKind::WriteOnce);
        if needs_profile {
            Profile::load(&state.profile).map_err(|error| error.to_string())?;
        } else if !state.profile.is_empty() || state.fullness.is_some() || state.overwrites.is_some() {
            return Err(format!("profile, fullness and overwrites do not apply to kind '{}'", state.kind.word()));
        }
        if state.kind == StateKind::Copy {
            let of = find("state", &state.of, self.state.iter().map(|one| one.name.as_str()))?;
            if self.state[of].kind != StateKind::Aged {
                return Err(format!("of = '{}' is not an aged state", state.of));
            }
        }
        if state.kind == StateKind::Image && !std::path::Path::new(&state.path).is_file() {
            return Err(format!("path = '{}' is not a file", state.path));
        }
        check_aging_command(state)
    }

    fn check_cell(&self, cell: &CellSpec) -> Result<(), String> {
        if let Some(cpus) = cell.cpus.filter(|cpus| !(*cpus > 0.0 && *cpus <= 1e6)) {
            return Err(format!("cell: cpus = {cpus}: must be above 0 and at most 1000000"));
        }
        let named = |what, name: &str, known: Vec<&str>| match name {
            "" => Ok(()),
            _ => find(what, name, known.into_iter()).map(|_| ()).map_err(|problem| format!("cell: {problem}")),
        };
        named("file_system", &cell.file_system, self.file_system.iter().map(|one| one.name.as_str()).collect())?;
        named("state", &cell.state, self.state.iter().map(|one| one.name.as_str()).collect())?;
        named("workload", &cell.workload, self.workload.iter().map(|one| one.name.as_str()).collect())
    }

    fn check_changed_workloads(&self) -> Result<(), String> {
        for (fs, state, workload) in self.combinations() {
            let exception = self.exception(fs, state, &self.workload[workload].name);
            if !exception.skip && (exception.scale.is_some() || !exception.set.is_empty()) {
                let (file_system, state_name, name) = self.names((fs, state, workload));
                let checked = self.workload_of(fs, state, workload).check();
                checked.map_err(|problem| format!("cell {file_system} / {state_name} / {name}: {problem}"))?;
            }
        }
        Ok(())
    }

    /// Refuses cold reads of unwritten extents, because these read as zeros without device I/O: such a read measures
    /// nothing.
    fn check_cold_reads(&self) -> Result<(), String> {
        for (fs, state, workload) in self.combinations() {
            let workload = &self.workload[workload];
            if !workload.cold_read || self.exception(fs, state, &workload.name).skip {
                continue;
            }
            let one = &self.state[state];
            let data = self.source(one).data;
            let problem = match one.kind {
                StateKind::Fresh => "it contains no files",
                StateKind::Image | StateKind::Command => continue,
                _ if data != Data::Write => "its files are allocated but never written; set data = \"write\"",
                _ => continue,
            };
            return Err(format!(
                "cell {} / {} / {} cannot be read cold: {problem}; or leave the cell out: skip = true in its [[cell]]",
                self.file_system[fs].name, one.name, workload.name
            ));
        }
        Ok(())
    }
}

fn check_needed_key(state: &StateSpec) -> Result<(), String> {
    let (key, value) = match state.kind {
        StateKind::Aged | StateKind::WriteOnce => ("profile", &state.profile),
        StateKind::Copy => ("of", &state.of),
        StateKind::Image => ("path", &state.path),
        StateKind::Fresh | StateKind::Command => return Ok(()),
    };
    match value.is_empty() {
        true => Err(format!("kind = \"{}\" needs {key} = \"...\"", state.kind.word())),
        false => Ok(()),
    }
}

impl WorkloadSpec {
    fn check(&self) -> Result<(), String> {
        let said = [&self.personality, &self.file, &self.microbenchmark, &self.ready];
        let said = said.into_iter().filter(|text| !text.is_empty()).count();
        match said + usize::from(self.cold_read) + usize::from(!self.command.is_empty()) {
            1 => {}
            _ => {
                return Err("give exactly one of personality, file, microbenchmark, ready, command, cold_read".into());
            }
        }
        if let Some(scale) = self.scale.filter(|scale| !(*scale > 0.0 && *scale <= 1e9)) {
            return Err(format!("scale = {scale}: must be above 0 and at most 1000000000"));
        }
        if self.seconds.is_some_and(|seconds| !(0.1..=1e6).contains(&seconds)) {
            return Err("seconds must be between 0.1 and 1000000".into());
        }
        crate::subject::Subject::of(self).map(|_| ()).map_err(|error| error.to_string())
    }
}

fn check_aging_command(state: &StateSpec) -> Result<(), String> {
    let is_command = state.kind == StateKind::Command;
    let keys = [
        ("command", !state.command.is_empty()),
        ("timeout", state.timeout.is_some()),
        ("space", state.space.is_some()),
    ];
    match keys.into_iter().find(|(_, given)| *given) {
        Some((key, _)) if !is_command => Err(format!("{key} is for kind = \"command\"")),
        _ if is_command && state.command.is_empty() => {
            Err("kind = \"command\" needs command = [\"PROGRAM\", \"ARGUMENT\"]".into())
        }
        _ => Ok(()),
    }
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("two [[{what}]] have the name '{name}'; rename one"));
        }
        if name.contains(['=', '\n']) {
            return Err(format!("[[{what}]] '{name}': a name must not contain '=' or a line break"));
        }
    }
    Ok(())
}

fn find<'a>(what: &str, name: &str, mut known: impl Iterator<Item = &'a str> + Clone) -> Result<usize, String> {
    let all = known.clone();
    known.position(|one| one == name).ok_or_else(|| format!("{what} '{name}' not found{}", suggest(name, all)))
}

/// Adds the nearest known key to serde's message about an unknown one.
pub(crate) fn with_suggestion(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (Some(unknown), true) = (quoted.first(), message.contains("unknown ")) else { return message.into() };
    let unknown = *unknown;
    match nearest(unknown, quoted[1..].iter().copied()) {
        Some(known) => format!("{}\ndid you mean `{known}`?", message.trim_end()),
        None => message.into(),
    }
}

#[cfg(test)]
mod tests;
