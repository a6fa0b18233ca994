//! The zone map: state and fill level of every zone as cells.

use crate::geometry::{Geometry, ZoneInfo, ZoneState};
use senesce_core::analysis::CellRow;
use senesce_core::{Better, Figure, FigureKind};

/// Maximum cells per row, for large drives.
const CELLS_PER_ROW: usize = 64;

pub(crate) fn zone_map(geometry: &Geometry, zones: &[ZoneInfo]) -> Figure {
    let rows = zones.chunks(CELLS_PER_ROW).map(|chunk| {
        let last = chunk[chunk.len() - 1].zone;
        CellRow {
            name: format!("{}-{last}", chunk[0].zone),
            cells: chunk.iter().map(|zone| index(zone.state)).collect(),
            fill: chunk.iter().map(fill).collect(),
        }
    });
    Figure {
        id: "zones".into(),
        title: format!("Zones of {}", geometry.name),
        caption: "Colour: state. Height: written share of the zone.".into(),
        device: geometry.name.clone(),
        better: Better::Neither,
        kind: FigureKind::Cells {
            rows: rows.collect(),
            heads: Vec::new(),
            legend: ZoneState::ALL.iter().map(|state| state.name().to_string()).collect(),
            unit: format!("one zone of {}", senesce_core::Bytes(geometry.capacity_bytes())),
        },
    }
}

fn index(state: ZoneState) -> i32 {
    ZoneState::ALL.iter().position(|known| *known == state).map_or(-1, |index| index as i32)
}

/// Returns the filled share of a cell. Empty zones are drawn as full cells of the empty colour; a cell without height
/// would be invisible.
fn fill(zone: &ZoneInfo) -> f32 {
    if zone.state.is_active() { zone.written() as f32 / zone.capacity.max(1) as f32 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ZonedDevice;
    use crate::null::NullDevice;

    #[test]
    fn states_and_fills_become_cells() {
        let mut device = NullDevice::new(None).unwrap();
        let half = device.geometry().capacity_blocks / 2;
        device.preset(65, Some(half)).unwrap();
        let geometry = device.geometry().clone();
        let figure = zone_map(&geometry, &device.report(0, 130).unwrap());
        let FigureKind::Cells { rows, .. } = figure.kind else { panic!("cells") };
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[1].cells[1], 2);
        assert!((rows[1].fill[1] - 0.5).abs() < 1e-3);
    }
}
