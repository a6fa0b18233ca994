//! Differences of plans.

use senesce_core::Plan;
use toml::Value;

/// Settings that differ, as [`Plan::differences`]. Mount points of senesce have random names, which are not settings.
pub(super) fn differences(reference: &Plan, sample: &Plan) -> Vec<String> {
    without_mount_names(reference).differences(&without_mount_names(sample))
}

fn without_mount_names(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.spec.iter_mut().for_each(|(_, value)| replace_in(value));
    plan
}

fn replace_in(value: &mut Value) {
    match value {
        Value::String(text) => *text = replaced(text),
        Value::Array(all) => all.iter_mut().for_each(replace_in),
        Value::Table(all) => all.iter_mut().for_each(|(_, value)| replace_in(value)),
        _ => {}
    }
}

const MOUNTS: &str = "/mnt/";

/// Replaces `/run/senesce/mnt/loop0-a8Zd/mail` by `/run/senesce/mnt/*/mail`, anywhere in a text.
fn replaced(text: &str) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(index) = rest.find(MOUNTS) {
        let (before, after) = rest.split_at(index + MOUNTS.len());
        done.push_str(before);
        rest = after;
        if is_runtime_folder(&before[..index]) {
            let is_end = |one: char| one.is_whitespace() || "/'\"`;:,|&)".contains(one);
            let end = rest.find(is_end).unwrap_or(rest.len());
            done.push_str(if end > 0 { "*" } else { "" });
            rest = &rest[end..];
        }
    }
    done + rest
}

/// Returns whether a path ends in `senesce`, or `senesce-UID` in a shared directory.
fn is_runtime_folder(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let user = name.strip_prefix("senesce-").unwrap_or_default();
    name == "senesce" || (!user.is_empty() && user.bytes().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Seed;

    fn plan(command: &[&str]) -> Plan {
        let mut plan = Plan::default_of("trace", Seed(1));
        let words = command.iter().map(|word| Value::String((*word).into())).collect();
        plan.spec.insert("command".into(), Value::Array(words));
        plan
    }

    #[test]
    fn random_names_of_mount_points_are_not_a_setting() {
        for [one, other] in [
            ["/run/senesce/mnt/loop1-uw2u/mail", "/run/senesce/mnt/loop0-a8Zd/mail"],
            ["/run/senesce/mnt/loop1-uw2u", "/run/senesce/mnt/loop0-a8Zd"],
            ["cd '/tmp/senesce-1000/mnt/a-1' && ls", "cd '/tmp/senesce-1000/mnt/b-22' && ls"],
            ["cat /run/senesce/mnt/a-1/x /run/senesce/mnt/a-1/y", "cat /run/senesce/mnt/b-2/x /run/senesce/mnt/b-2/y"],
        ] {
            assert_eq!(differences(&plan(&["sh", one]), &plan(&["sh", other])), [""; 0], "{one}");
        }
    }

    #[test]
    fn other_paths_are_settings() {
        for [one, other] in [
            ["/run/senesce/mnt/loop1-uw2u/mail", "/run/senesce/mnt/loop0-a8Zd/news"],
            ["/mnt/one/mail", "/mnt/other/mail"],
            ["/home/a/senesce-runs/mnt/one", "/home/a/senesce-runs/mnt/other"],
            ["/run/senesce/mnt/", "/run/senesce/mnt/loop0-a8Zd"],
        ] {
            assert_eq!(differences(&plan(&["ls", one]), &plan(&["ls", other])).len(), 1, "{one}");
        }
    }
}
