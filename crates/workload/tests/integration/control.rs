//! Flowops that control others, by their effect: waits, limits, ends, composites.

use crate::common::{TemporaryTarget, count, operations, run, time, valid};

#[test]
fn block_waits_for_wakeup() {
    let temporary = TemporaryTarget::new();
    let text = "define fileset name=set, path=$dir, dirwidth=10, entries=4, size=0, prealloc
        define process name=p {
            thread name=sleeper { flowop block name=b flowop statfile name=after, filesetname=set }
            thread name=waker { flowop delay name=d, value=1 flowop wakeup name=w, target=b }
        }";
    let result = valid(run(&temporary, text, time(2500)));
    assert!((1..=2).contains(&count(&result, "after")), "{result:?}");
    assert_eq!(count(&result, "w"), 2);
}

#[test]
fn semaphores_couple_threads() {
    let temporary = TemporaryTarget::new();
    let text = "define fileset name=set, path=$dir, dirwidth=10, entries=4, size=0, prealloc
        define process name=p {
            thread name=taker { flowop semblock name=take, value=3, highwater=2 flowop statfile name=took, filesetname=set }
            thread name=giver { flowop statfile name=gave, filesetname=set flowop sempost name=give, value=1, target=take, blocking }
        }";
    let result = valid(run(&temporary, text, time(300)));
    let (took, gave) = (count(&result, "took") as i64, count(&result, "gave") as i64);
    assert!(took > 10 && (gave - 3 * took).abs() <= 8, "{took} taken for {gave} given");
}

#[test]
fn hog_delay_nop_and_print_do_no_counted_operation() {
    let temporary = TemporaryTarget::new();
    let text = "define fileset name=set, path=$dir, dirwidth=10, entries=1, size=0, prealloc
        define process name=p { thread name=t {
            flowop hog name=h, value=1000 flowop nop name=n flowop print name=say, value=\"good day\"
            flowop testrandvar name=v, value=7
            flowop statfile name=s, filesetname=set } }";
    let result = valid(run(&temporary, text, operations(5)));
    assert_eq!(result.ops, 5);
    assert!(count(&result, "h") >= 5);
    assert!(result.messages.iter().any(|text| text == "process p, thread t-1: good day"), "{:?}", result.messages);
    assert!(result.messages.iter().any(|text| text.contains("mean 7.00")), "{:?}", result.messages);
}

#[test]
fn event_limits_hold_the_rate() {
    let limited = |limit: &str, threads: u32| {
        let temporary = TemporaryTarget::new();
        let text = format!(
            "eventgen rate=200
             define fileset name=set, path=$dir, dirwidth=10, entries=8, size=4k, prealloc
             define process name=p {{ thread name=t, instances={threads} {{
                 flowop read name=r, filesetname=set, fd=1, iosize=4k, random flowop {limit} }} }}"
        );
        valid(run(&temporary, &text, time(1000)))
    };
    for limit in ["eventlimit name=l", "opslimit name=l", "iopslimit name=l", "opslimit name=l, target=r"] {
        for threads in [1, 4] {
            let rate = limited(limit, threads).ops_per_second;
            assert!((150.0..260.0).contains(&rate), "{limit} with {threads} threads: {rate}");
        }
    }
    let megabytes = |limit: &str| {
        let temporary = TemporaryTarget::new();
        let text = format!(
            "eventgen rate=50
             define fileset name=set, path=$dir, dirwidth=10, entries=1, size=1m, prealloc
             define process name=p {{ thread name=t, instances=2 {{
                 flowop read name=r, filesetname=set, fd=1, iosize=64k, random flowop {limit} }} }}"
        );
        valid(run(&temporary, &text, time(1000))).mb_per_second
    };
    for limit in ["bwlimit name=l", "bwlimit name=l, target=r"] {
        let rate = megabytes(limit);
        assert!((40.0..60.0).contains(&rate), "{limit}: {rate}");
    }
}

#[test]
fn finishoncount_and_finishonbytes_end_the_run() {
    let temporary = TemporaryTarget::new();
    let base = "define fileset name=set, path=$dir, dirwidth=10, entries=1, size=64k, prealloc
        define process name=p { thread name=t { flowop read name=r, filesetname=set, fd=1, iosize=4k, random ";
    let result = valid(run(&temporary, &format!("{base} flowop finishoncount name=f, value=100 }} }}"), time(5000)));
    assert_eq!(result.ops, 100);
    assert!(result.seconds < 4.0 && result.reason.unwrap().contains("ended the run"));
    let result = valid(run(&temporary, &format!("{base} flowop finishonbytes name=f, value=40k }} }}"), time(5000)));
    assert_eq!(result.ops, 12, "one opening and eleven reads of 4 KiB are more than 40 KiB");
}

#[test]
fn composite_flowops_run_their_passes_with_local_variables() {
    let temporary = TemporaryTarget::new();
    let text = "define fileset name=one, path=$dir, dirwidth=10, entries=1, size=0, prealloc
        define fileset name=two, path=$dir, dirwidth=10, entries=1, size=0, prealloc
        define flowop name=add, $where, $much=1k {
            flowop openfile name=o, filesetname=$where, fd=1
            flowop appendfile name=a, fd=1, iosize=$much
            flowop closefile name=c, fd=1
        }
        define process name=p { thread name=t {
            flowop add name=first, iters=2, $where=one
            flowop add name=second, $where=two, $much=3k } }";
    let result = valid(run(&temporary, text, operations(9)));
    assert_eq!([count(&result, "first.a"), count(&result, "second.a")], [2, 1]);
    assert_eq!(temporary.entry("one/00000001/00000001").metadata().unwrap().len(), 2048);
    assert_eq!(temporary.entry("two/00000001/00000001").metadata().unwrap().len(), 3072);
}
