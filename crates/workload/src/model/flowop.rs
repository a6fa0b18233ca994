//! The built-in flowops and how they are counted.

use serde::{Deserialize, Serialize};

/// Kind of a flowop. Its name in the language is in [`TABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum FlowopKind {
    Read,
    Write,
    ReadWholeFile,
    WriteWholeFile,
    AppendFile,
    AppendFileRandom,
    CreateFile,
    OpenFile,
    CloseFile,
    DeleteFile,
    StatFile,
    Fsync,
    FsyncSet,
    MakeDirectory,
    RemoveDirectory,
    ListDirectory,
    AioWrite,
    AioWait,
    Block,
    Wakeup,
    SemaphoreBlock,
    SemaphorePost,
    Hog,
    Delay,
    EventLimit,
    BandwidthLimit,
    IopsLimit,
    OpsLimit,
    FinishOnCount,
    FinishOnBytes,
    Print,
    TestRandomVariable,
    Nop,
}

/// Whether bytes count as read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
    Neither,
}

#[derive(Debug, Clone, Copy)]
pub struct FlowopEntry {
    pub name: &'static str,
    pub kind: FlowopKind,
    /// Whether it counts in operations per second.
    pub counted: bool,
    pub direction: Direction,
    pub needs_fileset: bool,
}

const fn entry(
    name: &'static str,
    kind: FlowopKind,
    counted: bool,
    direction: Direction,
    needs_fileset: bool,
) -> FlowopEntry {
    FlowopEntry { name, kind, counted, direction, needs_fileset }
}

/// Every flowop of the release. Operations per second count those that do I/O (Filebench: `FLOW_TYPE_IO` and `FLOW_TYPE_AIO`),
/// including open, close, create, delete, stat and fsync, but not delays, limits or semaphores.
pub const TABLE: &[FlowopEntry] = {
    use Direction::{Neither, Read, Write};
    use FlowopKind as K;
    &[
        entry("read", K::Read, true, Read, false),
        entry("write", K::Write, true, Write, false),
        entry("readwholefile", K::ReadWholeFile, true, Read, false),
        entry("writewholefile", K::WriteWholeFile, true, Write, false),
        entry("appendfile", K::AppendFile, true, Write, false),
        entry("appendfilerand", K::AppendFileRandom, true, Write, false),
        entry("createfile", K::CreateFile, true, Neither, true),
        entry("openfile", K::OpenFile, true, Neither, true),
        entry("closefile", K::CloseFile, true, Neither, false),
        entry("deletefile", K::DeleteFile, true, Neither, false),
        entry("statfile", K::StatFile, true, Neither, false),
        entry("fsync", K::Fsync, true, Neither, false),
        entry("fsyncset", K::FsyncSet, true, Neither, true),
        entry("makedir", K::MakeDirectory, true, Neither, true),
        entry("removedir", K::RemoveDirectory, true, Neither, true),
        entry("listdir", K::ListDirectory, true, Neither, true),
        entry("aiowrite", K::AioWrite, true, Write, false),
        entry("aiowait", K::AioWait, true, Neither, false),
        entry("block", K::Block, false, Neither, false),
        entry("wakeup", K::Wakeup, false, Neither, false),
        entry("semblock", K::SemaphoreBlock, false, Neither, false),
        entry("sempost", K::SemaphorePost, false, Neither, false),
        entry("hog", K::Hog, false, Neither, false),
        entry("delay", K::Delay, false, Neither, false),
        entry("eventlimit", K::EventLimit, false, Neither, false),
        entry("bwlimit", K::BandwidthLimit, false, Neither, false),
        entry("iopslimit", K::IopsLimit, false, Neither, false),
        entry("opslimit", K::OpsLimit, false, Neither, false),
        entry("finishoncount", K::FinishOnCount, false, Neither, false),
        entry("finishonbytes", K::FinishOnBytes, false, Neither, false),
        entry("print", K::Print, false, Neither, false),
        entry("testrandvar", K::TestRandomVariable, false, Neither, false),
        entry("nop", K::Nop, false, Neither, false),
    ]
};

impl FlowopKind {
    pub(crate) fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|entry| entry.name == name).map(|entry| entry.kind)
    }

    pub fn entry(self) -> &'static FlowopEntry {
        TABLE.iter().find(|entry| entry.kind == self).unwrap_or(&TABLE[TABLE.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flowop_has_exactly_one_table_row() {
        for line in TABLE {
            assert_eq!(TABLE.iter().filter(|other| other.kind == line.kind || other.name == line.name).count(), 1);
            assert_eq!(FlowopKind::named(line.name), Some(line.kind));
            assert_eq!(line.kind.entry().name, line.name);
        }
        assert_eq!(TABLE.last().map(|line| line.kind), Some(FlowopKind::Nop), "the fallback of entry()");
    }
}
