//! Files of the study that a program of the user's is given. It runs in the volume, where they are not, and a word may be the name of
//! a file by chance: only what says so is one. Found when the study is read, so that a record names what was run.

use super::is_fio;
use crate::spec::WorkloadSpec;
use std::path::Path;

/// Stands for the folder of the study's file.
pub const FOLDER: &str = "$SENESCE_STUDY";

/// Writes whole paths for the files of `folder` that the commands of a workload name: `$SENESCE_STUDY/data` anywhere in a word, and
/// the job files of fio.
///
/// # Errors
/// A file that is not there.
pub fn resolve(workload: &mut WorkloadSpec, folder: &Path) -> Result<(), String> {
    for words in [&mut workload.prepare, &mut workload.command] {
        let takes_jobs = words.first().is_some_and(|program| is_fio(program));
        for (place, word) in words.iter_mut().enumerate() {
            let job = folder.join(&*word);
            if word.contains(FOLDER) {
                *word = whole(word, folder)?;
            } else if takes_jobs && place > 0 && !word.starts_with('-') && job.is_file() {
                *word = job.to_string_lossy().into_owned();
            }
        }
    }
    Ok(())
}

fn whole(word: &str, folder: &Path) -> Result<String, String> {
    let found = word.replace(FOLDER, &folder.to_string_lossy());
    match word.strip_prefix(FOLDER).is_some_and(|rest| !rest.contains(char::is_whitespace))
        && !Path::new(&found).exists()
    {
        true => Err(format!("{word}: there is no {found}")),
        false => Ok(found),
    }
}

/// Words that are files where senesce was started, which the program will not find in the volume.
pub fn left_behind(workload: &WorkloadSpec) -> Vec<String> {
    let words = workload.prepare.iter().skip(1).chain(workload.command.iter().skip(1));
    let is_here = |word: &&String| Path::new(word.as_str()).is_relative() && Path::new(word.as_str()).is_file();
    let said = words.filter(is_here).map(|word| {
        format!("{word} is a file here, and the program runs in the volume: if it is to have this one, write {FOLDER}/{word}")
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str, folder: &Path) -> Result<Vec<String>, String> {
        let mut workload: WorkloadSpec = toml::from_str(text).unwrap();
        resolve(&mut workload, folder).map(|()| workload.command)
    }

    #[test]
    fn only_what_says_so_is_a_file_of_the_study() {
        let room = tempfile::tempdir().unwrap();
        ["data", "job.fio"].iter().for_each(|name| std::fs::write(room.path().join(name), "").unwrap());
        let path = |name: &str| room.path().join(name).display().to_string();
        let of = |text: &str| resolved(text, room.path());
        assert_eq!(of("command = ['cp', 'data', 'job.fio']").unwrap(), ["cp", "data", "job.fio"]);
        assert_eq!(of("command = ['cp', '$SENESCE_STUDY/data', '.']").unwrap(), ["cp", &path("data"), "."]);
        assert_eq!(
            of("command = ['sh', '-c', 'cat $SENESCE_STUDY/data >out']").unwrap()[2],
            format!("cat {} >out", path("data"))
        );
        assert_eq!(
            of("command = ['fio', '--name=data', 'job.fio']").unwrap(),
            ["fio", "--name=data", &path("job.fio")]
        );
        assert!(of("command = ['cp', '$SENESCE_STUDY/none', '.']").unwrap_err().contains("there is no"));
    }

    #[test]
    fn a_word_that_is_a_file_here_is_told_and_not_touched() {
        let workload: WorkloadSpec = toml::from_str("command = ['touch', 'Cargo.toml', '/etc/passwd', 'out']").unwrap();
        let said = left_behind(&workload);
        assert!(said.len() == 1 && said[0].contains("$SENESCE_STUDY/Cargo.toml"), "{said:?}");
    }
}
