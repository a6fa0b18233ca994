//! Reads the three text files of Geriatrix: a line with the number of rows, the rows, then prose that is ignored.

use super::{AgeRow, DepthRow, Profile, SizeRow};
use crate::error::AgingError;
use senesce_core::Bytes;
use std::str::FromStr;

/// Makes a profile from the texts of the age, size and directory distributions of the Geriatrix release.
///
/// # Errors
/// [`AgingError::Profile`] with the wrong file and line, or with the error of [`Profile::validate`].
pub fn import_geriatrix(name: &str, age: &str, size: &str, directory: &str) -> Result<Profile, AgingError> {
    let make = || -> Result<Profile, String> {
        let ages = rows(age, "age", 2, |word| Ok(AgeRow { edge: field(word, 0)?, weight: field(word, 1)? }))?;
        let sizes =
            rows(size, "size", 2, |word| Ok(SizeRow { bytes: Bytes(field(word, 0)?), weight: field(word, 1)? }))?;
        let depths = rows(directory, "directory", 3, |word| {
            Ok(DepthRow { depth: field(word, 0)?, weight: field(word, 1)?, subdirectories: field(word, 2)? })
        })?;
        let source = "imported from the text files of Geriatrix".to_string();
        let profile = Profile {
            name: name.into(),
            source,
            fullness: None,
            locality: None,
            sizes,
            depths,
            ages,
            changes: Vec::new(),
            name_bytes: None,
            burst: None,
        };
        profile.validate()?;
        Ok(profile)
    };
    make().map_err(|problem| AgingError::profile(name, problem))
}

fn rows<T>(
    text: &str,
    file: &str,
    columns: usize,
    read: impl Fn(&[&str]) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, first) = lines.next().ok_or_else(|| format!("the {file} file is empty"))?;
    let count: usize = first
        .trim()
        .parse()
        .map_err(|_| format!("{file} file, line 1: '{}' is not the number of rows", first.trim()))?;
    let mut found = Vec::new();
    for (number, line) in lines.take(count) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() != columns {
            let problem = format!("{columns} numbers expected, found '{}'", line.trim());
            return Err(format!("{file} file, line {}: {problem}", number + 1));
        }
        found.push(read(&words).map_err(|problem| format!("{file} file, line {}: {problem}", number + 1))?);
    }
    if found.len() == count {
        Ok(found)
    } else {
        Err(format!("{file} file: {count} rows expected, {} found", found.len()))
    }
}

fn field<T: FromStr>(words: &[&str], index: usize) -> Result<T, String> {
    words[index].parse().map_err(|_| format!("'{}' is not a valid number here", words[index]))
}
