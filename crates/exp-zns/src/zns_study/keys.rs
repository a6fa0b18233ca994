//! Where a file lies says what it holds: paths of the study's artifact become the words of its points.

use crate::zns::condition::grid_key;

/// What a file of the study is, by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StudyFile {
    /// A point of the fio grid.
    Grid(String),
    /// Reads under writes at a rate: the point's words.
    Rate(String),
    /// Heavy writes: the point's words.
    Heavy(String),
    /// Anywhere else.
    Other,
}

/// `.../<engine>/<device>/<format>/<op>/<bs>bs/<zones>zone/<qd>.json`, `.../rate_inteference/<drive>_<rate>_<qd>...` (the
/// artifact's spelling) and folders whose name holds `heavy`.
pub fn place(path: &str) -> StudyFile {
    let parts: Vec<&str> = path.split('/').collect();
    if let Some(key) = grid(&parts) {
        return StudyFile::Grid(key);
    }
    let named = |word: &str| parts.iter().position(|part| part.to_ascii_lowercase().contains(word));
    if let Some(key) = named("rate_int").and_then(|at| rate(&parts[at + 1..])) {
        return StudyFile::Rate(key);
    }
    match named("heavy") {
        Some(at) => StudyFile::Heavy(heavy(&parts[at..])),
        None => StudyFile::Other,
    }
}

fn grid(parts: &[&str]) -> Option<String> {
    let [.., engine, _device, format, op, size, zones, depth] = parts else { return None };
    let depth: u64 = depth.strip_suffix(".json")?.parse().ok()?;
    let bs: u64 = size.strip_suffix("bs")?.parse().ok()?;
    let zones: u64 = zones.strip_suffix("zone").or_else(|| zones.strip_suffix("zones"))?.parse().ok()?;
    let lbaf = match *format {
        "lbaf0" => 512,
        "lbaf2" => 4096,
        _ => return None,
    };
    let (op, scheduled) = match op.strip_suffix("mq") {
        Some(op) => (op, true),
        None => (*op, false),
    };
    let path = match (*engine, scheduled) {
        ("spdk", false) => "direct",
        (_, true) => "mq-deadline",
        (_, false) => "none",
    };
    ["write", "append", "randread", "read"].contains(&op).then(|| grid_key(op, bs, depth, zones, path, lbaf))
}

/// `zns_append_250_16`: the drive, what writes, MiB/s, depth of the reader.
fn rate(parts: &[&str]) -> Option<String> {
    parts.iter().find_map(|part| {
        let stem = part.split('.').next()?;
        let (rest, depth) = stem.rsplit_once('_')?;
        let (name, rate) = rest.rsplit_once('_')?;
        let (rate, depth): (u64, u64) = (rate.parse().ok()?, depth.parse().ok()?);
        let (drive, op) = match name {
            "zns" => ("zoned", "write"),
            "zns_append" => ("zoned", "append"),
            "nvme" => ("conventional", "write"),
            _ => return None,
        };
        Some(format!("drive={drive},op={op},rate={rate},qd={depth}"))
    })
}

/// The first number in a name is the rate of each writer; without one they are not limited.
fn heavy(parts: &[&str]) -> String {
    let whole = parts.join("/").to_ascii_lowercase();
    let drive = if whole.contains("nvme") || whole.contains("conv") { "conventional" } else { "zoned" };
    let words = whole.split(|c: char| !c.is_ascii_alphanumeric());
    let known = [250, 750, 1115];
    let rate = words.filter_map(|word| word.parse::<u64>().ok()).find(|rate| known.contains(rate)).unwrap_or(0);
    format!("drive={drive},rate={rate}")
}

/// The words of a timed operation. State-machine programs name operations by themselves (`reset_137856`) or by the file they
/// lie in; the same operation of several runs counts as one.
pub fn operation_key(path: &str, op: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split('.').next().unwrap_or(file);
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

/// Operations of the open and close programs, by the words of `data/zns/t06`.
fn operation_name(op: &str) -> Option<&'static str> {
    Some(match op {
        "open" | "explicit_open" => "open",
        "close" => "close after explicit open",
        "close_implicit" => "close after implicit open",
        "close_write" => "write to a closed zone, opened explicitly before",
        "close_implicit_write" => "write to a closed zone, opened implicitly before",
        "write_implicit_open" | "write_implicitly_opened" => "first write, opens implicitly",
        "write_implicit" => "write, opened implicitly",
        "write_explicit" => "write, opened explicitly",
        "append_implicit_open" | "append_implicitly_opened" => "first append, opens implicitly",
        "append_implicit" => "append, opened implicitly",
        "append_explicit" => "append, opened explicitly",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_artifact_are_understood() {
        let grid = |path: &str| match place(path) {
            StudyFile::Grid(key) => key,
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(
            grid("data/spdk/zns-a/lbaf2/append/4096bs/1zone/8.json"),
            "op=append,bs=4096,qd=8,zones=1,path=direct,lbaf=4096"
        );
        assert_eq!(
            grid("io_uring/zns-a/lbaf0/writemq/512bs/4zone/1.json"),
            "op=write,bs=512,qd=1,zones=4,path=mq-deadline,lbaf=512"
        );
        let rate = StudyFile::Rate("drive=zoned,op=append,rate=250,qd=16".into());
        assert_eq!(place("data/custom/zns-a/rate_inteference/zns_append_250_16"), rate);
        assert_eq!(place("custom/rate_interference/zns_append_250_16/out.json"), rate);
        assert_eq!(
            place("custom/heavy_inteference/nvme/750.json"),
            StudyFile::Heavy("drive=conventional,rate=750".into())
        );
        assert_eq!(place("custom/zns-a/heavy/zns_0_bw.1.log"), StudyFile::Heavy("drive=zoned,rate=0".into()));
        assert_eq!(place("README.md"), StudyFile::Other);
    }

    #[test]
    fn operations_are_named_by_themselves_or_by_their_file() {
        assert_eq!(operation_key("partial_reset/run1", "reset_137856"), "op=reset,blocks=137856");
        assert_eq!(operation_key("run2/finish_17232.txt", "finish"), "op=finish,blocks=17232");
        assert_eq!(operation_key("x", "finish_reset_1"), "op=reset-of-finished,blocks=1");
        assert_eq!(operation_key("open_close/run1", "close"), "close after explicit open");
        assert_eq!(operation_key("a/odd.csv", "flush"), "odd: flush");
    }
}
