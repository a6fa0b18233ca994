//! Strips of coloured cells: layout maps, zone maps, blocks by file.

use super::frame::{self, Sample};
use super::item::Paint;
use super::paint::{self, COLOURS, SeriesStyle};
use super::{Anchor, Canvas, n, text};
use senesce_core::analysis::CellRow;

/// Maximum cell width in font sizes; the minimum is a pixel.
const WIDEST: f64 = 1.3;

pub(super) fn draw(
    canvas: &mut Canvas,
    rows: &[CellRow],
    heads: &[(usize, String)],
    legend: &[String],
    unit: &str,
) -> Vec<String> {
    let em = canvas.em();
    let entries: Vec<(String, SeriesStyle)> =
        legend.iter().enumerate().map(|(index, name)| (name.clone(), style(index))).collect();
    frame::legend(canvas, &entries, Sample::Fill);
    canvas.disown();
    let grid = Grid::fit(canvas, rows, !heads.is_empty());
    put_heads(canvas, &grid, heads);
    for row in rows {
        strip(canvas, row, &grid, legend, unit);
    }
    canvas.height += em * 0.6;
    if unit.is_empty() { Vec::new() } else { vec![format!("One cell is {unit}.")] }
}

/// Draws headings of adjacent parts, above their first cells.
fn put_heads(canvas: &mut Canvas, grid: &Grid, heads: &[(usize, String)]) {
    let em = canvas.em();
    for (cell, text) in heads {
        canvas.text(
            grid.left + *cell as f64 * grid.side,
            canvas.height + em * 0.9,
            Anchor::Start,
            "title",
            em * 0.92,
            text,
        );
    }
    canvas.height += if heads.is_empty() { 0.0 } else { em * 1.4 };
}

/// Returns the look of a legend entry. Adjacent entries also differ in hatching; with more entries than colours,
/// colours repeat with another hatching.
fn style(index: usize) -> SeriesStyle {
    SeriesStyle {
        class: format!("s{}", index % COLOURS),
        dash: &[],
        mark: 0,
        hollow: false,
        hatch: (index + index / COLOURS) % 4,
        provenance: "",
    }
}

/// Size and order of the cells: one size for all strips, so that lengths are comparable.
struct Grid {
    left: f64,
    side: f64,
    height: f64,
    per_line: usize,
}

impl Grid {
    fn fit(canvas: &Canvas, rows: &[CellRow], unbroken: bool) -> Self {
        let em = canvas.em();
        let names = rows.iter().map(|row| text::width(&row.name, em * 0.92)).fold(0.0, f64::max);
        let longest = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0).max(1);
        let left = if names == 0.0 { 0.0 } else { names.min(canvas.format.width * 0.3) + em * 0.6 };
        let one_line = (canvas.format.width - left) / longest as f64;
        if unbroken || one_line >= em * 0.2 || (one_line >= 1.0 && rows.len() > 8) {
            let side = one_line.min(em * WIDEST);
            let height = if rows.len() > 40 { (em * 0.55).max(2.0) } else { em * 1.1 };
            return Self { left, side, height, per_line: longest };
        }
        let total: usize = rows.iter().map(|row| row.cells.len()).sum();
        let area = canvas.format.width * canvas.format.width * 0.75;
        let side = (area / total.max(1) as f64).sqrt().clamp(1.0, em * 0.75);
        let per_line = (canvas.format.width / side).floor().max(1.0) as usize;
        Self { left: 0.0, side, height: side, per_line }
    }

    fn wraps(&self, row: &CellRow) -> bool {
        row.cells.len() > self.per_line || (self.left == 0.0 && !row.name.is_empty())
    }
}

fn strip(canvas: &mut Canvas, row: &CellRow, grid: &Grid, legend: &[String], unit: &str) {
    let em = canvas.em();
    if grid.wraps(row) {
        canvas.height += em * 1.4;
        canvas.text(0.0, canvas.height - em * 0.4, Anchor::Start, "", em * 0.92, &row.name);
    } else if !row.name.is_empty() && grid.height >= em * 0.5 {
        let name = text::shorten(&row.name, em * 0.92, grid.left - em * 0.5);
        let size = (em * 0.92).min(grid.height * 1.25);
        canvas.text(
            grid.left - em * 0.5,
            canvas.height + grid.height * 0.5 + size * 0.34,
            Anchor::End,
            "soft",
            size,
            &name,
        );
    }
    for (line, cells) in row.cells.chunks(grid.per_line).enumerate() {
        let first = line * grid.per_line;
        draw_line(canvas, row, grid, first, cells, legend, unit);
        canvas.height += grid.height * if grid.height >= em * 0.5 { 1.12 } else { 1.0 };
    }
    canvas.height += em * 0.25;
}

/// Draws one line of cells: small cells are merged into runs, large ones are drawn separately.
fn draw_line(
    canvas: &mut Canvas,
    row: &CellRow,
    grid: &Grid,
    first: usize,
    cells: &[i32],
    legend: &[String],
    unit: &str,
) {
    let fill = |index: usize| row.fill.get(first + index).copied().unwrap_or(1.0).clamp(0.0, 1.0);
    let mut from = 0;
    while from < cells.len() {
        let mut to = from + 1;
        while to < cells.len() && cells[to] == cells[from] && fill(to) == fill(from) {
            to += 1;
        }
        let run = Run { first: first + from, from, count: to - from, cell: cells[from], fill: fill(from) };
        draw_run(canvas, row, grid, &run, legend, unit);
        from = to;
    }
}

struct Run {
    first: usize,
    from: usize,
    count: usize,
    cell: i32,
    fill: f32,
}

fn draw_run(canvas: &mut Canvas, row: &CellRow, grid: &Grid, run: &Run, legend: &[String], unit: &str) {
    if run.cell < -1 {
        return;
    }
    let em = canvas.em();
    let (x, y) = (grid.left + run.from as f64 * grid.side, canvas.height);
    let gap = if grid.side >= em * 0.45 { (grid.side * 0.12).min(1.2) } else { 0.0 };
    let width = run.count as f64 * grid.side;
    let used = grid.height * f64::from(run.fill);
    let text = hover(row, run, legend, unit);
    let boxes = |top: f64, height: f64| -> String {
        if gap == 0.0 {
            return format!("M{} {}h{}v{}h-{}z", n(x), n(top), n(width), n(height), n(width));
        }
        let side = n(grid.side - gap);
        (0..run.count)
            .map(|index| format!("M{} {}h{side}v{}h-{side}z", n(x + index as f64 * grid.side), n(top), n(height)))
            .collect()
    };
    if run.cell < 0 || run.fill < 1.0 {
        canvas.path("empty", &Paint::default(), &boxes(y, grid.height), &text);
    }
    if run.cell < 0 || used <= 0.0 {
        return;
    }
    let look = style(run.cell as usize);
    canvas.path(&look.class, &Paint::filled(None), &boxes(y + grid.height - used, used), &text);
    if look.hatch > 0 && grid.height > em * 0.3 {
        let stroke = canvas.stroke(0.7);
        let hatch = paint::hatch_path(look.hatch, x, y + grid.height - used, width - gap, used, em * 0.4);
        canvas.path("hatch", &stroke, &hatch, &text);
    }
}

fn hover(row: &CellRow, run: &Run, legend: &[String], unit: &str) -> String {
    let meaning = match usize::try_from(run.cell) {
        Ok(index) => legend.get(index).cloned().unwrap_or_else(|| format!("value {index}")),
        Err(_) => "empty".into(),
    };
    let place = match run.count {
        1 => format!("cell {}", run.first),
        count => format!("cells {} to {}", run.first, run.first + count - 1),
    };
    let filled = if run.fill < 1.0 { format!(", {:.0} % full", run.fill * 100.0) } else { String::new() };
    let unit = if unit.is_empty() { String::new() } else { format!(" ({} × {unit})", run.count) };
    let name = if row.name.is_empty() { String::new() } else { format!("{} · ", row.name) };
    format!("{name}{place}: {meaning}{filled}{unit}")
}
