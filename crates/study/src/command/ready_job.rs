//! Job files of fio that are part of senesce, by name: `fsperf/four-sizes.fio`.

use super::is_fio;
use senesce_core::Failure;
use senesce_core::failure::failed;
use senesce_volume::ScratchDirectory;
use std::path::Path;

macro_rules! fsperf {
    ($name:literal) => {
        (concat!("fsperf/", $name, ".fio"), include_str!(concat!("../../data/fsperf/", $name, ".fio")))
    };
}

/// Names and texts.
pub(super) const JOBS: [(&str, &str); 6] = [
    fsperf!("buffered-append-vs-fallocate"),
    fsperf!("correlated-lifetimes"),
    fsperf!("four-sizes"),
    fsperf!("funny-sizes-high"),
    fsperf!("funny-sizes-low"),
    fsperf!("mixed-lifetimes"),
];

/// A command whose built-in jobs are files, until it is dropped.
pub struct Written {
    pub words: Vec<String>,
    _folder: Option<ScratchDirectory>,
}

/// Returns the text of a built-in job that a command of fio names. A file next to the study has an absolute path by now,
/// so it comes first.
pub(super) fn text_of(command: &[String], word: &str) -> Option<&'static str> {
    let of_fio = command.first().is_some_and(|program| is_fio(program));
    JOBS.iter().find(|(name, _)| of_fio && *name == word).map(|(_, text)| *text)
}

/// Writes the built-in jobs of a command to files, because fio reads only files.
///
/// # Errors
/// As mkdir(2) and write(2), in the runtime folder.
pub fn written(command: &[String]) -> Result<Written, Failure> {
    let jobs: Vec<(usize, &str)> =
        command.iter().enumerate().filter_map(|(index, word)| Some((index, text_of(command, word)?))).collect();
    let mut words = command.to_vec();
    if jobs.is_empty() {
        return Ok(Written { words, _folder: None });
    }
    let folder = ScratchDirectory::small("fio")?;
    for (index, text) in jobs {
        let path = folder.path().join(Path::new(&words[index]).file_name().unwrap_or_default());
        std::fs::write(&path, text).map_err(failed("write", &path))?;
        words[index] = path.to_string_lossy().into_owned();
    }
    Ok(Written { words, _folder: Some(folder) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::job_file;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    #[test]
    fn built_in_job_is_a_file_while_fio_runs() {
        let written = written(&words("fio --randseed=1 fsperf/four-sizes.fio")).unwrap();
        assert_eq!(written.words[..2], words("fio --randseed=1"));
        let path = written.words[2].clone();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text_of(&words("fio"), "fsperf/four-sizes.fio").unwrap());
        drop(written);
        assert!(!Path::new(&path).exists());
    }

    #[test]
    fn other_programs_and_files_keep_their_words() {
        for command in ["cat fsperf/four-sizes.fio", "fio four-sizes.fio", "fio /tmp/fsperf/four-sizes.fio"] {
            assert_eq!(written(&words(command)).unwrap().words, words(command));
        }
    }

    #[test]
    fn fio_reports_statistics_of_every_built_in_job() {
        for (name, text) in JOBS {
            assert_eq!(job_file::check_text(text), Ok(()), "{name}");
            assert!(text.starts_with("# ") && text.contains("https://"), "{name} has no source");
        }
    }
}
