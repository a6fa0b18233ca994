//! What an analysis produces: plain data that the report draws and the exporters write.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything there is to say about one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// Heading of the report.
    pub title: String,
    /// A few sentences under it.
    pub summary: String,
    /// Figures in order.
    pub figures: Vec<Figure>,
    /// Tables in order.
    pub tables: Vec<Table>,
    /// Claims of the literature against what was measured.
    pub findings: Vec<Finding>,
    /// Visible warnings: "measured without ...", "modelled", "under emulation".
    pub caveats: Vec<String>,
    /// The machine-readable result that `--json` prints.
    pub result: Value,
}

/// A table with units in its column heads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Short id, unique in the analysis; names the CSV file.
    pub id: String,
    /// Caption.
    pub title: String,
    /// Column heads with units, for example `latency (us)`.
    pub columns: Vec<String>,
    /// Rows; every row has as many cells as there are columns.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// An empty table.
    pub fn new(id: &str, title: &str, columns: &[&str]) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            columns: columns.iter().map(|column| (*column).to_string()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Value>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }
}

/// Which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Better {
    /// Greater values are better.
    Higher,
    /// Smaller values are better.
    Lower,
    /// The figure describes; nothing is better.
    Neither,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Short id, unique in the analysis; names the file.
    pub id: String,
    /// Title.
    pub title: String,
    /// What it shows and how to read it.
    pub caption: String,
    /// On what it was measured ("ext4 on a 1 GiB image in memory", "modelled: reference HDD").
    pub device: String,
    /// Which direction is better.
    pub better: Better,
    /// What is drawn.
    pub kind: FigureKind,
}

/// Linear or logarithmic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic to base 2; values <= 0 are left out and said.
    Log2,
    /// Logarithmic to base 10; values <= 0 are left out and said.
    Log10,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Axis {
    /// Name with unit.
    pub label: String,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// Names of categories; empty for a numeric axis. Category `i` stands at x = i.
    pub categories: Vec<String>,
    /// Fixed lower end.
    pub min: Option<f64>,
    /// Fixed upper end.
    pub max: Option<f64>,
    /// Whether values are byte counts (ticks as KiB, MiB).
    pub bytes: bool,
}

impl Axis {
    /// A linear numeric axis.
    pub fn linear(label: &str) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// An axis of categories.
    pub fn categories(label: &str, names: Vec<String>) -> Self {
        Self { label: label.into(), categories: names, ..Self::default() }
    }

    /// The same axis, logarithmic to base 10.
    pub fn log10(mut self) -> Self {
        self.scale = Scale::Log10;
        self
    }

    /// The same axis, logarithmic to base 2.
    pub fn log2(mut self) -> Self {
        self.scale = Scale::Log2;
        self
    }

    /// The same axis with byte ticks.
    pub fn in_bytes(mut self) -> Self {
        self.bytes = true;
        self
    }

    /// The same axis starting at zero.
    pub fn from_zero(mut self) -> Self {
        self.min = Some(0.0);
        self
    }
}

/// How a series is marked; published values are drawn grey and dashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Mark {
    /// Ours, measured.
    #[default]
    Measured,
    /// Ours, computed by a device model.
    Modelled,
    /// From the literature.
    Published,
    /// A law or target.
    Predicted,
}

/// One series of points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Measured, modelled, published or predicted.
    pub mark: Mark,
    /// Points (x, y).
    pub points: Vec<(f64, f64)>,
    /// 95 % intervals of y (low, high), one per point; empty when there are none.
    pub intervals: Vec<(f64, f64)>,
    /// Words to write at the points instead of their y value ("12 400 ops/s" on a normalised bar); empty, or one per
    /// point.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The single values behind each bar, drawn on it where they are few; empty, or one list per point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Vec<f64>>,
}

impl Series {
    /// A series without intervals and labels.
    pub fn new(name: impl Into<String>, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark, points, ..Self::default() }
    }
}

/// The kinds of figures there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FigureKind {
    /// Lines with marks.
    Lines {
        /// Horizontal axis.
        x: Axis,
        /// Vertical axis.
        y: Axis,
        /// The series.
        series: Vec<Series>,
    },
    /// Unconnected marks.
    Scatter {
        /// Horizontal axis.
        x: Axis,
        /// Vertical axis.
        y: Axis,
        /// The series.
        series: Vec<Series>,
    },
    /// Grouped bars: category `i` of x holds one bar per series (its point with x = i).
    Bars {
        /// Axis of categories.
        x: Axis,
        /// Vertical axis.
        y: Axis,
        /// The series.
        series: Vec<Series>,
    },
    /// Step histograms over bin edges; the bar of point k reaches from x_k to x_(k+1).
    Steps {
        /// Horizontal axis.
        x: Axis,
        /// Vertical axis.
        y: Axis,
        /// The series.
        series: Vec<Series>,
    },
    /// Rows of cells coloured by index: layout maps, zone maps, block-by-file bars.
    Cells {
        /// Title of each row group with its cells; a cell is an index into `legend`, -1 for empty, or -2 for a gap between
        /// parts that stand side by side.
        rows: Vec<CellRow>,
        /// Heads of such parts: first cell and words. Strips with heads are never broken into lines.
        #[serde(default)]
        heads: Vec<(usize, String)>,
        /// What the indices mean; with more entries than colours, colours repeat with another shade.
        legend: Vec<String>,
        /// What one cell is ("one 4 KiB block", "128 KiB of address space").
        unit: String,
    },
}

/// One strip of cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellRow {
    /// Name of the strip.
    pub name: String,
    /// Colour index per cell, -1 for empty, -2 for no cell.
    pub cells: Vec<i32>,
    /// Fill 0..=1 per cell (occupancy); empty means 1 everywhere.
    pub fill: Vec<f32>,
}

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval lies within the claim.
    Supported,
    /// The interval lies outside of the claim.
    NotSupported,
    /// The interval crosses the bound of the claim.
    Undecided,
    /// Cannot be tested on this device or at this scale.
    #[default]
    NotTestable,
    /// A simulator agrees with a value that it was fitted to.
    ModelAgrees,
    /// A simulator differs from a value that it was fitted to.
    ModelDiffers,
}

impl Verdict {
    /// The words of the report.
    pub fn text(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::NotSupported => "not supported",
            Self::Undecided => "undecided",
            Self::NotTestable => "not testable here",
            Self::ModelAgrees => "model agrees",
            Self::ModelDiffers => "model differs",
        }
    }
}

/// A claim with its published and measured values.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Finding {
    /// The claim's name in its experiment; empty for what no claim stands behind.
    #[serde(default)]
    pub id: String,
    /// The claim in one sentence.
    pub claim: String,
    /// Who claims it, and where.
    #[serde(default)]
    pub source: String,
    /// What was published, with unit.
    pub published: String,
    /// What was measured here, with unit.
    pub measured: String,
    /// How it came out.
    pub verdict: Verdict,
    /// Why, where the verdict needs it.
    pub note: String,
}
