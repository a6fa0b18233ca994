//! Patterns: the meaning of each column.

use super::super::request::Operation;
use senesce_core::text::visible_line;

/// A column that is read once; the device may span several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Time,
    Operation,
    Offset,
    Size,
    Latency,
}

const FIELDS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    One(Field),
    Device,
    Other,
}

pub const FORMATS: [(&str, &str); 5] = [
    // MSR Cambridge (SNIA IOTTA 388): Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime; Windows file times.
    ("msr", "time:100ns,device,device,op,offset,size,latency:100ns"),
    // SYSTOR '17 (SNIA IOTTA 4964): Timestamp,Response,IOType,LUN,Offset,Size; seconds.
    ("systor17", "time:s,latency:s,op,device,offset,size"),
    // Alibaba block traces: device_id,opcode,offset,length,timestamp.
    ("alibaba", "device,op,offset,size,time:us"),
    // Tencent CBS (SNIA IOTTA 27917): Timestamp,Offset,Size,IOType,VolumeID; sectors, 0 for a read and 1 for a write.
    ("tencent", "time:s,offset:sectors,size:sectors,op,device"),
    (FIO_IOLOG, FIO_IOLOG_3),
];

const FIO_IOLOG: &str = "fio-iolog";
/// fio, iolog.c, `log_io_u`: versions 2 and 3. The first line names the version.
const FIO_IOLOG_2: &str = "device op offset size";
const FIO_IOLOG_3: &str = "time:us device op offset size";

#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    columns: Vec<Column>,
    separator: Option<char>,
    /// Nanoseconds or bytes, by field.
    units: [u64; FIELDS],
    is_iolog: bool,
}

impl Pattern {
    /// Reads `msr` or `time:us,device,op,offset:sectors,size:sectors,latency:us,-`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let named = FORMATS.iter().find(|(name, _)| *name == text).map(|(_, columns)| *columns);
        let columns = named.unwrap_or(text);
        let separator = [',', ';', '\t', '|'].into_iter().find(|separator| columns.contains(*separator));
        let is_iolog = text == FIO_IOLOG;
        let mut pattern = Self { columns: Vec::new(), separator, units: [1; FIELDS], is_iolog };
        for word in split(columns, separator) {
            let column = pattern.column(word)?;
            if matches!(column, Column::One(_)) && pattern.columns.contains(&column) {
                return Err(format!("the pattern names '{}' twice", visible_line(word)));
            }
            pattern.columns.push(column);
        }
        let needed = [(Field::Operation, "op"), (Field::Offset, "offset"), (Field::Size, "size")];
        match needed.into_iter().find(|(field, _)| !pattern.has(*field)) {
            Some((_, name)) => Err(format!(
                "the pattern '{}' names no column '{name}'\nhint: write the columns in their order, for example \
                 time:us,device,op,offset,size,latency:us, or one of {}",
                visible_line(text),
                FORMATS.map(|(name, _)| name).join(", ")
            )),
            None => Ok(pattern),
        }
    }

    fn column(&mut self, word: &str) -> Result<Column, String> {
        let (name, unit) = word.split_once(':').map_or((word, None), |(name, unit)| (name, Some(unit)));
        let times: &[(&str, u64)] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000), ("100ns", 100), ("ns", 1)];
        let sizes: &[(&str, u64)] = &[("bytes", 1), ("sectors", 512), ("KiB", 1024)];
        let (field, units) = match name {
            "time" => (Field::Time, times),
            "latency" => (Field::Latency, times),
            "offset" => (Field::Offset, sizes),
            "size" => (Field::Size, sizes),
            "op" if unit.is_none() => return Ok(Column::One(Field::Operation)),
            "device" if unit.is_none() => return Ok(Column::Device),
            "-" if unit.is_none() => return Ok(Column::Other),
            _ => {
                return Err(format!(
                    "'{}' is not a column; choose from time:UNIT, device, op, offset[:UNIT], size[:UNIT], \
                     latency:UNIT and - for any other",
                    visible_line(word)
                ));
            }
        };
        let known = || units.iter().map(|(unit, _)| *unit).collect::<Vec<_>>().join(", ");
        let wanted = unit.or((units == sizes).then_some("bytes"));
        let wanted = wanted.ok_or_else(|| format!("{name} needs a unit: {name}:UNIT with one of {}", known()))?;
        let found = units.iter().find(|(unit, _)| *unit == wanted);
        let (_, factor) = found
            .ok_or_else(|| format!("'{}' is not a unit of {name}; known are {}", visible_line(wanted), known()))?;
        self.units[field as usize] = *factor;
        Ok(Column::One(field))
    }

    pub(crate) fn has(&self, field: Field) -> bool {
        self.columns.contains(&Column::One(field))
    }

    pub(crate) fn takes_header(&mut self, line: &str) -> Result<bool, String> {
        if self.is_iolog {
            let columns = match line {
                "fio version 2 iolog" => FIO_IOLOG_2,
                "fio version 3 iolog" => FIO_IOLOG_3,
                _ => return Err("a log of fio begins with 'fio version 2 iolog' or 'fio version 3 iolog'".into()),
            };
            *self = Self::parse(columns)?;
            return Ok(true);
        }
        let cells = self.cells(line);
        let numbers = [Field::Time, Field::Offset, Field::Size].map(|field| cells.found[field as usize]);
        let mut numbers = numbers.into_iter().flatten().peekable();
        Ok(numbers.peek().is_some() && numbers.all(|cell| cell.starts_with(char::is_alphabetic)))
    }

    pub(crate) fn cells<'a>(&self, line: &'a str) -> Cells<'a> {
        let mut cells = Cells { found: [None; FIELDS], device: Vec::new() };
        for (column, cell) in self.columns.iter().zip(split(line, self.separator)) {
            match column {
                Column::One(field) => cells.found[*field as usize] = Some(cell),
                Column::Device => cells.device.push(cell),
                Column::Other => {}
            }
        }
        cells
    }

    /// Returns the bytes of an offset or a size.
    pub(crate) fn bytes(&self, cells: &Cells<'_>, field: Field) -> Result<u64, String> {
        let cell = cells.get(field)?;
        let count = Some(cell).filter(|cell| cell.bytes().all(|byte| byte.is_ascii_digit()));
        let count = count.and_then(|cell| cell.parse::<u64>().ok()?.checked_mul(self.units[field as usize]));
        count.ok_or_else(|| format!("{} is '{}', which is impossible", name(field), visible_line(cell)))
    }

    /// Nanoseconds of a time, without rounding. Only digits and at most one point are accepted.
    pub(crate) fn time_ns(&self, cells: &Cells<'_>, field: Field) -> Result<u128, String> {
        let cell = cells.get(field)?;
        let unit = u128::from(self.units[field as usize]);
        let read = || {
            let (whole, fraction) = cell.split_once('.').unwrap_or((cell, ""));
            let digits = |text: &str| text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit());
            if whole.is_empty() || !digits(whole) || !digits(fraction) {
                return None;
            }
            let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? * unit };
            Some(whole.parse::<u128>().ok()? * unit + parts / 10u128.pow(fraction.len() as u32))
        };
        read().ok_or_else(|| format!("{} is '{}', which is not a time", name(field), visible_line(cell)))
    }

    /// Nanoseconds from issue to completion; `None` if the column is empty or absent.
    pub(crate) fn latency_ns(&self, cells: &Cells<'_>) -> Result<Option<u64>, String> {
        match cells.found[Field::Latency as usize] {
            None | Some("") => Ok(None),
            Some(cell) => {
                let ns = u64::try_from(self.time_ns(cells, Field::Latency)?);
                ns.map(Some).map_err(|_| format!("latency is '{}', which is impossible", visible_line(cell)))
            }
        }
    }
}

fn name(field: Field) -> &'static str {
    ["time", "op", "offset", "size", "latency"][field as usize]
}

fn split(text: &str, separator: Option<char>) -> Box<dyn Iterator<Item = &str> + '_> {
    match separator {
        Some(separator) => Box::new(text.split(separator).map(|cell| cell.trim().trim_matches('"'))),
        None => Box::new(text.split_whitespace()),
    }
}

pub(crate) struct Cells<'a> {
    found: [Option<&'a str>; FIELDS],
    device: Vec<&'a str>,
}

impl<'a> Cells<'a> {
    pub(crate) fn get(&self, field: Field) -> Result<&'a str, String> {
        self.found[field as usize].ok_or_else(|| format!("it ends before the column '{}'", name(field)))
    }

    /// Joins its parts by dots; control characters are escaped.
    pub(crate) fn device(&self) -> String {
        match self.device.is_empty() {
            true => "trace".into(),
            false => visible_line(&self.device.join(".")).into_owned(),
        }
    }
}

/// Returns the operation of a word; `None` for an action that moves no data.
pub(crate) fn operation(word: &str) -> Result<Option<Operation>, String> {
    Ok(Some(match word.to_ascii_lowercase().as_str() {
        "r" | "read" | "rd" | "0" => Operation::Read,
        "w" | "write" | "wr" | "1" => Operation::Write,
        "d" | "trim" | "discard" | "unmap" => Operation::Discard,
        "f" | "flush" | "sync" | "datasync" | "fsync" => Operation::Flush,
        "add" | "open" | "close" | "wait" => return Ok(None),
        _ => {
            let word = visible_line(word);
            return Err(format!("op is '{word}'; known are read, write, discard, flush, their first letters, 0 and 1"));
        }
    }))
}
