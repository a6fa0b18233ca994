//! A zip archive for artifact evaluators, with fixed times and order.

use crate::{csv, data, render_html, render_pdf, render_svg};
use senesce_core::Bytes;
use senesce_core::IoFailure;
use senesce_core::analysis::{Analysis, Table};
use senesce_core::failure::{Classify, ExitCode};
use senesce_core::input::{FileType, InputFolder};
use senesce_core::record::Record;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;

#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error(transparent)]
    Io(#[from] IoFailure),
    #[error("write the archive: {0}")]
    Archive(#[from] zip::result::ZipError),
    #[error(
        "{path} contains more than {MOST_BYTES}, the limit of a bundle\nhint: move files that do not belong to the \
         run out of it"
    )]
    TooLarge { path: PathBuf },
    /// A file of the run directory has a name that is not portable.
    #[error(
        "{path:?} has a control character, a backslash, a colon or no text in its name\nhint: rename it or move it out of the run directory"
    )]
    Name { path: PathBuf },
    #[error(transparent)]
    Pdf(#[from] crate::pdf::PdfError),
}

impl Classify for BundleError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::RunFailed
    }
}

/// Maximum total size of the files of a run directory.
pub const MOST_BYTES: Bytes = Bytes::gib(2);

/// Files of a run directory that are local to this machine, or are created again.
const LEFT_OUT: [&str; 2] = ["lock", "report.html"];

/// Writes the bundle: record, report, figures, tables, the command, and checksums of all.
pub fn write(
    record: &Record,
    analysis: &Analysis,
    measurements: &Table,
    out: impl Write + Seek,
) -> Result<(), BundleError> {
    let mut files = made_files(record, analysis, measurements)?;
    let mut left = MOST_BYTES.0;
    let folder = InputFolder::open(&record.path).map_err(io_error("open", &record.path))?;
    collect(&folder, &record.path, Path::new("run"), &mut files, &mut left)?;
    let sums: String = files
        .iter()
        .map(|(name, bytes)| format!("{:x}  {name}\n", HexDigest(Sha256::digest(bytes).to_vec())))
        .collect();
    files.insert("SHA256SUMS".into(), sums.into_bytes());
    let mut archive = zip::ZipWriter::new(out);
    for (name, bytes) in files {
        let mode = if name.ends_with(".sh") { 0o755 } else { 0o644 };
        let options = SimpleFileOptions::default().last_modified_time(zip::DateTime::default()).unix_permissions(mode);
        archive.start_file(&name, options)?;
        archive.write_all(&bytes).map_err(|source| BundleError::Io(IoFailure::new("write", &name, source)))?;
    }
    archive.finish()?;
    Ok(())
}

struct HexDigest(Vec<u8>);

impl std::fmt::LowerHex for HexDigest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

type Files = BTreeMap<String, Vec<u8>>;

fn made_files(record: &Record, analysis: &Analysis, measurements: &Table) -> Result<Files, BundleError> {
    let mut files = Files::new();
    files.insert("README.txt".into(), readme(record, analysis).into_bytes());
    files.insert("report.html".into(), render_html(analysis, record).into_bytes());
    files.insert("measurements.csv".into(), csv::table(measurements).into_bytes());
    files.insert("repeat.sh".into(), format!("#!/bin/sh\nset -e\n{}\n", record.plan.command).into_bytes());
    for table in &analysis.tables {
        files.insert(format!("tables/{}.csv", file_name(&table.id)), csv::table(table).into_bytes());
    }
    for figure in &analysis.figures {
        let stem = format!("figures/{}", file_name(&figure.id));
        files.insert(format!("{stem}.svg"), render_svg(figure).into_bytes());
        files.insert(format!("{stem}.pdf"), render_pdf(figure)?);
        files.insert(format!("{stem}.csv"), csv::table(&data::of_figure(figure)).into_bytes());
    }
    Ok(files)
}

pub fn file_name(id: &str) -> String {
    let plain =
        |character: char| if character.is_ascii_alphanumeric() || "-_.".contains(character) { character } else { '-' };
    id.chars().map(plain).collect::<String>().trim_start_matches('.').to_string()
}

fn readme(record: &Record, analysis: &Analysis) -> String {
    let state = if record.is_partial() { "The run did not complete: this is its partial record.\n" } else { "" };
    let caveats: String = analysis.caveats.iter().map(|caveat| format!("  * {caveat}\n")).collect();
    format!(
        "{}\n\n{}\n{state}{}\nreport.html        the results, for any browser, offline\nrun/               the record: plan.toml, env.json, events.jsonl, histograms, summary.json\nmeasurements.csv   every measured value\ntables/, figures/  the same tables and figures as files\nrepeat.sh          the command that repeats the run (senesce {})\nSHA256SUMS         check with: sha256sum -c SHA256SUMS\n\nThe report can be rebuilt from the record: senesce report run\n",
        analysis.title,
        analysis.summary,
        if caveats.is_empty() { String::new() } else { format!("Read with care:\n{caveats}") },
        record.plan.program_version
    )
}

/// Returns whether a name is portable and fits one line of SHA256SUMS.
fn is_plain(name: &str) -> bool {
    !name.contains(['\\', '\u{fffd}', ':']) && !name.chars().any(char::is_control)
}

fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BundleError {
    let path = path.to_path_buf();
    move |source| BundleError::Io(IoFailure::new(operation, path, source))
}

/// Collects the regular files of the folder at `path`, at most `left` bytes in total. Links are not followed, even if
/// one replaces a file or folder concurrently.
fn collect(
    folder: &InputFolder,
    path: &Path,
    name: &Path,
    files: &mut Files,
    left: &mut u64,
) -> Result<(), BundleError> {
    for (entry, kind) in folder.entries().map_err(io_error("list", path))? {
        let (path, inner) = (path.join(&entry), name.join(&entry));
        if kind == FileType::Directory {
            let below = folder.folder(&entry).map_err(io_error("open", &path))?;
            collect(&below, &path, &inner, files, left)?;
        } else if kind == FileType::RegularFile && !LEFT_OUT.iter().any(|left_out| entry == *left_out) {
            let inner = inner.to_string_lossy().into_owned();
            if !is_plain(&inner) {
                return Err(BundleError::Name { path });
            }
            let file = folder.file(Path::new(&entry)).map_err(io_error("open", &path))?;
            files.insert(inner, read(file, &path, left)?);
        }
    }
    Ok(())
}

/// Reads a file of at most `left` bytes, and reduces `left` by its size.
fn read(file: File, path: &Path, left: &mut u64) -> Result<Vec<u8>, BundleError> {
    let too_large = || BundleError::TooLarge { path: path.parent().unwrap_or(path).into() };
    if file.metadata().map_err(io_error("inspect", path))?.len() > *left {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(*left + 1).read_to_end(&mut bytes).map_err(io_error("read", path))?;
    *left = left.checked_sub(bytes.len() as u64).ok_or_else(too_large)?;
    Ok(bytes)
}
