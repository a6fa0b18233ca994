//! `senesce layout TARGET`: extents, scores, free space and layout map.

use crate::Exit;
use crate::display::print_analysis;
use crate::experiment_text::Tables;
use crate::output::Output;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure};
use senesce_layout::{Layout as Examined, Method, Options, analysis};
use senesce_runs::die_map::{DieMap, die_map};
use senesce_runs::write_order;
use senesce_volume::MARKER;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Show where files lie
#[derive(Args)]
pub(crate) struct Layout {
    /// Mounted directories, images or block devices to compare
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// fiemap, inode-tables, reverse-map or tree-search
    #[arg(long, value_name = "METHOD", value_parser = ["fiemap", "inode-tables", "reverse-map", "tree-search"], hide_possible_values = true,
          help_heading = "Measurement")]
    method: Option<String>,
    /// Draw the flash dies of an image's files into FILE
    #[arg(long, value_name = "FILE", help_heading = "Flash dies")]
    die_map: Option<PathBuf>,
    /// Flash drive model
    #[arg(long, value_name = "MODEL", default_value = "ssd:fast24", requires = "die_map", help_heading = "Flash dies")]
    model: String,
    /// Trace of all writes [default: IMAGE.order]
    #[arg(long, value_name = "TRACE", requires = "die_map", help_heading = "Flash dies")]
    history: Vec<PathBuf>,
    /// List every file
    #[arg(long, help_heading = "Output")]
    per_file: bool,
    /// Write the layout map to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: Output,
}

impl Verb for Layout {
    const NAME: &'static str = "layout";
    const ABOUT: &'static str = "Show extents, layout scores, free space and a layout map";
    const EXAMPLES: &'static [&'static str] =
        &["senesce layout /mnt/data", "sudo senesce layout fresh.img aged.img --svg map.svg"];

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let (map, dies) = (self.svg.as_deref(), self.die_map.as_deref());
        self.output.check_all(&[(map, Format::Svg, b""), (dies, Format::Svg, b"")])?;
        let method = self.method.as_deref().map(str::parse::<Method>).transpose().map_err(Failure::usage)?;
        let dies = self.die_map.is_some();
        let options = Options {
            method,
            per_file: self.per_file || dies,
            map: self.svg.is_some(),
            extents: dies,
            ..Options::default()
        };
        let examine = |target: &String| Examined::examine(&path_of(target), &options);
        let layouts = self.targets.iter().map(examine).collect::<Result<Vec<_>, _>>()?;
        if let Some(file) = &self.svg {
            self.output.write(file, Format::Svg, map_of(&layouts).as_bytes())?;
            self.report_written("map", file);
        }
        let maps = match &self.die_map {
            Some(file) => self.draw_dies(file, &layouts)?,
            None => Vec::new(),
        };
        self.print(&layouts, &maps)?;
        Ok(ExitCode::Done.into())
    }
}

impl Layout {
    fn draw_dies(&self, file: &Path, layouts: &[Examined]) -> Result<Vec<DieMap>, Failure> {
        let ([target], [layout]) = (&self.targets[..], layouts) else {
            return Err(Failure::usage("cannot draw the dies of several targets\nhint: name one image with --die-map"));
        };
        let image = path_of(target);
        if !image.is_file() {
            return Err(Failure::usage(format!("cannot draw the dies of {target}: it is not an image file")));
        }
        let writes = match &self.history[..] {
            [] => write_order::load(&image)?,
            traces => write_order::of_traces(&image, traces)?,
        };
        let map = die_map(&image, layout, &self.model, &writes)?;
        self.output.write(file, Format::Svg, senesce_report::render_svg(&map.figure()).as_bytes())?;
        self.report_written("die map", file);
        Ok(vec![map])
    }

    fn report_written(&self, what: &str, file: &Path) {
        if !self.json && file != Path::new("-") {
            eprintln!("{what}: {}", file.display());
        }
    }

    fn print(&self, layouts: &[Examined], maps: &[DieMap]) -> Result<(), Failure> {
        if self.json {
            let mut values: Vec<Value> = layouts.iter().map(|layout| self.value(layout)).collect();
            values.iter_mut().zip(maps).for_each(|(value, map)| value["die_map"] = json!(map));
            let value = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
            return writeln!(crate::output::stdout(), "{value:#}").map_err(output_failed);
        }
        for layout in layouts {
            let files = if self.per_file { &layout.files[..] } else { &[] };
            let mut analysis = analysis::analysis(&layout.summary, files);
            if layout.has_marker {
                analysis.caveats.push(format!("one of the files is the marker {MARKER}"));
            }
            print_analysis(&analysis, false, Tables::Whole).map_err(output_failed)?;
        }
        for map in maps {
            let index = map
                .collision_index
                .map_or("no files on flash".into(), |index| format!("{index:.3} of at most {}", map.dies));
            crate::output::print(format_args!("collision index of all files on {}: {index}", map.model));
        }
        Ok(())
    }

    fn value(&self, layout: &Examined) -> Value {
        let mut value = json!(layout.summary);
        if self.per_file {
            value["per_file"] = json!(layout.files);
        }
        value
    }
}

/// Accepts `image:FILE` like other verbs; here a plain FILE means the same.
fn path_of(target: &str) -> PathBuf {
    let path = target.strip_prefix("image:").unwrap_or(target);
    PathBuf::from(path)
}

fn map_of(layouts: &[Examined]) -> String {
    let name = |layout: &Examined| layout.summary.target.clone();
    let states: Vec<_> = layouts.iter().filter_map(|layout| Some((name(layout), layout.map.clone()?))).collect();
    let systems: Vec<_> = layouts.iter().map(|layout| layout.summary.file_system.as_str()).collect();
    senesce_report::render_svg(&analysis::map_figure(&states, &systems.join(", ")))
}
