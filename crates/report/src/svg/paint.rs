//! Look of series: provenance by dash and fill, identity by colour and mark.
//!
//! Colours are those of Okabe and Ito (2008), distinguishable under all common forms of colour blindness, with lighter variants
//! for a dark background.

use senesce_core::analysis::{Mark, Series};
use std::fmt::Write;

/// Number of distinct colours; more series repeat them with other marks.
pub(crate) const COLOURS: usize = 8;

const LIGHT: [(&str, &str); 15] = [
    ("s0", "#0072b2"),
    ("s1", "#d55e00"),
    ("s2", "#009e73"),
    ("s3", "#b85c94"),
    ("s4", "#c98a00"),
    ("s5", "#3fa0d8"),
    ("s6", "#7a5230"),
    ("s7", "#4d4d4d"),
    ("sp", "#8b8b86"),
    ("ink", "#1b1b19"),
    ("soft", "#5c5c57"),
    ("grid", "#e6e5df"),
    ("axis", "#8f8e87"),
    ("paper", "#fffffc"),
    ("empty", "#eeede7"),
];

const DARK: [(&str, &str); 15] = [
    ("s0", "#58aee6"),
    ("s1", "#f28c4e"),
    ("s2", "#3ec79c"),
    ("s3", "#e29ac6"),
    ("s4", "#ecba4a"),
    ("s5", "#9ad3f5"),
    ("s6", "#c79a73"),
    ("s7", "#c9c8c2"),
    ("sp", "#8f8e88"),
    ("ink", "#ecebe4"),
    ("soft", "#aeada5"),
    ("grid", "#33332f"),
    ("axis", "#77766f"),
    ("paper", "#171715"),
    ("empty", "#272724"),
];

/// Rules of the drawings, in terms of the custom properties of [`properties`].
const RULES: &str = "
svg.fig text{font-family:Inter,'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;fill:var(--ink)}
svg.fig text.soft{fill:var(--soft)}
svg.fig .title{font-weight:600}
svg.fig .grid{stroke:var(--grid);fill:none}
svg.fig .axis{stroke:var(--axis);fill:none}
svg.fig .halo{fill:var(--paper)}
svg.fig .empty{fill:var(--empty)}
svg.fig .hatch{stroke:var(--paper);fill:none}
svg.fig .ink{stroke:var(--ink)}
svg.fig .l{fill:none;stroke-linejoin:round;stroke-linecap:round}
svg.fig .hit{fill:transparent;stroke:none}
";

pub(crate) fn properties() -> String {
    let list = |colours: &[(&str, &str)]| {
        colours.iter().fold(String::new(), |mut text, (name, colour)| {
            let _ = write!(text, "--{name}:{colour};");
            text
        })
    };
    format!(
        ":root{{color-scheme:light dark;{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n@media print{{:root{{color-scheme:light;{}}}}}\n",
        list(&LIGHT),
        list(&DARK),
        list(&LIGHT)
    )
}

/// Returns the rules of the drawings for a page that defines [`properties`].
pub(crate) fn rules() -> String {
    let mut text = RULES.to_string();
    for name in colour_classes() {
        let _ = writeln!(text, "svg.fig .{name}{{color:var(--{name});stroke:currentColor;fill:currentColor}}");
        let _ = writeln!(
            text,
            "svg.fig .{name}.l{{fill:none}}svg.fig .{name}.o{{fill:var(--paper)}}svg.fig .{name}.m{{stroke:var(--paper)}}"
        );
    }
    text
}

/// A colour of the light theme: red, green, blue, each 0 to 255.
pub(crate) type Colour = [u8; 3];

/// Properties that [`rules`] assign to a path's classes in print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colours {
    pub fill: Option<Colour>,
    pub stroke: Option<Colour>,
    pub round: bool,
}

/// Returns the colours of a path by its classes; none for elements that only carry a tooltip.
pub(crate) fn colours(classes: &str) -> Colours {
    let mut found = Colours { fill: Some([0, 0, 0]), stroke: None, round: false };
    for class in classes.split(' ') {
        match class {
            "grid" | "axis" => found = Colours { fill: None, stroke: light(class), ..found },
            "hatch" => found = Colours { fill: None, stroke: light("paper"), ..found },
            "halo" => found.fill = light("paper"),
            "empty" => found.fill = light("empty"),
            "ink" => found.stroke = light("ink"),
            "l" => found = Colours { fill: None, round: true, ..found },
            "o" => found.fill = light("paper"),
            "m" => found.stroke = light("paper"),
            "hit" => found = Colours { fill: None, stroke: None, ..found },
            series => found = Colours { fill: light(series), stroke: light(series), ..found },
        }
    }
    found
}

pub(crate) fn text_colour(class: &str) -> Colour {
    light(if class == "soft" { "soft" } else { "ink" }).unwrap_or_default()
}

fn light(name: &str) -> Option<Colour> {
    let (_, hexadecimal) = LIGHT.iter().find(|(known, _)| *known == name)?;
    let part = |at: usize| u8::from_str_radix(&hexadecimal[at..at + 2], 16).ok();
    Some([part(1)?, part(3)?, part(5)?])
}

fn colour_classes() -> impl Iterator<Item = String> {
    (0..COLOURS).map(|index| format!("s{index}")).chain(["sp".to_string()])
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeriesStyle {
    pub class: String,
    /// Dashes of its line in tenths of the font size; empty for a solid line.
    pub dash: &'static [u8],
    pub mark: usize,
    pub hollow: bool,
    /// Hatching of bars (0: none).
    pub hatch: usize,
    /// Text after the name in the legend.
    pub provenance: &'static str,
}

/// Returns the looks of all series of a figure. Own measurements share one sequence of colours, and so do predictions:
/// the k-th prediction has the colour of the k-th measurement. Published values are grey.
pub(crate) fn series_styles(series: &[Series]) -> Vec<SeriesStyle> {
    let (mut ours, mut published, mut predicted) = (0, 0, 0);
    let predictions = series.iter().filter(|one| one.mark == Mark::Predicted).count();
    let next = |counter: &mut usize| {
        *counter += 1;
        *counter - 1
    };
    series
        .iter()
        .map(|one| match one.mark {
            Mark::Measured => style(next(&mut ours), &[], false, 0, ""),
            Mark::Modelled => style(next(&mut ours), &[7, 3], true, 1, "modelled"),
            Mark::Published => {
                SeriesStyle { class: "sp".into(), ..style(next(&mut published), &[4, 3], true, 0, "published") }
            }
            Mark::Predicted => {
                let index = next(&mut predicted);
                let class = if predictions == 1 { "s7".into() } else { format!("s{}", index % COLOURS) };
                SeriesStyle { class, ..style(index, &[1, 3], true, 2, "target") }
            }
        })
        .collect()
}

fn style(index: usize, dash: &'static [u8], hollow: bool, hatch: usize, provenance: &'static str) -> SeriesStyle {
    SeriesStyle {
        class: format!("s{}", index % COLOURS),
        dash,
        mark: (index + index / COLOURS) % 6,
        hollow,
        hatch: if hatch == 0 { index / COLOURS % 3 * 2 } else { hatch },
        provenance,
    }
}

pub(crate) fn mark_path(mark: usize, x: f64, y: f64, r: f64) -> String {
    let n = super::n;
    let polygon = |points: &[(f64, f64)]| {
        let corners: Vec<String> =
            points.iter().map(|(dx, dy)| format!("{} {}", n(x + dx * r), n(y + dy * r))).collect();
        format!("M{}z", corners.join("L"))
    };
    match mark {
        0 => format!("M{} {}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z", n(x - r), n(y), r = n(r), d = n(2.0 * r)),
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
        3 => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        4 => polygon(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
        _ => polygon(&[
            (-0.4, -1.2),
            (0.4, -1.2),
            (0.4, -0.4),
            (1.2, -0.4),
            (1.2, 0.4),
            (0.4, 0.4),
            (0.4, 1.2),
            (-0.4, 1.2),
            (-0.4, 0.4),
            (-1.2, 0.4),
            (-1.2, -0.4),
            (-0.4, -0.4),
        ]),
    }
}

/// Returns the hatching of a rectangle: 1 rising, 2 falling, 3 horizontal lines. It is computed instead of a shared
/// pattern, so that every viewer draws it.
pub(crate) fn hatch_path(kind: usize, x: f64, y: f64, width: f64, height: f64, gap: f64) -> String {
    let mut path = String::new();
    if kind == 0 || width <= 0.0 || height <= 0.0 {
        return path;
    }
    if kind == 3 {
        let mut level = gap;
        while level < height {
            let _ = write!(path, "M{} {}h{}", super::n(x), super::n(y + level), super::n(width));
            level += gap;
        }
        return path;
    }
    let mut offset = gap - height;
    while offset < width {
        let (from, to) = (offset.max(0.0), (offset + height).min(width));
        let (top, bottom) = (from - offset, to - offset);
        let (y1, y2) = if kind == 1 { (y + height - top, y + height - bottom) } else { (y + top, y + bottom) };
        let _ = write!(path, "M{} {}L{} {}", super::n(x + from), super::n(y1), super::n(x + to), super::n(y2));
        offset += gap;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_the_colours_of_the_rules() {
        let rules = rules();
        assert!(rules.contains(".s0{color:var(--s0);stroke:currentColor;fill:currentColor}"));
        assert_eq!(colours("s0").fill, Some([0x00, 0x72, 0xb2]));
        assert_eq!(colours("s0 l"), Colours { fill: None, stroke: Some([0x00, 0x72, 0xb2]), round: true });
        assert_eq!(colours("s1 o").fill, Some([0xff, 0xff, 0xfc]));
        assert_eq!(
            colours("s1 m"),
            Colours { fill: Some([0xd5, 0x5e, 0]), stroke: Some([0xff, 0xff, 0xfc]), round: false }
        );
        assert_eq!((colours("hit").fill, colours("hit").stroke), (None, None));
        assert_eq!(text_colour(""), [0x1b, 0x1b, 0x19]);
    }
}
