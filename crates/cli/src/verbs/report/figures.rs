//! `senesce report RUN... --format figures --out DIR`: tables as CSV, figures as SVG, PDF and CSV.

use crate::output::Output;
use senesce_core::output::{self, Format};
use senesce_core::{ExitCode, Failure};
use senesce_report::{bundle, csv, data, render_pdf, render_svg};
use senesce_runs::export::Export;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn check(folders: &[Folder], output: Output) -> Result<(), Failure> {
    let mut runs = BTreeMap::new();
    for folder in folders {
        if *runs.entry(&folder.path).or_insert(&folder.run) != &folder.run {
            let words = format!("two runs would use the directory {}; write them separately", folder.path.display());
            return Err(Failure::usage(words));
        }
    }
    folders.iter().try_for_each(|folder| folder.check(output))
}

pub(crate) struct Folder {
    run: PathBuf,
    path: PathBuf,
    files: Vec<(PathBuf, Format, Vec<u8>)>,
}

impl Folder {
    pub(crate) fn of(one: &Export, directory: &Path) -> Result<Self, Failure> {
        let path = directory.join(&one.name);
        let mut files = Vec::new();
        let mut add = |name: String, format, bytes| files.push((path.join(name), format, bytes));
        add("measurements.csv".into(), Format::Csv, csv::table(&one.measurements).into_bytes());
        for table in &one.analysis.tables {
            add(format!("table-{}.csv", bundle::file_name(&table.id)), Format::Csv, csv::table(table).into_bytes());
        }
        for figure in &one.analysis.figures {
            let stem = format!("figure-{}", bundle::file_name(&figure.id));
            add(format!("{stem}.svg"), Format::Svg, render_svg(figure).into_bytes());
            add(format!("{stem}.pdf"), Format::Pdf, render_pdf(figure)?);
            add(format!("{stem}.csv"), Format::Csv, csv::table(&data::of_figure(figure)).into_bytes());
        }
        Ok(Self { run: one.record.path.clone(), path, files })
    }

    fn check(&self, output: Output) -> Result<(), Failure> {
        // An attacker can guess this name, because the user names only the directory above it.
        if self.path.is_symlink() {
            let words = format!(
                "refused to write into {}: it is a symbolic link; remove it, or name another directory",
                self.path.display()
            );
            return Err(Failure::new(ExitCode::Refused, words));
        }
        let planned: Vec<_> =
            self.files.iter().map(|(file, format, bytes)| (Some(&**file), *format, &**bytes)).collect();
        output.check_below(&self.path, &planned)
    }

    pub(crate) fn write(&self, output: Output) -> Result<(), Failure> {
        output::directory(&self.path)?;
        self.files.iter().try_for_each(|(file, format, bytes)| output.write(file, *format, bytes))?;
        println!("{}", self.path.display());
        Ok(())
    }
}
