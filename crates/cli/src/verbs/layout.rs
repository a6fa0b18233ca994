//! `senesce layout TARGET`: extents, scores, free space and layout map.

use crate::Exit;
use crate::display::print_analysis;
use crate::output::Output;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure};
use senesce_layout::{Layout as Examined, Method, Options, analysis};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Show where files lie
#[derive(Args)]
pub struct Layout {
    /// Mounted directory, image or block device; several are compared
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write the layout map to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// List every file
    #[arg(long)]
    per_file: bool,
    /// How to read extents
    #[arg(
        long,
        value_parser = ["fiemap", "inode-tables", "reverse-map", "tree-search"],
        help = "How to read extents [default: the fastest that the file system offers]"
    )]
    method: Option<String>,
    /// Threads; 0 means as many as there are processors
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    output: Output,
}

impl Verb for Layout {
    const NAME: &'static str = "layout";
    const ABOUT: &'static str = "Show where files lie: extents, layout scores, free space, layout map; alters nothing";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        self.output.check(self.svg.as_deref(), Format::Svg, b"")?;
        let method = self.method.as_deref().map(str::parse::<Method>).transpose().map_err(Failure::usage)?;
        let options = Options {
            threads: self.threads,
            method,
            per_file: self.per_file,
            map: self.svg.is_some(),
            ..Options::default()
        };
        let examine = |target: &String| Examined::examine(&path_of(target), &options);
        let layouts = self.targets.iter().map(examine).collect::<Result<Vec<_>, _>>()?;
        if let Some(file) = &self.svg {
            self.output.write(file, Format::Svg, map_of(&layouts).as_bytes())?;
        }
        self.print(&layouts)?;
        Ok(ExitCode::Done.into())
    }
}

impl Layout {
    fn print(&self, layouts: &[Examined]) -> Result<(), Failure> {
        if self.json {
            let mut values: Vec<Value> = layouts.iter().map(|layout| self.value(layout)).collect();
            let value = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
            return writeln!(crate::output::stdout(), "{value:#}").map_err(output_failed);
        }
        for layout in layouts {
            print_analysis(&analysis::analysis(&layout.summary, &layout.files), false).map_err(output_failed)?;
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

/// `image:FILE` is accepted as everywhere else; here a plain FILE means the same.
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
