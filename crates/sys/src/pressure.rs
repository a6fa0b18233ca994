//! Pressure stall information (Documentation/accounting/psi.rst).

use std::fs;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Processor,
    Memory,
    Io,
}

impl Resource {
    pub const ALL: [Self; 3] = [Self::Processor, Self::Memory, Self::Io];

    pub fn name(self) -> &'static str {
        match self {
            Self::Processor => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    /// Share of the last ten seconds, in percent.
    pub last_ten_seconds_percent: f64,
    /// Since boot.
    pub total: Duration,
}

/// Reads the pressure of the whole machine; `None` if the kernel does not report it.
pub fn of(resource: Resource) -> Option<Pressure> {
    parse(&fs::read_to_string(format!("/proc/pressure/{}", resource.name())).ok()?)
}

/// Parses `some avg10=0.12 avg60=0.05 avg300=0.01 total=123456`, the total in microseconds.
fn parse(text: &str) -> Option<Pressure> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let value = |key: &str| some.split_whitespace().find_map(|word| word.strip_prefix(key));
    Some(Pressure {
        last_ten_seconds_percent: value("avg10=")?.parse().ok()?,
        total: Duration::from_micros(value("total=")?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_statistics_are_parsed() {
        let text = "some avg10=1.50 avg60=0.05 avg300=0.01 total=123456\nfull avg10=9.00 avg60=0.00 total=7\n";
        let pressure = Pressure { last_ten_seconds_percent: 1.5, total: Duration::from_micros(123_456) };
        assert_eq!(parse(text), Some(pressure));
        assert_eq!((parse(""), parse("some avg10=x total=1")), (None, None));
    }
}
