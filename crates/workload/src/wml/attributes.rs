//! Attributes by entity, and known but unsupported words of the language.

use senesce_core::parameter::suggest;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entity {
    pub name: &'static str,
    pub attributes: &'static [&'static str],
}

pub(crate) const FILESET: Entity = Entity {
    name: "fileset",
    attributes: &[
        "name",
        "path",
        "entries",
        "size",
        "dirwidth",
        "dirdepthrv",
        "dirgamma",
        "leafdirs",
        "prealloc",
        "paralloc",
        "reuse",
        "readonly",
        "writeonly",
        "trusttree",
        "cached",
    ],
};

pub(crate) const FILE: Entity = Entity {
    name: "file",
    attributes: &[
        "name",
        "path",
        "size",
        "prealloc",
        "paralloc",
        "reuse",
        "readonly",
        "writeonly",
        "trusttree",
        "cached",
    ],
};

pub(crate) const PROCESS: Entity = Entity { name: "process", attributes: &["name", "instances", "nice"] };

pub(crate) const THREAD: Entity =
    Entity { name: "thread", attributes: &["name", "instances", "memsize", "useism", "ioprio", "procname"] };

/// `flowop` inside a thread or composite flowop.
pub(crate) const FLOWOP: Entity = Entity {
    name: "flowop",
    attributes: &[
        "name",
        "filesetname",
        "fd",
        "srcfd",
        "iosize",
        "workingset",
        "random",
        "dsync",
        "directio",
        "noreadahead",
        "opennext",
        "indexed",
        "iters",
        "target",
        "value",
        "blocking",
        "highwater",
    ],
};

/// `define flowop`.
pub(crate) const COMPOSITE: Entity = Entity { name: "composite flowop", attributes: &["name", "iters"] };

pub(crate) const RANDOM: Entity = Entity {
    name: "random variable",
    attributes: &["name", "type", "randsrc", "seed", "gamma", "mean", "min", "round", "randtable"],
};

/// `cvar(...)`.
pub(crate) const CUSTOM: Entity =
    Entity { name: "custom variable", attributes: &["type", "parameters", "min", "max", "round"] };

/// `eventgen`.
pub(crate) const EVENT_GENERATOR: Entity = Entity { name: "event generator", attributes: &["rate"] };

const ALIASES: [(&str, &str); 3] = [("filename", "filesetname"), ("filesize", "size"), ("wss", "workingset")];

/// Attributes of other releases, with the reason for their refusal.
const FOREIGN: [(&str, &str); 5] = [
    ("sizegamma", "removed from the language in 1.5; write size=$v with set $v=cvar(type=cvar-gamma,...)"),
    ("filesizegamma", "removed from the language in 1.5; write size=$v with set $v=cvar(type=cvar-gamma,...)"),
    ("possetname", "position sets were removed from the language in 1.5"),
    ("fstype", "only local file systems are supported; mount the remote one and name its directory as target"),
    ("namelength", "file names have eight digits"),
];

impl Entity {
    /// Returns the canonical name of an attribute; otherwise the error message, and whether it is known but
    /// unsupported.
    pub(crate) fn attribute(&self, word: &str) -> Result<&'static str, (String, bool)> {
        let canonical = ALIASES.iter().find(|(alias, _)| *alias == word).map_or(word, |(_, name)| name);
        if let Some(name) = self.attributes.iter().find(|name| **name == canonical) {
            return Ok(name);
        }
        if let Some((_, why)) = FOREIGN.iter().find(|(name, _)| *name == word) {
            return Err((format!("attribute '{word}': {why}"), true));
        }
        let hint = suggest(word, self.attributes.iter().copied());
        let known = self.attributes.join(", ");
        Err((format!("{} has no attribute '{word}'{hint}; it has: {known}", self.name), false))
    }
}

pub(crate) const COMMANDS: &[&str] = &[
    "create", "debug", "define", "echo", "enable", "eventgen", "list", "psrun", "quit", "run", "set", "shutdown",
    "sleep", "stats", "system", "usage", "version",
];

/// Refused commands of this or another release, with the reason.
pub(crate) const UNSUPPORTED_COMMANDS: [(&str, &str); 9] = [
    ("domultisync", "runs over several clients are not supported"),
    ("foreach", "loops in the workload file were removed from the language in 1.5; repeat the run with a script"),
    ("fscheck", "removed from the language in 1.5"),
    ("fsflush", "removed from the language in 1.5"),
    ("help", "an interactive command; see `senesce help bench`"),
    ("load", "an interactive command; name the workload on the command line"),
    ("log", "removed from the language in 1.5; use echo"),
    ("vars", "an interactive command; `senesce bench --check` shows the variables"),
    ("warmup", "removed from the language in 1.5; use --warm-up"),
];
