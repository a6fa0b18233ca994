use super::file::BUILT_IN;
use super::*;
use crate::command::{Command, Operation};
use crate::device::ZonedDevice;
use crate::sim::{SimDevice, SimOptions};
use senesce_core::Seed;

fn use_a_little(model: &Model) {
    let Ok(mut drive) = SimDevice::new(model, SimOptions::default(), Seed(1)) else { return };
    drive.reserve(32, 4096).unwrap();
    let blocks = 1;
    for block in 0..16 {
        for operation in [Operation::Write, Operation::Read] {
            let tag = block as u32 * 2 + u32::from(operation == Operation::Read);
            let block = if operation == Operation::Read { 0 } else { block };
            drive.submit(Command { tag, queue: 0, operation, zone: 0, block, blocks }).unwrap();
        }
    }
    for _ in 0..32 {
        assert!(drive.next(u64::MAX / 2).unwrap().is_some(), "a command never ends");
    }
}

/// Checks that extreme values of any number of any built-in model give a drive or an error, never a panic.
#[test]
fn extreme_numbers_never_panic() {
    let (mut drives, mut errors) = (0, 0);
    for (_, text) in BUILT_IN {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some((key, value)) = line.split_once(" = ") else { continue };
            if value.starts_with('"') {
                continue;
            }
            for extreme in ["0", "-1", "1", "4294967295", "9223372036854775807", "0.0", "1e300", "nan", "inf"] {
                let value = match value.starts_with('[') {
                    true if value.starts_with("[[") => format!("[[{extreme}, {extreme}]]"),
                    true => format!("[{extreme}]"),
                    false => extreme.to_string(),
                };
                let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_string()).collect();
                changed[index] = format!("{key} = {value}");
                match Model::parse(&changed.join("\n")) {
                    Ok(model) => {
                        drives += 1;
                        use_a_little(&model);
                    }
                    Err(error) => {
                        errors += 1;
                        assert!(error.to_string().starts_with("model"), "{error}");
                    }
                }
            }
        }
    }
    assert!(drives > 100 && errors > 100, "{drives} {errors}");
}

#[test]
fn spread_above_one_is_refused() {
    let (_, text) = BUILT_IN.iter().find(|(_, text)| text.contains("\nspread = ")).unwrap();
    let with = |spread: &str| {
        let changed =
            |line: &str| if line.starts_with("spread = ") { format!("spread = {spread}") } else { line.into() };
        Model::parse(&text.lines().map(changed).collect::<Vec<_>>().join("\n"))
    };
    assert!(with("1.5").unwrap_err().to_string().contains("zones spread"));
    use_a_little(&with("1.0").unwrap());
}
