//! Snapshots: text with one entry per line.
//!
//! Every line is `CRC JSON`, the CRC-32 (IEEE) of the JSON in eight hexadecimal digits: first a [`Header`], then [`SnapshotEntry`] lines,
//! last an [`End`]. A damaged line therefore costs one entry, and a missing end is detected.

pub(crate) use super::sparse::Hole;
use crate::chunker::ChunkerSpec;
use crate::object_id::{HashAlgorithm, ObjectId};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

pub(crate) const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    pub senesce_snapshot: u32,
    /// From 1.
    pub number: u64,
    /// Start of the commit, seconds since 1970.
    pub created_unix: u64,
    pub source: String,
    pub hash: HashAlgorithm,
    pub chunker: ChunkerSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A regular file: its chunks in order.
    File {
        /// Bytes.
        size: u64,
        objects: Vec<ObjectRun>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        holes: Vec<Hole>,
        /// It changed while it was read, so it may be a mixture of two states.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        changed: bool,
    },
    Directory,
    Link {
        /// Target, escaped like a path.
        to: String,
    },
}

/// An object and its number of consecutive occurrences: `NAME`, or `NAME*TIMES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectRun {
    pub object: ObjectId,
    /// At least 1.
    pub times: u64,
}

impl From<ObjectId> for ObjectRun {
    fn from(object: ObjectId) -> Self {
        Self { object, times: 1 }
    }
}

impl From<ObjectRun> for String {
    fn from(run: ObjectRun) -> Self {
        let name = run.object.hex();
        if run.times == 1 { name } else { format!("{name}*{}", run.times) }
    }
}

impl TryFrom<String> for ObjectRun {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (name, times) = text.split_once('*').unwrap_or((&text, "1"));
        let times = times.parse().ok().filter(|times| *times > 0).ok_or("an object occurs at least once")?;
        Ok(Self { object: name.parse()?, times })
    }
}

/// Appends an object of a file; returns whether the list grew.
pub(crate) fn push(objects: &mut Vec<ObjectRun>, object: ObjectId, times: u64) -> bool {
    match objects.last_mut() {
        Some(last) if last.object == object => last.times = last.times.saturating_add(times),
        _ => {
            objects.push(ObjectRun { object, times });
            return true;
        }
    }
    false
}

/// Returns the bytes of a file outside its holes; `None` if these overlap, or exceed the file.
pub(crate) fn data_bytes(size: u64, holes: &[Hole]) -> Option<u64> {
    let (mut end, mut data) = (0u64, size);
    for (offset, length) in holes {
        if *offset < end {
            return None;
        }
        end = offset.checked_add(*length).filter(|end| *end <= size)?;
        data -= length;
    }
    Some(data)
}

/// One file, directory or symbolic link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotEntry {
    /// Path below the committed directory, escaped: see [`escape`].
    pub path: String,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Modification time: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    pub kind: EntryKind,
}

impl SnapshotEntry {
    /// Returns the path below the destination, or `None` if it would lead outside.
    pub fn safe_path(&self) -> Option<PathBuf> {
        let path = unescape(&self.path)?;
        let plain = path.components().all(|component| matches!(component, Component::Normal(_)));
        (plain && path.components().next().is_some()).then_some(path)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    pub entries: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub number: u64,
    pub header: Option<Header>,
    pub entries: Vec<SnapshotEntry>,
    pub problems: Vec<String>,
}

pub fn encode(header: &Header, entries: &[SnapshotEntry]) -> Vec<u8> {
    let mut text = Vec::with_capacity(256 * (entries.len() + 2));
    push_line(&mut text, header);
    for entry in entries {
        push_line(&mut text, entry);
    }
    push_line(&mut text, &End { entries: entries.len() as u64 });
    text
}

fn push_line(text: &mut Vec<u8>, value: &impl Serialize) {
    let start = text.len();
    text.extend_from_slice(b"00000000 ");
    // Plain structs of numbers and strings: writing them to memory cannot fail.
    let written = serde_json::to_writer(&mut *text, value);
    debug_assert!(written.is_ok());
    let sum = format!("{:08x}", crc32fast::hash(&text[start + 9..]));
    text[start..start + 8].copy_from_slice(sum.as_bytes());
    text.push(b'\n');
}

/// Reads a snapshot; omits and reports damaged parts.
pub fn decode(number: u64, text: &[u8]) -> Snapshot {
    let mut snapshot = Snapshot { number, header: None, entries: Vec::new(), problems: Vec::new() };
    let mut end = None;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for (index, line) in lines.enumerate() {
        let Some(json) = checked(line) else {
            snapshot.problems.push(format!("line {} is damaged", index + 1));
            continue;
        };
        if index == 0 {
            match serde_json::from_slice::<Header>(json) {
                Ok(header) if header.senesce_snapshot == FORMAT => {
                    if header.number != number {
                        snapshot.problems.push(format!("line 1 belongs to snapshot {}", header.number));
                    }
                    snapshot.header = Some(header);
                }
                _ => snapshot.problems.push("line 1 is not a header of a known format".into()),
            }
        } else if let Ok(entry) = serde_json::from_slice::<SnapshotEntry>(json) {
            snapshot.entries.push(entry);
        } else if let Ok(last) = serde_json::from_slice::<End>(json) {
            end = Some(last.entries);
        } else {
            snapshot.problems.push(format!("line {} is not an entry", index + 1));
        }
    }
    match end {
        None => snapshot.problems.push("the end is missing".into()),
        Some(count) if count != snapshot.entries.len() as u64 => {
            snapshot.problems.push(format!("{} of {count} entries are intact", snapshot.entries.len()));
        }
        Some(_) => {}
    }
    snapshot
}

fn checked(line: &[u8]) -> Option<&[u8]> {
    let (sum, json) = line.split_at_checked(9)?;
    let sum = std::str::from_utf8(&sum[..8]).ok()?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (crc32fast::hash(json) == sum).then_some(json)
}

/// Returns a path as text: bytes that are not UTF-8, and `%`, become `%XX`.
pub(crate) fn escape(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '%' { text.push_str("%25") } else { text.push(character) }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Inverts [`escape`]; returns `None` for invalid text.
pub(crate) fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    (!bytes.contains(&0)).then(|| PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            senesce_snapshot: FORMAT,
            number: 1,
            created_unix: 1_500_000_000,
            source: "/home".into(),
            hash: HashAlgorithm::Sha1,
            chunker: ChunkerSpec::FastCdc { average: 16384 },
        }
    }

    fn entries() -> Vec<SnapshotEntry> {
        let entry =
            |path: &str, kind| SnapshotEntry { path: path.into(), mode: 0o644, uid: 0, gid: 0, modified: (1, 2), kind };
        let objects = vec![HashAlgorithm::Sha1.name(b"a").into(), HashAlgorithm::Sha1.name(b"b").into()];
        vec![
            entry("d", EntryKind::Directory),
            entry("d/f", EntryKind::File { size: 2, objects, holes: Vec::new(), changed: false }),
            entry("l", EntryKind::Link { to: "d/f".into() }),
        ]
    }

    #[test]
    fn the_format_is_fixed() {
        let text = String::from_utf8(encode(&header(), &entries())).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines[1].ends_with(r#"{"path":"d","mode":420,"uid":0,"gid":0,"modified":[1,2],"kind":"directory"}"#));
        assert!(lines[4].ends_with(r#"{"entries":3}"#));
    }

    #[test]
    fn repeated_objects_are_run_length_encoded() {
        let (a, b) = (HashAlgorithm::Sha1.name(b"a"), HashAlgorithm::Sha1.name(b"b"));
        let mut objects = Vec::new();
        let grown = [(a, 1), (a, 1), (a, 5), (b, 1), (a, 2)].map(|(object, times)| push(&mut objects, object, times));
        assert_eq!(grown, [true, false, false, true, true]);
        let text = serde_json::to_string(&objects).unwrap();
        assert_eq!(text, format!(r#"["{a}*7","{b}","{a}*2"]"#));
        assert_eq!(serde_json::from_str::<Vec<ObjectRun>>(&text).unwrap(), objects);
        for wrong in [format!("{a}*0"), format!("{a}*"), format!("{a}*-1"), "x*2".into(), String::new()] {
            assert!(ObjectRun::try_from(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn invalid_holes_are_refused() {
        assert_eq!(data_bytes(10, &[(0, 2), (2, 3), (9, 1)]), Some(4));
        for wrong in [vec![(0, 11)], vec![(4, 2), (5, 1)], vec![(4, 2), (1, 1)], vec![(u64::MAX, 2)]] {
            assert_eq!(data_bytes(10, &wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn flipped_bits_are_detected_or_harmless() {
        let text = encode(&header(), &entries());
        let whole = decode(1, &text);
        for bit in 0..text.len() * 8 {
            let mut flipped = text.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = decode(1, &flipped);
            assert!(!found.problems.is_empty() || found == whole, "bit {bit}: {found:?}");
        }
        assert_eq!(decode(2, &text).problems.len(), 1);
    }

    #[test]
    fn a_damaged_line_costs_one_entry() {
        let text = encode(&header(), &entries());
        let whole = decode(1, &text);
        assert_eq!((whole.entries.clone(), whole.problems.len()), (entries(), 0));
        let mut damaged = text.clone();
        let at = text.windows(3).position(|three| three == b"d/f").unwrap();
        damaged[at] = b'e';
        let snapshot = decode(1, &damaged);
        assert_eq!(snapshot.entries.len(), 2);
        assert!(snapshot.problems.iter().any(|problem| problem == "line 3 is damaged"), "{:?}", snapshot.problems);
        assert!(!decode(1, &text[..text.len() - 20]).problems.is_empty());
    }

    #[test]
    fn paths_that_leave_the_destination_are_not_safe() {
        for path in ["../x", "/etc/passwd", "a/../../x", "", ".", "%2E%2E/x", "a%00b"] {
            let entry = SnapshotEntry { path: path.into(), ..entries()[0].clone() };
            assert_eq!(entry.safe_path(), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn paths_round_trip(bytes in prop::collection::vec(1u8.., 1..60)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            prop_assert_eq!(unescape(&escape(&path)), Some(path));
        }

        #[test]
        fn garbage_is_reported_as_a_problem(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            prop_assert!(!decode(1, &bytes).problems.is_empty());
        }
    }
}
