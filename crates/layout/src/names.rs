//! Unambiguous text of file names, which may contain every byte but `/` and 0.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const QUOTE: &str = "$'";

/// Returns a path as text. Paths that are not UTF-8 are quoted as `$'...'` for bash and zsh, and so are paths that
/// begin like such a word. Others are unchanged.
pub fn shown(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.starts_with(QUOTE) => text.into(),
        _ => quoted(path.as_os_str().as_bytes()),
    }
}

pub fn shell_word(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "_@%+=:,./-".contains(character);
    match text {
        text if !text.is_empty() && text.chars().all(is_plain) => text.into(),
        text if text.chars().any(senesce_core::text::is_obeyed) => quoted(text.as_bytes()),
        text => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn quoted(bytes: &[u8]) -> String {
    let mut word = String::from(QUOTE);
    for byte in bytes {
        match byte {
            b'\'' | b'\\' => word.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => word.push(char::from(*byte)),
            _ => drop(write!(word, "\\{byte:03o}")),
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsStr;

    fn by_bash(words: &[String]) -> Vec<u8> {
        let script = format!("printf '%s\\0' {}", words.join(" "));
        std::process::Command::new("bash").args(["-c", &script]).output().unwrap().stdout
    }

    fn path(bytes: &[u8]) -> &Path {
        Path::new(OsStr::from_bytes(bytes))
    }

    #[test]
    fn only_ambiguous_names_are_quoted() {
        assert_eq!(shown(path("a b/ü$'".as_bytes())), "a b/ü$'");
        assert_eq!(shown(path(b"d\xff/it's \\ 1\n")), r"$'d\377/it\'s \\ 1\012'");
        assert_eq!(shown(path(b"$'a\\377'")), r"$'$\'a\\377\''");
        assert_eq!(shell_word("/mnt/disk-1"), "/mnt/disk-1");
        assert_eq!(shell_word("/mnt/my disk; it's ü"), r"'/mnt/my disk; it'\''s ü'");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn quoted_names_round_trip_through_a_shell(names in prop::collection::vec(prop::collection::vec(1u8..=255, 1..12), 1..9)) {
            let words = names.iter().map(|name| quoted(name)).collect::<Vec<_>>();
            let texts = names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>();
            let joined = |all: Vec<&[u8]>| all.into_iter().flat_map(|one| [one, b"\0"].concat()).collect::<Vec<u8>>();
            prop_assert_eq!(by_bash(&words), joined(names.iter().map(Vec::as_slice).collect()));
            let words = texts.iter().map(|text| shell_word(text)).collect::<Vec<_>>();
            prop_assert_eq!(by_bash(&words), joined(texts.iter().map(String::as_bytes).collect()));
        }
    }
}
