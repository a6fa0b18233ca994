//! Derives conditions from paths of the study's artifacts.

use crate::zns::condition::grid_key;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublishedFile {
    /// The folder of the measured device; empty if the path names none.
    pub device: String,
    pub key: String,
    pub kind: FileContent,
    /// Parameters in the path of a point of the grid.
    pub stated: Option<PointParameters>,
}

/// Parameters of a point that its path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PointParameters {
    pub bs: u64,
    /// Requests in flight per job.
    pub depth: u64,
    pub zones: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileContent {
    /// A point of the fio grid: all jobs combined.
    Grid,
    Beside,
    /// Output of db_bench, with the number of the run.
    Database(u32),
    Named,
}

/// Parses `.../<engine>/<device>/<format>/<op>/<bs>bs/<zones>zone/<qd>.json`; below `custom/<device>` the folders of
/// rate interference (in the artifact's spelling), `heavy` and `long`; `zbdbench/<file system>`. Other files keep their
/// path as the condition.
pub(crate) fn place(path: &str) -> PublishedFile {
    let parts: Vec<&str> = path.split('/').collect();
    if let Some(place) = grid(&parts) {
        return place;
    }
    let named = |word: &str| parts.iter().position(|part| part.to_ascii_lowercase().contains(word));
    let device = parts.iter().position(|part| *part == "custom").and_then(|at| {
        // The file itself is not a device.
        parts.get(at + 1).filter(|_| at + 2 < parts.len()).map(|part| (*part).to_string())
    });
    let device = device.unwrap_or_default();
    let rate = named("rate_int").and_then(|at| rate(&parts[at + 1..]));
    let heavy = || named("heavy").map(|at| heavy(&parts[at..]));
    let long = || long(&parts);
    if let Some(key) = rate.or_else(heavy).or_else(long) {
        return PublishedFile { device, key, kind: FileContent::Beside, stated: None };
    }
    if let Some((key, run)) = named("zbdbench").and_then(|at| database(&parts[at + 1..])) {
        return PublishedFile { device, key, kind: FileContent::Database(run), stated: None };
    }
    PublishedFile { device, key: format!("file={}", word(path)), kind: FileContent::Named, stated: None }
}

pub(crate) fn word(text: &str) -> String {
    printable(text.strip_suffix(".json").unwrap_or(text)).replace([',', '='], ";")
}

/// Replaces control characters, which a terminal would interpret, by words.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

fn grid(parts: &[&str]) -> Option<PublishedFile> {
    let [.., engine, device, format, op, size, zones, depth] = parts else { return None };
    let depth: u64 = depth.strip_suffix(".json")?.parse().ok()?;
    let size = size.strip_suffix("bs")?;
    let bs: u64 = match size.strip_suffix('K') {
        Some(kib) => kib.parse::<u64>().ok()?.checked_mul(1024)?,
        None => size.parse().ok()?,
    };
    let zones: u64 = zones.strip_suffix("zone").or_else(|| zones.strip_suffix("zones"))?.parse().ok()?;
    let (known, scheduled) = match op.strip_suffix("mq") {
        Some(op) => (op, true),
        None => (*op, op.contains("mq")),
    };
    let path = match (*engine, scheduled) {
        ("spdk", _) => "direct",
        (_, true) => "mq-deadline",
        (_, false) => "none",
    };
    let (kind, op) = match known {
        "write" | "append" | "randread" => (FileContent::Grid, known),
        "read" => (FileContent::Grid, "seqread"),
        _ => (FileContent::Named, *op),
    };
    let key = match *format {
        "lbaf0" => grid_key(op, bs, depth, zones, path, 512),
        "lbaf2" => grid_key(op, bs, depth, zones, path, 4096),
        other => format!("op={op},bs={bs},qd={depth},zones={zones},path={path},lbaf={other}"),
    };
    Some(PublishedFile { device: (*device).into(), key, kind, stated: Some(PointParameters { bs, depth, zones }) })
}

/// Parses `zns_append_250_16`: drive, kind of write, MiB/s, depth of the reader. Without a drive the result was not
/// labelled.
fn rate(parts: &[&str]) -> Option<String> {
    parts.iter().find_map(|part| {
        let stem = part.split('.').next()?;
        let (rest, depth) = stem.rsplit_once('_')?;
        let (name, rate) = rest.rsplit_once('_').unwrap_or(("", rest));
        let (rate, depth): (u64, u64) = (rate.parse().ok()?, depth.parse().ok()?);
        let (drive, op) = match name {
            "zns" => ("zoned", "write"),
            "zns_append" => ("zoned", "append"),
            "nvme" => ("conventional", "write"),
            "" => ("unlabelled", "write"),
            _ => return None,
        };
        Some(format!("drive={drive},op={op},rate={rate},qd={depth}"))
    })
}

/// Builds the condition of a result under load. The first number in a name is the rate of each writer; without one it
/// is unlimited.
fn heavy(parts: &[&str]) -> String {
    let whole = parts.join("/").to_ascii_lowercase();
    let drive = if whole.contains("nvme") || whole.contains("conv") { "conventional" } else { "zoned" };
    let words = whole.split(|c: char| !c.is_ascii_alphanumeric());
    let known = [250, 750, 1115];
    let rate = words.filter_map(|word| word.parse::<u64>().ok()).find(|rate| known.contains(rate)).unwrap_or(0);
    format!("drive={drive},rate={rate}")
}

/// Folders `long`, `long2`, `long3`: results `zns_append_<qd>[_<rate>]`, `nvme_<qd>[_<rate>]`, `<qd>`, and bandwidth
/// logs `log_[zns_]<qd>_<rate>_bw.<job>`, `finally[zns][_<qd>]_bw.<job>`. Rate 0 means no writer; without a rate it is
/// unlimited.
fn long(parts: &[&str]) -> Option<String> {
    let [.., folder, file] = parts else { return None };
    let folder_is = folder.strip_prefix("long")?;
    if !folder_is.is_empty() && folder_is.parse::<u32>().is_err() {
        return None;
    }
    let stem = file.split('.').next()?;
    let mut numbers = Vec::new();
    let mut zoned = false;
    for word in stem.split('_') {
        match word {
            "zns" | "finallyzns" => zoned = true,
            "append" | "nvme" | "log" | "finally" | "bw" | "b" => {}
            number => numbers.push(number.parse::<u64>().ok()?),
        }
    }
    let drive = if zoned { "zoned" } else { "conventional" };
    Some(match *numbers.as_slice() {
        [] => format!("drive={drive},rate=0"),
        [depth] => format!("drive={drive},rate=0,qd={depth}"),
        [depth, 0] => format!("drive={drive},rate=none,qd={depth}"),
        [depth, rate] => format!("drive={drive},rate={rate},qd={depth}"),
        _ => return None,
    })
}

/// Parses `<file system>/<benchmark>[_<run>].txt` as in the published values, and the run from 0.
fn database(parts: &[&str]) -> Option<(String, u32)> {
    let [setup, file] = parts else { return None };
    let setup = match *setup {
        "xfs" => "xfs-conventional",
        "f2fs" => "f2fs-conventional",
        "f2fs-zns" => "f2fs-zns",
        "zenfs" => "zenfs-zns",
        _ => return None,
    };
    let stem = file.strip_suffix(".txt")?;
    let numbered = stem.rsplit_once('_').and_then(|(name, run)| Some((name, run.parse::<u32>().ok()?.checked_sub(1)?)));
    let (benchmark, run) = numbered.unwrap_or((stem, 0));
    Some((format!("{setup} {}", benchmark.replace("_writelimit", "-limited")), run))
}

/// Returns the condition of a timed operation. State-machine programs name operations directly (`reset_137856`) or by
/// the file; the same operation in several runs counts as one.
pub(crate) fn operation_key(path: &str, op: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split('.').next().unwrap_or(file);
    if let Some(name) = interference(stem) {
        return name.to_string();
    }
    let named = [op, stem].into_iter().find_map(|name| {
        let (word, blocks) = name.rsplit_once('_')?;
        let blocks: u64 = blocks.parse().ok()?;
        let word = match word.trim_start_matches("partial_") {
            "reset" => "reset",
            "finish" => "finish",
            "reset_finished" | "reset_finish" | "finish_reset" | "finished_reset" => "reset-of-finished",
            _ => return None,
        };
        Some(format!("op={word},blocks={blocks}"))
    });
    named.unwrap_or_else(|| match operation_name(op) {
        Some(name) => name.to_string(),
        None => format!("{stem}: {op}"),
    })
}

/// Maps the name of a file of resets with other operations, `<who>_reset_inteference_<what>`, to its contents.
fn interference(stem: &str) -> Option<&'static str> {
    let (who, what) = stem.split_once("_reset_inteference_")?;
    Some(match (who, what) {
        ("read", "resets") => "reset with reads",
        ("write", "resets") => "reset with writes",
        ("append", "resets") => "reset with appends",
        ("read", "reads") => "randread with resets",
        ("write", "writes") => "write with resets",
        ("append", "appends") => "append with resets",
        ("write", "fill_writes") => "write alone",
        ("append", "fill_appends") => "append alone",
        _ => return None,
    })
}

/// Operations of the open and close programs, with the names in `data/zns/t06`.
fn operation_name(op: &str) -> Option<&'static str> {
    Some(match op {
        "open" | "explicit_open" | "empty_open" => "open",
        "close" => "close after explicit open",
        "close_implicit" => "close after implicit open",
        "close_write" => "write to a closed zone, opened explicitly before",
        "close_implicit_write" => "write to a closed zone, opened implicitly before",
        "write_implicit_open" | "write_implicit_opened" | "write_implicitly_opened" => "first write, opens implicitly",
        "write_implicit" => "write, opened implicitly",
        "write_explicit" => "write, opened explicitly",
        "append_implicit_open" | "append_implicit_opened" | "append_implicitly_opened" => {
            "first append, opens implicitly"
        }
        "append_implicit" => "append, opened implicitly",
        "append_explicit" => "append, opened explicitly",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifact_paths_are_parsed() {
        let of = |path: &str| {
            let PublishedFile { device, key, kind, .. } = place(path);
            (device, key, kind)
        };
        let is = |path: &str, device: &str, key: &str, kind: FileContent| {
            assert_eq!(of(path), (device.to_string(), key.to_string(), kind), "{path}");
        };
        let key = "op=append,bs=4096,qd=8,zones=1,path=direct,lbaf=4096";
        is("data/spdk/zns-a/lbaf2/append/4096bs/1zone/8.json", "zns-a", key, FileContent::Grid);
        let key = "op=write,bs=512,qd=1,zones=4,path=mq-deadline,lbaf=512";
        is("io_uring/zns-a/lbaf0/writemq/512bs/4zone/1.json", "zns-a", key, FileContent::Grid);
        let key = "op=write,bs=512,qd=1,zones=4,path=none,lbaf=512";
        is("io_uring/nvme-b/lbaf0/write/512bs/4zone/1.json", "nvme-b", key, FileContent::Grid);
        let key = "op=writerand,bs=131072,qd=1,zones=4,path=none,lbaf=lbaf3";
        is("io_uring/nvme-a/lbaf3/writerand/128Kbs/4zone/1.json", "nvme-a", key, FileContent::Named);
        let key = "drive=zoned,op=append,rate=250,qd=16";
        is("data/custom/zns-a/rate_inteference/zns_append_250_16", "zns-a", key, FileContent::Beside);
        is("custom/rate_interference/zns_append_250_16/out.json", "rate_interference", key, FileContent::Beside);
        let key = "drive=unlabelled,op=write,rate=0,qd=1";
        is("custom/zns-a/rate_inteference/0_1", "zns-a", key, FileContent::Beside);
        is("custom/zns-a/heavy/zns_0_bw.1.log", "zns-a", "drive=zoned,rate=0", FileContent::Beside);
        is("custom/zns-a/long2/zns_append_128_250.json", "zns-a", "drive=zoned,rate=250,qd=128", FileContent::Beside);
        is("custom/zns-a/long3/nvme_128_0.json", "zns-a", "drive=conventional,rate=none,qd=128", FileContent::Beside);
        is("custom/zns-a/long2/16.json", "zns-a", "drive=conventional,rate=0,qd=16", FileContent::Beside);
        is("custom/zns-a/long/finallyzns_bw.3.log", "zns-a", "drive=zoned,rate=0", FileContent::Beside);
        is(
            "custom/zns-a/long2/zns_append_1_{rate}.json",
            "zns-a",
            "file=custom/zns-a/long2/zns_append_1_{rate}",
            FileContent::Named,
        );
        let key = "xfs-conventional readwhilewriting-limited";
        is("data/zbdbench/xfs/readwhilewriting_writelimit_2.txt", "", key, FileContent::Database(1));
        is(
            "data/inteference/mixratio/50_nvme_8.json",
            "",
            "file=data/inteference/mixratio/50_nvme_8",
            FileContent::Named,
        );
        is("README.md", "", "file=README.md", FileContent::Named);
    }

    #[test]
    fn operations_are_named_directly_or_by_file() {
        assert_eq!(operation_key("partial_reset/run1", "reset_137856"), "op=reset,blocks=137856");
        assert_eq!(operation_key("run2/finish_17232.txt", "finish"), "op=finish,blocks=17232");
        assert_eq!(operation_key("x", "finish_reset_1"), "op=reset-of-finished,blocks=1");
        assert_eq!(operation_key("open_close/run1", "close"), "close after explicit open");
        assert_eq!(operation_key("x/write_reset_inteference_fill_opens", "empty_open"), "open");
        assert_eq!(
            operation_key("run2_write_implicitly_opened", "write_implicit_opened"),
            "first write, opens implicitly"
        );
        assert_eq!(operation_key("a/write_reset_inteference_resets", "reset_inteference"), "reset with writes");
        assert_eq!(operation_key("a/odd.csv", "flush"), "odd: flush");
    }
}
