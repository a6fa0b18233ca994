//! Step histograms.

use super::frame::{self, ExtraSpace, Frame, Sample};
use super::item::Paint;
use super::paint::{self, SeriesStyle};
use super::scale::AxisScale;
use super::{Canvas, lines, n};
use senesce_core::analysis::{Axis, Figure, Mark, Scale, Series};

pub(super) fn draw(canvas: &mut Canvas, figure: &Figure, x: &Axis, y: &Axis, series: &[Series]) -> Vec<String> {
    let looks = paint::series_styles(series);
    if frame::needs_legend(series, &looks) {
        let entries: Vec<(String, SeriesStyle)> =
            series.iter().zip(&looks).map(|(one, look)| (frame::legend_name(one, look), look.clone())).collect();
        frame::legend(canvas, &entries, Sample::Plain);
    }
    let x = &with_first_bin(x, series);
    let (xs, _) = lines::scales(canvas, x, y, series);
    let heights = series.iter().flat_map(|one| one.points.iter().map(|point| point.1));
    let ys = AxisScale::fit(y, heights, y.min.is_none(), 5);
    let frame = frame::frame(canvas, figure, (x, y), (xs, ys), ExtraSpace { right: 0.0, headroom: 0.0 });
    let mut omitted = 0;
    for (index, (one, look)) in series.iter().zip(&looks).enumerate() {
        canvas.series = Some(index);
        omitted += draw_series(canvas, &frame, (x, y), one, look);
    }
    canvas.series = None;
    let mut notes = frame::omitted_note(omitted);
    if x.scale != Scale::Linear && series.iter().any(|one| one.points.first().is_some_and(|point| point.0 <= 0.0)) {
        notes.push("The first bin begins at zero, which a logarithmic axis cannot show.".into());
    }
    notes
}

/// Moves a first bin that begins at zero on a logarithmic axis: to a quarter of its right edge, or a power below.
fn with_first_bin(x: &Axis, series: &[Series]) -> Axis {
    let edges = || series.iter().flat_map(|one| one.points.iter().map(|point| point.0));
    if x.scale == Scale::Linear || x.min.is_some() || edges().all(|edge| edge > 0.0) {
        return x.clone();
    }
    let least = edges().filter(|edge| *edge > 0.0 && edge.is_finite()).fold(f64::INFINITY, f64::min);
    let min = least.is_finite().then(|| if x.scale == Scale::Log2 { least / 4.0 } else { least / 10.0 });
    Axis { min, ..x.clone() }
}

/// Draws one outline; the last point only ends the last step. A first edge at zero begins at the left end of a
/// logarithmic axis.
fn draw_series(canvas: &mut Canvas, frame: &Frame, axes: (&Axis, &Axis), series: &Series, look: &SeriesStyle) -> usize {
    let mut outline = String::new();
    let mut omitted = 0;
    let mut hits = Vec::new();
    for index in 0..series.points.len() {
        let (edge, height) = series.points[index];
        let next = series.points.get(index + 1).map(|point| point.0);
        let Some(next) = next.or((series.points.len() == 1).then_some(edge)) else { break };
        if !edge.is_finite() || !next.is_finite() || !height.is_finite() {
            omitted += 1;
            continue;
        }
        let (from, to) = (frame.at_x_clamped(edge), frame.at_x_clamped(next));
        let y = frame.at_y(height).unwrap_or(frame.base());
        outline += &format!(
            "{}{} {}H{}",
            if outline.is_empty() { format!("M{} {}L", n(from), n(frame.base())) } else { "L".into() },
            n(from),
            n(y),
            n(to)
        );
        let until = crate::number::axis_value(next, axes.0.bytes);
        let text = frame::hover(series, index, axes).replacen(": ", &format!(" to {until}: "), 1);
        hits.push((from, to, y, text));
    }
    if outline.is_empty() {
        return omitted;
    }
    outline += &format!("V{}", n(frame.base()));
    if series.mark == Mark::Measured || series.mark == Mark::Modelled {
        canvas.path(&look.class, &Paint::filled(Some(0.13)), &outline, "");
    }
    let paint = frame::line_paint(canvas, look);
    canvas.path(&format!("{} l", look.class), &paint, &outline, "");
    let reach = canvas.em() * 0.45;
    for (from, to, y, text) in hits {
        let hit = format!("M{} {}H{}V{}H{}z", n(from), n(y - reach), n(to), n(y + reach), n(from));
        canvas.path("hit", &Paint::default(), &hit, &text);
    }
    omitted
}
