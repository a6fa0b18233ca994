//! Result of an analysis: plain data for the report and the exporters.

pub use crate::finding::{Finding, Score, Verdict, score_json, score_lines};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Content of a report about one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// Heading of the report.
    pub title: String,
    /// A few sentences under it.
    pub summary: String,
    /// Figures in order; reports show [`Analysis::leading_figures`] first.
    pub figures: Vec<Figure>,
    /// Tables in order; reports show those with [`Table::leads`] first.
    pub tables: Vec<Table>,
    /// Comparison of published claims with the measurements.
    pub findings: Vec<Finding>,
    /// Visible warnings: "measured without ...", "modelled", "under emulation".
    pub caveats: Vec<String>,
    /// The machine-readable result that `--json` prints.
    pub result: Value,
}

/// Maximum number of leading figures.
const LEADING: usize = 3;

impl Analysis {
    /// Returns the figures that reports show before the claims, in order: those with published values, else the first
    /// two.
    pub fn leading_figures(&self) -> Vec<&Figure> {
        let published: Vec<&Figure> =
            self.figures.iter().filter(|figure| figure.has_published()).take(LEADING).collect();
        if published.is_empty() { self.figures.iter().take(2).collect() } else { published }
    }
}

/// A table; column heads contain units.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Unique in the analysis; name of the CSV file.
    pub id: String,
    /// Caption.
    pub title: String,
    /// Column heads with units, for example `latency (us)`.
    pub columns: Vec<String>,
    /// Rows; every row has as many cells as there are columns.
    pub rows: Vec<Vec<Value>>,
    /// Whether it answers the question of the run: reports begin with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leads: bool,
}

impl Table {
    /// Creates an empty table.
    pub fn new(id: &str, title: &str, columns: &[&str]) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            columns: columns.iter().map(|column| (*column).to_string()).collect(),
            rows: Vec::new(),
            leads: false,
        }
    }

    /// Moves the table to the beginning of reports.
    pub fn leading(self) -> Self {
        Self { leads: true, ..self }
    }

    /// Adds a row: a list or tuple of cells.
    ///
    /// # Panics
    /// If `cells` is not a list.
    pub fn row(&mut self, cells: impl Serialize) {
        let Ok(Value::Array(cells)) = serde_json::to_value(cells) else { panic!("a row is a list of cells") };
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }
}

/// Which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Better {
    /// Larger values are better.
    Higher,
    /// Smaller values are better.
    Lower,
    /// Descriptive only.
    Neither,
}

/// A chart with its caption; a report draws it from [`Figure::kind`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Unique in the analysis; name of the file.
    pub id: String,
    /// Title.
    pub title: String,
    /// Describes what the figure shows and how to read it.
    pub caption: String,
    /// Source of the values ("ext4 on a 1 GiB image in memory", "modelled: reference HDD").
    pub device: String,
    /// Which direction is better.
    pub better: Better,
    /// Form of the chart, with its data.
    pub kind: FigureKind,
}

impl Figure {
    /// Returns its series; empty for maps of cells.
    pub fn series(&self) -> &[Series] {
        match &self.kind {
            FigureKind::Lines { series, .. }
            | FigureKind::Scatter { series, .. }
            | FigureKind::Bars { series, .. }
            | FigureKind::Steps { series, .. } => series,
            FigureKind::Cells { .. } => &[],
        }
    }

    fn has_published(&self) -> bool {
        self.series().iter().any(|one| one.mark == Mark::Published)
    }
}

/// Linear or logarithmic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Scale {
    /// Equal differences have equal lengths.
    #[default]
    Linear,
    /// Logarithmic to base 2; values <= 0 are omitted with a note.
    Log2,
    /// Logarithmic to base 10; values <= 0 are omitted with a note.
    Log10,
}

/// An axis of numbers, or of named categories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Axis {
    /// Name with unit.
    pub label: String,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// Names of categories; empty for a numeric axis. Category `i` is at x = i.
    pub categories: Vec<String>,
    /// Fixed lower end.
    pub min: Option<f64>,
    /// Fixed upper end.
    pub max: Option<f64>,
    /// Whether values are byte counts (ticks as KiB, MiB).
    pub bytes: bool,
}

impl Axis {
    /// Creates a linear numeric axis.
    pub fn linear(label: &str) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Creates an axis of categories.
    pub fn categories(label: &str, names: Vec<String>) -> Self {
        Self { label: label.into(), categories: names, ..Self::default() }
    }

    /// Makes the axis logarithmic to base 10.
    pub fn log10(mut self) -> Self {
        self.scale = Scale::Log10;
        self
    }

    /// Makes the axis logarithmic to base 2.
    pub fn log2(mut self) -> Self {
        self.scale = Scale::Log2;
        self
    }

    /// Labels the ticks as bytes.
    pub fn in_bytes(mut self) -> Self {
        self.bytes = true;
        self
    }

    /// Starts the axis at zero.
    pub fn from_zero(mut self) -> Self {
        self.min = Some(0.0);
        self
    }
}

/// Origin of a series; published values are drawn grey and dashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Mark {
    /// Measured by this run.
    #[default]
    Measured,
    /// Computed by a device model.
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
    /// 95 % intervals of y (low, high), one per point, or empty.
    pub intervals: Vec<(f64, f64)>,
    /// Texts at the points instead of their y values ("12 400 ops/s" on a normalised bar); empty, or one per point.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Individual values behind each bar, drawn if there are few; empty, or one list per point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Vec<f64>>,
}

impl Series {
    /// Creates a series without intervals and labels.
    pub fn new(name: impl Into<String>, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark, points, ..Self::default() }
    }
}

/// Kinds of figures with their data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FigureKind {
    /// Lines with marks.
    Lines {
        /// Horizontal axis.
        x: Axis,
        /// Vertical axis.
        y: Axis,
        /// Series in the order of drawing.
        series: Vec<Series>,
    },
    /// Unconnected marks.
    Scatter {
        /// Horizontal axis.
        x: Axis,
        /// Vertical axis.
        y: Axis,
        /// Series in the order of drawing.
        series: Vec<Series>,
    },
    /// Grouped bars: category `i` of x holds one bar per series (its point with x = i).
    Bars {
        /// Axis of categories.
        x: Axis,
        /// Vertical axis.
        y: Axis,
        /// Series in the order of drawing.
        series: Vec<Series>,
    },
    /// Step histograms over bin edges; the bar of point k reaches from x_k to x_(k+1).
    Steps {
        /// Horizontal axis.
        x: Axis,
        /// Vertical axis.
        y: Axis,
        /// Series in the order of drawing.
        series: Vec<Series>,
    },
    /// Rows of cells coloured by index: layout maps, zone maps, block-by-file bars.
    Cells {
        /// Title of each row group with its cells. A cell is an index into `legend`, -1 for empty, or -2 for a gap between
        /// adjacent parts.
        rows: Vec<CellRow>,
        /// Headings of such parts: first cell and text. Strips with headings are never wrapped.
        #[serde(default)]
        heads: Vec<(usize, String)>,
        /// Meaning of the indices; with more entries than colours, colours repeat in another shade.
        legend: Vec<String>,
        /// Meaning of a cell ("one 4 KiB block", "128 KiB of address space").
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
