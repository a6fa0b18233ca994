//! How to continue interrupted work, in one form for all verbs.

use crate::machine::guest_accelerator;
use crate::output::Caller;
use crate::plan::shell_quote;
use std::path::Path;

/// Begins the instruction. A line that contains it is not wrapped, so that its command can be copied.
pub const CONTINUE: &str = "continue with: ";

/// Returns the instruction to continue with `command`.
pub fn continue_with(command: &str) -> String {
    format!("{CONTINUE}{command}")
}

/// Returns the command that applies a verb to a run, such as `age --resume`, as this process was run.
pub fn command(verb: &str, run: &Path) -> String {
    let vm = if guest_accelerator().is_some() { "--vm " } else { "" };
    format!("{}senesce {vm}{verb} {}", sudo(), shell_quote(&run.to_string_lossy()))
}

/// Returns the beginning of a command that sudo(8) runs, as it runs this process.
fn sudo() -> &'static str {
    if Caller::of_sudo().is_some() { "sudo " } else { "" }
}

/// Returns the command of this process, with the directory `out` of its run if the command does not name it.
pub fn same_command(out: Option<&Path>) -> String {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    format!("{}{}", sudo(), command_of(words, guest_accelerator().is_some(), out))
}

/// Joins the words of a command. A guest runs them without `--vm`, by the path of the program.
fn command_of(mut words: Vec<String>, in_guest: bool, out: Option<&Path>) -> String {
    if in_guest {
        words.splice(..words.len().min(1), ["senesce".to_string(), "--vm".into()]);
    }
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    if let Some(out) = out {
        // `--again` would start another run.
        let again = words[..end].iter().position(|word| word == "--again");
        again.into_iter().for_each(|at| drop(words.remove(at)));
        let end = end - usize::from(again.is_some());
        words.splice(end..end, ["--out".to_string(), out.to_string_lossy().into_owned()]);
    }
    words.iter().map(|word| shell_quote(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn continued(line: &str, in_guest: bool, out: Option<&str>) -> String {
        command_of(line.split(' ').map(str::to_string).collect(), in_guest, out.map(Path::new))
    }

    #[test]
    fn directory_is_added_before_the_words_of_another_program() {
        for (line, out, expected) in [
            ("senesce study s.toml --out run", None, "senesce study s.toml --out run"),
            ("senesce bench . varmail", Some("runs/a b"), "senesce bench . varmail --out 'runs/a b'"),
            ("senesce study s.toml --again -q", Some("run"), "senesce study s.toml -q --out run"),
            ("senesce trace --again . -- x --again", Some("run"), "senesce trace . --out run -- x --again"),
        ] {
            assert_eq!(continued(line, false, out), expected);
        }
    }

    #[test]
    fn command_of_a_guest_is_run_in_a_guest_again() {
        assert_eq!(continued("/proc/1/exe study s.toml", true, None), "senesce --vm study s.toml");
        assert_eq!(continued("/proc/1/exe bench .", true, Some("run")), "senesce --vm bench . --out run");
    }

    #[test]
    fn names_of_runs_are_quoted() {
        assert!(command("age --resume", Path::new("a;b")).ends_with(" age --resume 'a;b'"));
        assert_eq!(continue_with("x"), format!("{CONTINUE}x"));
    }
}
