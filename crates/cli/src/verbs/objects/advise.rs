//! `senesce objects advise`: a directory scheme of an object store for a volume.

use crate::Exit;
use crate::display::print_table;
use crate::output::output_failed;
use clap::Args;
use senesce_core::{Bytes, ExitCode, Failure, Rows};
use senesce_objstore::advise::{Recommendation, Volume, file_systems, recommend};
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Advise {
    /// Number of objects
    #[arg(long, value_name = "N", help_heading = "Objects")]
    count: u64,
    /// Size of an object
    #[arg(long, default_value = "4K", help_heading = "Objects")]
    size: Bytes,
    /// File system
    #[arg(long, value_name = "NAME", default_value = "ext4", hide_possible_values = true, help_heading = "Volume",
          value_parser = clap::builder::PossibleValuesParser::new(file_systems()))]
    fs: String,
    /// Size [default: the smallest power of two that fits]
    #[arg(long, value_name = "SIZE", conflicts_with = "path", help_heading = "Volume")]
    volume: Option<Bytes>,
    /// Mounted directory, instead of --fs and --volume
    #[arg(long, value_name = "DIR", help_heading = "Volume")]
    path: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Advise {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let options = self;
        let volume = match (&options.path, options.volume) {
            (Some(path), _) => Volume::mounted(path)?,
            (None, Some(size)) => Volume::planned(&options.fs, size)
                .ok_or_else(|| Failure::usage(format!("no rule known for volumes of {}", options.fs)))?,
            (None, None) => Volume::least(&options.fs, options.count, options.size.0)
                .ok_or_else(|| Failure::usage(format!("no volume of {} holds this number of objects", options.fs)))?,
        };
        let found = recommend(volume, options.count, options.size.0);
        if options.json {
            serde_json::to_writer_pretty(crate::output::stdout(), &found)
                .map_err(|error| output_failed(error.into()))?;
            println!();
        } else {
            show(&found).map_err(output_failed)?;
        }
        Ok(if found.recommended.is_some() { ExitCode::Done } else { ExitCode::Negative }.into())
    }
}

fn show(found: &Recommendation) -> std::io::Result<()> {
    let volume = &found.volume;
    println!(
        "{} objects of {} on {} of {} ({})",
        found.count,
        Bytes(found.object_bytes),
        volume.file_system,
        Bytes(volume.size),
        volume.source
    );
    let inodes = volume.free.inodes.map_or("inodes as needed".into(), |inodes| format!("{inodes} inodes"));
    println!("free: {}, {inodes}", Bytes(volume.free.bytes));
    let table = Rows::of(&found.schemes)
        .column("scheme", |advice| &advice.scheme)
        .column("directories", |advice| &advice.directories)
        .column("inodes needed", |advice| advice.inodes_needed)
        .column("bytes needed", |advice| Bytes(advice.bytes_needed).to_string())
        .column("entries per directory", |advice| &advice.entries_per_directory)
        .column("most objects", |advice| match advice.most_range {
            Some([low, high]) => json!(format!("{} ({low} to {high})", advice.most.files)),
            None => json!(advice.most.files),
        })
        .column("", |advice| advice.text())
        .table("schemes", "");
    print_table(&mut crate::output::stdout(), &table)?;
    match found.recommended {
        Some(scheme) => println!("choose {scheme}: it fits with the fewest directories"),
        None => println!("no scheme of loose objects fits"),
    }
    let packed = if found.packed_fits { "fit" } else { "do not fit" };
    println!("in pack files they take {} and almost no inodes, and {packed}", Bytes(found.packed_bytes));
    Ok(())
}
