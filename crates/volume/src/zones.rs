//! Checks whether zones of a zoned block device hold data, which signatures at both ends do not show.

use crate::error::TargetError;
use senesce_sys::zones::ZoneReport;
use std::fs::File;
use std::path::Path;

/// Returns the number of non-empty zones in words; `None` if all are empty. ENOTTY for a device without zones.
pub(crate) fn probe(file: &File, path: &Path) -> Result<Option<String>, TargetError> {
    let mut report = ZoneReport::default();
    let (mut sector, mut total, mut held, mut first) = (0, 0, 0, None);
    loop {
        let zones = report.read(file, sector, u32::MAX).map_err(TargetError::errno("report the zones of", path))?;
        if zones.len() == 0 {
            break;
        }
        for (zone, _) in zones {
            if holds_data(zone.condition) {
                held += 1;
                first.get_or_insert(total);
            }
            sector = zone.start + zone.length;
            total += 1;
        }
    }
    Ok(first.map(|first| format!("data: {held} of {total} zones are not empty, the first is zone {first}")))
}

/// Returns whether a zone holds data: not if it has no write pointer (conventional), is empty or offline.
fn holds_data(condition: u8) -> bool {
    const NOT_WRITE_POINTER: u8 = 0;
    const EMPTY: u8 = 1;
    const OFFLINE: u8 = 0xf;
    !matches!(condition, NOT_WRITE_POINTER | EMPTY | OFFLINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_condition_decides_whether_it_holds_data() {
        assert!([2, 3, 4, 0xd, 0xe].into_iter().all(holds_data));
        assert!(![0, 1, 0xf].into_iter().any(holds_data));
    }
}
