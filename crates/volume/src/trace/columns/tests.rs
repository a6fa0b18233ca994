//! Lines in the formats of public traces.

use super::*;

const MSR: &str =
    "128166372003061629,hm,0,Read,383496192,32768,413\n128166372016382155,hm,0,Write,310983680,12288,1017\n";

fn read(text: &str, pattern: &str, device: Option<&str>) -> Result<Columns, String> {
    parse(text.as_bytes(), Path::new("t"), pattern, device).map_err(|error| error.to_string())
}

fn requests(text: &str, pattern: &str) -> Vec<(u64, Option<u64>, Operation, u64, u32)> {
    let found = read(text, pattern, None).unwrap();
    let shown = |one: Request| (one.issue_ns, one.latency_ns, one.operation, one.sector, one.sectors);
    found.trace.iter().map(shown).collect()
}

#[test]
fn public_formats_are_read() {
    use Operation::{Flush, Read, Write};
    let msr = [(0, Some(41_300), Read, 749_016, 64), (1_332_052_600, Some(101_700), Write, 607_390, 24)];
    assert_eq!(requests(MSR, "msr"), msr);
    let systor =
        "Timestamp,Response,IOType,LUN,Offset,Size\n1455592391.5,0.000256,W,4,8192,4096\n1455592392.25,,R,4,0,512\n";
    assert_eq!(requests(systor, "systor17"), [(0, Some(256_000), Write, 16, 8), (750_000_000, None, Read, 0, 1)]);
    let alibaba = "419,W,8792731648,16384,1577808144360767\n419,R,8792748032,4096,1577808144360935\n";
    assert_eq!(requests(alibaba, "alibaba"), [(0, None, Write, 17_173_304, 32), (168_000, None, Read, 17_173_336, 8)]);
    assert_eq!(requests("1538323200,12910952,128,0,1063\n", "tencent"), [(0, None, Read, 12_910_952, 128)]);
    let three = "fio version 3 iolog\n10 /dev/sdb add\n30 /dev/sdb write 0 4096\n42 /dev/sdb read 1048576 8192\n50 /dev/sdb sync 0 0\n";
    let expected = [(0, None, Write, 0, 8), (12_000, None, Read, 2048, 16), (20_000, None, Flush, 0, 0)];
    assert_eq!(requests(three, "fio-iolog"), expected);
    let two = "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb read 0 512\n/dev/sdb close\n";
    assert_eq!(requests(two, "fio-iolog"), [(0, None, Read, 0, 1)]);
    let caveats = read(two, "fio-iolog", None).unwrap().caveats.join("\n");
    assert!(caveats.contains("no times") && caveats.contains("3 lines"), "{caveats}");
}

#[test]
fn invalid_line_is_refused_with_its_number() {
    for (line, word) in [
        ("128166372003061629,hm,0,Read,-1,32768,413", "offset is '-1'"),
        ("128166372003061629,hm,0,Read,0,NaN,413", "size is 'NaN'"),
        ("inf,hm,0,Read,0,512,413", "time is 'inf'"),
        ("1e9,hm,0,Read,0,512,413", "time is '1e9'"),
        ("1,hm,0,Read,0,512,-5", "latency is '-5'"),
        ("1,hm,0,Erase,0,512,5", "op is 'Erase'"),
        ("1,hm,0,Read,18446744073709551615,512,5", "no device is that large"),
        ("1,hm,0,Read,0,99999999999999,5", "more than a request"),
        ("1,hm,0,Read", "ends before the column 'offset'"),
        ("1,hm,0,\u{1b}[2J,0,512,5", "\\u001b[2J"),
    ] {
        let problem = read(&format!("{MSR}{line}\n"), "msr", None).unwrap_err();
        assert!(problem.contains("line 3") && problem.contains(word), "{line}: {problem}");
    }
    assert!(read(&"1".repeat(5000), "msr", None).unwrap_err().contains("longer than 4096"));
    assert!(read("", "msr", None).unwrap_err().contains("no requests"));
}

#[test]
fn one_of_several_devices_is_chosen() {
    let two = format!("{MSR}128166372003061630,hm,1,Read,512,512,9\n128166372003061631,hm,0,Read,0,512,9\n");
    assert!(read(&two, "msr", None).unwrap_err().contains("hm.0 (3 requests), hm.1 (1 request)"));
    assert_eq!(read(&two, "msr", Some("hm.1")).unwrap().trace.len(), 1);
    let first = read(&two, "msr", Some("hm.0")).unwrap();
    assert_eq!(first.trace.len(), 3);
    assert!(first.caveats[0].contains("sorted by time"), "{:?}", first.caveats);
    assert!(read(&two, "msr", Some("sda")).unwrap_err().contains("no device sda"));
}

#[test]
fn a_pattern_names_known_columns_once_with_their_units() {
    for (pattern, word) in [
        ("time,op,offset,size", "needs a unit"),
        ("time:h,op,offset,size", "not a unit of time"),
        ("op,offset", "no column 'size'"),
        ("op,op,offset,size", "twice"),
        ("op,offset,length", "'length' is not a column"),
        ("", "column"),
    ] {
        assert!(Pattern::parse(pattern).unwrap_err().contains(word), "{pattern}");
    }
    assert_eq!(requests("9 x R 3 1", "time:ns - op offset:KiB size:sectors"), [(0, None, Operation::Read, 6, 1)]);
}

#[test]
fn partial_sectors_are_rounded_with_a_caveat() {
    let found = read("R,100,512\n", "op,offset,size", None).unwrap();
    assert_eq!(found.trace.iter().map(|one| (one.sector, one.sectors)).collect::<Vec<_>>(), [(0, 2)]);
    assert!(found.caveats[0].contains("rounded to whole sectors"), "{:?}", found.caveats);
}
