//! Ten thousand threads, in a separate test program because they slow other tests.

use crate::common::{TemporaryTarget, operations, try_run, valid, workload};
use senesce_workload::Options;
use std::time::Duration;

#[test]
#[ignore = "long: starts thousands of threads"]
fn ten_thousand_threads_start() {
    let temporary = TemporaryTarget::new();
    let text = "define fileset name=set, path=$dir, dirwidth=100, entries=20000, size=0, prealloc
        define process name=p, instances=10 { thread name=t, instances=1000 {
            flowop statfile name=s, filesetname=set flowop delay name=d, value=1 } }";
    let options = Options { stuck_after: Duration::from_secs(50), ..operations(10_000) };
    let result = valid(try_run(&temporary, &workload(text), options).unwrap().repetition);
    assert_eq!(result.ops, 10_000);
}
