//! Names of users in messages.

use crate::input;
use std::path::Path;

/// Describes a user: `root`, or `user 1000 (alice)` if the user has a name here.
pub(crate) fn user_words(number: u32) -> String {
    if number == 0 {
        return "root".into();
    }
    match user_name(&accounts(), number) {
        Some(name) => format!("user {number} ({name})"),
        None => format!("user {number}"),
    }
}

/// Returns the word by which commands know a user: the name, or else the number.
pub(crate) fn login(number: u32) -> String {
    user_name(&accounts(), number).map_or_else(|| number.to_string(), str::to_string)
}

fn accounts() -> String {
    input::text(Path::new("/etc/passwd")).unwrap_or_default()
}

/// Finds the name of a user in the lines `NAME:PASSWORD:NUMBER:...` of passwd(5).
fn user_name(accounts: &str, number: u32) -> Option<&str> {
    let is_of_user = |line: &&str| line.split(':').nth(2).is_some_and(|field| field.parse::<u32>() == Ok(number));
    accounts.lines().find(is_of_user)?.split(':').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_their_names() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\n# a remark\nalice:x:1000:1000::/home/alice:/bin/sh\nbroken:x\n";
        assert_eq!([0, 1000, 7].map(|number| user_name(accounts, number)), [Some("root"), Some("alice"), None]);
        assert_eq!((user_words(0).as_str(), user_words(4_000_000_000).as_str()), ("root", "user 4000000000"));
    }
}
