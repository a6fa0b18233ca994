//! The front end: errors with their location, a golden file of them, and the committed corpus of the fuzz target.

use proptest::prelude::*;
use senesce_workload::{Workload, WorkloadError};
use std::collections::BTreeMap;
use std::path::Path;

fn parse(text: &str) -> Result<Workload, WorkloadError> {
    Workload::parse("w.f", text, &BTreeMap::new())
}

fn error(text: &str) -> String {
    parse(text).err().map_or_else(|| panic!("{text} was accepted"), |error| error.to_string())
}

#[test]
fn fuzz_corpus_does_not_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/wml");
    let mut accepted = 0;
    for entry in std::fs::read_dir(&folder).unwrap().flatten() {
        let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
        match parse(&text) {
            Ok(workload) => accepted += usize::from(workload.thread_count() > 0),
            Err(error) => assert!(error.to_string().contains("w.f:"), "{error}"),
        }
    }
    assert!(accepted >= 7, "the personalities and the file with every construct are accepted: {accepted}");
}

#[test]
fn errors_name_location_and_remedy() {
    let fileset = "define fileset name=set,path=$dir,entries=10,dirwidth=5,prealloc\n";
    let thread = |flow: &str| format!("{fileset}define process name=p {{ thread name=t {{ {flow} }} }}");
    let cases = [
        ("defne fileset name=a".to_string(), "w.f:1:1: error: unknown command 'defne', did you mean 'define'?"),
        ("run $time".into(), "w.f:1:5: error: variable $time has no value"),
        ("define fileset name=a,path=$dir,entries=10".into(), "needs dirwidth=N of at least 2"),
        ("define fileset path=$dir,dirwidth=10".into(), "this fileset needs name=..."),
        (thread("flowop opnfile name=o"), "unknown flowop 'opnfile', did you mean 'openfile'?"),
        (thread("flowop openfile name=o, filesetname=sett"), "unknown file set 'sett', did you mean 'set'?"),
        (thread("flowop openfile name=o"), "flowop openfile needs filesetname=..."),
        (thread("flowop read name=r, fd=1"), "flowop read needs iosize=... above 0"),
        (thread("flowop read name=r, fd=999, iosize=1"), "fd is a slot from 0 to 128, not 999"),
        (thread("flowop wakeup name=w, target=b"), "'b' is not a suitable target flowop"),
        (thread("flowop aiowrite name=a, fd=1, iosize=1k"), "needs random"),
        ("define process name=p { thread name=t { } }".into(), "the braces contain no flowops"),
        ("set $x=randvar(type=tabular, randtable={{50,1,2}})".into(), "the percentages sum to 50, not to 100"),
        ("set $x=cvar(type=cvar-gama)".into(), "did you mean 'cvar-gamma'?"),
        ("set $x=cvar(type=cvar-normal,parameters=mean:1;deviation:2)".into(), "has no parameter 'deviation'"),
        ("echo \"open".into(), "this quoted text is not closed"),
    ];
    for (text, message) in cases {
        let found = error(&text);
        assert!(found.contains(message), "{text}: {found}");
        assert!(found.contains('^'), "{found}");
    }
}

#[test]
fn unsupported_constructs_are_named() {
    for (text, construct) in [
        ("enable multi master=a,client=b", "'enable multi'"),
        ("domultisync value=1", "command 'domultisync'"),
        ("foreach $x in 1,2 { run 1 }", "command 'foreach'"),
        ("load fileserver", "command 'load'"),
        ("log \"x\"", "command 'log'"),
        ("set $a=2 set $b=$a * 3", "'*': arithmetic"),
        ("stats dump \"file\"", "'stats dump'"),
        ("define posset name=$p", "position sets"),
        ("define fileset name=a,path=$dir,sizegamma=1", "attribute 'sizegamma'"),
        ("echo \"${stats.ops}\"", "${stats.ops}"),
    ] {
        let found = error(text);
        assert!(found.contains("not supported:") && found.contains(construct), "{found}");
    }
}

#[test]
fn error_matches_the_golden_file() {
    let text = "# comment\ndefine fileset name=a,\n  path=$dir, entires=10\n";
    let expected = "w.f:3:14: error: fileset has no attribute 'entires', did you mean 'entries'?; it has: name, path, entries, \
        size, dirwidth, dirdepthrv, dirgamma, leafdirs, prealloc, paralloc, reuse, readonly, writeonly, trusttree, cached\n \
        3 |   path=$dir, entires=10\n   |              ^^^^^^^";
    assert_eq!(error(text), expected);
}

#[test]
fn later_and_external_settings_take_precedence() {
    let text = "set $n=1\ndefine process name=p { thread name=t, instances=$n { flowop nop name=n } }\nset $n=5\nrun 7";
    assert_eq!(parse(text).unwrap().thread_count(), 5);
    let set = BTreeMap::from([("n".to_string(), "9".to_string())]);
    let workload = Workload::parse("w.f", text, &set).unwrap();
    assert_eq!((workload.thread_count(), workload.run.seconds), (9, Some(7)));
}

#[test]
fn files_of_older_releases_sleep_instead_of_run() {
    let text = "define process name=p { thread name=t { flowop nop name=n } }
        create processes\nsleep 3\nstats clear\nsleep 20\nstats snap\nsleep 9\nshutdown processes";
    let run = parse(text).unwrap().run;
    assert_eq!((run.warm_up, run.seconds), (3, Some(20)));
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in ".{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn arbitrary_keyword_sequences_do_not_panic(words in prop::collection::vec(prop::sample::select(vec![
        "define", "fileset", "process", "thread", "flowop", "name=a", "path=$dir", "{", "}", ",", "=", "(", ")", "set", "$x",
        "randvar", "cvar", "type=gamma", "randtable", "10k", "-1", "\"", "run", "psrun", "read", "iosize", "entries=5", "dirwidth=3",
    ]), 0..40)) {
        let _ = parse(&words.join(" "));
    }
}

#[path = "../../../../fuzz/shared/wml_mutator.rs"]
mod wml_mutator;

#[test]
fn too_many_threads_are_refused() {
    for (instances, threads) in [("9223372036854775807", "3"), ("1000000", "1"), ("1000", "501")] {
        let text = format!(
            "define process name=p, instances={instances} {{ thread name=t, instances={threads} {{ flowop delay name=d, value=1 }} }}"
        );
        let message = error(&text);
        assert!(message.contains("threads, instances included; a workload has at most"), "{message}");
    }
}

/// Most inputs of the fuzz target must pass the front end, otherwise it does not test later stages.
#[test]
fn changed_workloads_are_mostly_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/wml");
    let texts = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| std::fs::read(entry.path()).unwrap());
    let sound: Vec<String> =
        texts.filter_map(|text| String::from_utf8(text).ok()).filter(|text| parse(text).is_ok()).collect();
    let changed = || sound.iter().flat_map(|text| (0..100).map(move |seed| wml_mutator::mutate(text, seed)));
    let (all, accepted) = (changed().count(), changed().filter(|text| parse(text).is_ok()).count());
    let different = sound.iter().filter(|text| (0..100).any(|seed| wml_mutator::mutate(text, seed) != **text)).count();
    assert_eq!(different, sound.len());
    assert!(2 * accepted > all, "{accepted} of {all} were accepted");
}
