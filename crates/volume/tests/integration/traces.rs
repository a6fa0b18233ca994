//! Block traces of real requests, compared with the kernel's own text and with blkparse.

use crate::common::temporary_directory;
use senesce_volume::trace::{DynamicLayout, Measures, blkparse, blktrace};
use senesce_volume::{BlockDevice, BlockTrace, MountedTarget, OpenOptions, Operation, TraceSession, open};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct TextTrace {
    mounted: tempfile::TempDir,
    instance: PathBuf,
}

impl TextTrace {
    fn start(device: &BlockDevice) -> Self {
        let mounted = tempfile::tempdir().unwrap();
        let status = Command::new("mount").args(["-t", "tracefs", "tracefs"]).arg(mounted.path()).status().unwrap();
        assert!(status.success());
        let instance = mounted.path().join(format!("instances/senesce-test-{}", std::process::id()));
        fs::create_dir(&instance).unwrap();
        let write = |name: &str, value: &str| fs::write(instance.join(name), value).unwrap();
        write("trace_clock", "mono");
        write("buffer_size_kb", "4096");
        let number = u64::from(device.number().0) << 20 | u64::from(device.number().1);
        for event in ["block_rq_issue", "block_rq_complete"] {
            write(&format!("events/block/{event}/filter"), &format!("dev == {number}"));
            write(&format!("events/block/{event}/enable"), "1");
        }
        write("tracing_on", "1");
        Self { mounted, instance }
    }

    /// Lines of one event: time in nanoseconds (of microseconds), letters, sector, sectors.
    fn events(&self, name: &str) -> Vec<(u64, String, u64, u32)> {
        let text = fs::read_to_string(self.instance.join("trace")).unwrap();
        let lines = text.lines().filter(|line| line.contains(&format!("{name}: ")));
        lines
            .map(|line| {
                // "grep-12 [000] ..... 12.345678: block_rq_issue: 7,0 RA 4096 () 1234 + 8 none,0,0 [grep]"
                let (head, body) = line.split_once(&format!("{name}: ")).unwrap();
                let time = head.trim().trim_end_matches(':').rsplit(' ').next().unwrap();
                let time_ns = (time.replace('.', "").parse::<u64>().unwrap()) * 1000;
                let words: Vec<&str> = body.split_whitespace().collect();
                let plus = words.iter().position(|word| *word == "+").unwrap();
                (time_ns, words[1].into(), words[plus - 1].parse().unwrap(), words[plus + 1].parse().unwrap())
            })
            .collect()
    }
}

impl Drop for TextTrace {
    fn drop(&mut self) {
        let _ = fs::write(self.instance.join("tracing_on"), "0");
        let _ = fs::remove_dir(&self.instance);
        let _ = Command::new("umount").arg(self.mounted.path()).status();
    }
}

fn fragmented() -> MountedTarget {
    let mut target = open(&"memory:64M".parse().unwrap(), &OpenOptions::default()).unwrap();
    use std::io::Write;
    let root = target.mount_point().to_path_buf();
    let mut files: Vec<fs::File> =
        (0..8).map(|number| fs::File::create(root.join(format!("f{number}"))).unwrap()).collect();
    for _round in 0..20 {
        for file in &mut files {
            file.write_all(&[3; 4096 * 3]).unwrap();
            file.sync_data().unwrap();
        }
    }
    drop(files);
    target.remount().unwrap();
    target
}

fn read_all(folder: &Path) {
    for number in 0..8 {
        fs::read(folder.join(format!("f{number}"))).unwrap();
    }
}

/// The score by its definition, over (letters, sector, sectors) of the issued requests.
fn score(issued: impl Iterator<Item = (String, u64, u64)>) -> f64 {
    let (mut breaks, mut sectors, mut end) = (0u64, 0u64, None);
    for (_, sector, count) in issued.filter(|(letters, ..)| letters.starts_with('R')) {
        breaks += u64::from(end.is_some_and(|end: u64| end != sector));
        end = Some(sector + count);
        sectors += count;
    }
    1.0 - breaks as f64 / (sectors as f64 / 8.0)
}

#[test]
#[ignore = "needs loop devices, blkparse"]
fn trace_agrees_with_kernel_text_and_blkparse() {
    let target = fragmented();
    let device = target.block_device_info().unwrap();
    let text = TextTrace::start(&device);
    let session = TraceSession::start(&device).unwrap();
    read_all(target.mount_point());
    fs::write(target.mount_point().join("new"), vec![9; 300_000]).unwrap();
    target.sync().unwrap();
    let trace = session.stop().unwrap();
    let (mut issued, mut completed) = (text.events("block_rq_issue"), text.events("block_rq_complete"));
    drop(text);
    // The text begins first, and another program may flush the device in between.
    let flushes = issued.iter().take_while(|(.., sectors)| *sectors == 0).count();
    let early = flushes.min(issued.len().saturating_sub(trace.len()));
    issued.drain(..early);
    completed.drain(..early);
    target.close().unwrap();

    assert_eq!(trace.problems(), []);
    let ours: Vec<_> = trace.iter().map(|request| (request.sector, request.sectors)).collect();
    let theirs: Vec<_> = issued.iter().map(|(_, _, sector, sectors)| (*sector, *sectors)).collect();
    assert_eq!(ours, theirs);
    let open: Vec<_> = trace.iter().filter(|request| request.latency_ns.is_none()).collect();
    assert!(open.is_empty(), "{open:?} of {}", trace.len());
    let times =
        trace.iter().zip(&issued).map(|(ours, theirs)| theirs.0 as i64 - ours.issue_ns as i64).collect::<Vec<_>>();
    assert!(times.iter().all(|shift| (shift - times[0]).abs() < 1_000_000), "one clock");

    let layout = DynamicLayout::of(trace.valid().unwrap());
    let by_text =
        score(issued.iter().map(|(_, letters, sector, sectors)| (letters.clone(), *sector, u64::from(*sectors))));
    assert!((layout.score.unwrap() - by_text).abs() < 1e-9, "{layout:?} against {by_text}");
    assert!(layout.discontinuities > 20, "the files lie in pieces: {layout:?}");
    let measures = Measures::of(&trace);
    let device = trace.device_stat().unwrap();
    assert_eq!((device.reads, device.read_bytes), (measures.reads, measures.bytes.read));
    assert_eq!((device.write_bytes, device.flushes), (measures.bytes.write, measures.flushes));
    assert!(measures.bytes.write >= 300_000 && measures.bytes.read >= 8 * 60 * 4096, "{measures:?}");

    compare_with_blkparse(&trace, &issued, &completed);
}

fn compare_with_blkparse(
    trace: &BlockTrace,
    issued: &[(u64, String, u64, u32)],
    completed: &[(u64, String, u64, u32)],
) {
    let directory = tempfile::tempdir().unwrap();
    let mut events: Vec<_> = issued.iter().map(|event| (event, 7u32, 6)).collect();
    events.extend(completed.iter().map(|event| (event, 8, 7)));
    events.sort_by_key(|((time, ..), ..)| *time);
    let mut bytes = Vec::new();
    for (number, ((time, letters, sector, sectors), action, category)) in events.into_iter().enumerate() {
        let kind = u32::from(letters.contains('R')) | u32::from(letters.contains('W')) << 1;
        bytes.extend(0x6561_7407u32.to_le_bytes());
        bytes.extend((number as u32 + 1).to_le_bytes());
        bytes.extend(time.to_le_bytes());
        bytes.extend(sector.to_le_bytes());
        for word in [sectors * 512, action | (kind | 1 << category) << 16, 77, 7 << 20, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
    }
    fs::write(directory.path().join("x.blktrace.0"), bytes).unwrap();
    let imported = blktrace::import(directory.path(), None).unwrap();
    assert_eq!(imported.len(), trace.len());
    let expected = DynamicLayout::of(trace.valid().unwrap());
    assert_eq!(DynamicLayout::of(imported.valid().unwrap()), expected);

    let blkparse = |options: &[&str]| {
        let output =
            Command::new("blkparse").args(["-q", "-i", "x"]).args(options).current_dir(directory.path()).output();
        String::from_utf8(output.expect("blkparse").stdout).unwrap()
    };
    let places = blkparse(&["-a", "issue", "-f", "%d %S %n\n"]);
    let lines = places.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Flushes have no letters of their own there.
    let lines = lines.filter(|words| words.len() == 3);
    let by_blkparse =
        score(lines.map(|words| (words[0].to_string(), words[1].parse().unwrap(), words[2].parse().unwrap())));
    assert!((by_blkparse - expected.score.unwrap()).abs() < 1e-9, "{by_blkparse} against {expected:?}");

    let text = directory.path().join("text");
    fs::write(&text, blkparse(&[])).unwrap();
    let parsed = senesce_volume::trace::blkparse::import(&text, None).unwrap();
    assert_eq!(DynamicLayout::of(parsed.valid().unwrap()), expected);
    // The text does not show which completion ends a flush.
    let timed = parsed.iter().filter(|request| request.latency_ns.is_some()).count();
    assert!(timed <= trace.len() && timed >= trace.iter().filter(|request| request.sectors > 0).count(), "{timed}");
}

/// The field as in proc_pid_stat(5), counted after the name.
fn nice_of_thread(name: &str) -> Option<i32> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    let stat = stats.into_iter().find(|stat| stat.contains(&format!("({name})")))?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
}

#[test]
#[ignore = "needs loop devices"]
fn buffer_reader_has_highest_priority() {
    let target = fragmented();
    let session = TraceSession::start(&target.block_device_info().unwrap()).unwrap();
    // The thread sets its name and this itself.
    let looks = std::iter::repeat_with(|| nice_of_thread("block trace")).take(100_000);
    let nice = looks.flatten().find(|nice| *nice < 0);
    assert_eq!(nice, Some(-20));
    assert!(session.stop().is_ok());
}

#[test]
#[ignore = "needs loop devices"]
fn lost_events_are_counted_and_a_device_without_requests_is_refused() {
    let target = fragmented();
    let device = target.block_device_info().unwrap();
    let session = TraceSession::start_with_buffer(&device, 8).unwrap();
    for round in 0..60 {
        fs::write(target.mount_point().join(format!("n{round}")), vec![9; 8192]).unwrap();
        target.sync().unwrap();
    }
    let trace = session.stop().unwrap();
    let complete = trace.iter().filter(|request| request.operation == Operation::Write).count();
    assert!(trace.lost_events() > 0 || complete > 120, "either all of it or a count of what was lost");
    target.close().unwrap();
    if let Ok(zram) = BlockDevice::open(Path::new("/dev/zram0")) {
        assert!(TraceSession::start(&zram).is_err());
    }
}

#[test]
fn irregular_files_are_refused_as_traces() {
    let directory = temporary_directory();
    let link = directory.path().join("trace.blocks");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    let part = directory.path().join("sda.blktrace.0");
    std::os::unix::fs::symlink("/dev/null", &part).unwrap();
    let text = directory.path().join("text");
    std::os::unix::fs::symlink("/dev/null", &text).unwrap();
    let messages = [
        BlockTrace::load(&link).unwrap_err().to_string(),
        blktrace::import(directory.path(), None).unwrap_err().to_string(),
        blkparse::import_complete(&text, None).unwrap_err().to_string(),
    ];
    assert!(messages.iter().all(|message| message.contains("not a regular file")), "{messages:?}");
    let error = blkparse::import(&text, None).unwrap_err().to_string();
    assert!(error.contains("neither a file nor a pipe"), "{error}");
}

const ISSUED_AGAIN: &str = "\
  8,0    1        1     0.000000000   697  D   R 1000 + 16 [grep]
  8,0    1        2     0.000001000     0  R   R 1000 + 16 [0]
  8,0    1        3     0.000002000   697  D   R 1000 + 16 [grep]
  8,0    1        4     0.000005000     0  C   R 1000 + 16 [0]
";

#[test]
fn a_request_that_a_foreign_recording_issues_again_counts_once() {
    let trace = blkparse::parse(ISSUED_AGAIN, Path::new("t"), None).unwrap();
    let latencies: Vec<_> = trace.iter().map(|request| request.latency_ns).collect();
    assert_eq!(latencies, [Some(5000)]);
    assert_eq!(trace.problems(), []);
}

#[test]
fn text_is_read_from_a_pipe() {
    let directory = temporary_directory();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&pipe, ISSUED_AGAIN).unwrap());
        assert_eq!(blkparse::import(&pipe, None).unwrap().device(), "8,0");
    });
}
