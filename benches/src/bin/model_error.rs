//! Prints the error of a model on every measured operating point: `cargo run --release -p senesce-benches
//! --bin model_error -- [MODEL] [--detail WORD]`. Fitted and held-out points are listed separately. `--detail` lists the
//! points whose group or key contains WORD.

use senesce_core::Seed;
use senesce_zoned::fit::error::{Compared, Summary, compare};
use senesce_zoned::fit::points::{Metric, Point, Points};
use senesce_zoned::job::Activity;
use senesce_zoned::sim::model::Model;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

fn points(folder: &str) -> Result<Vec<Point>, Box<dyn std::error::Error>> {
    let mut points = Points::default();
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}.csv"));
    for name in ["t01_qd1_write_append", "t02_intra_zone_lbaf2", "t03_inter_zone_lbaf2_qd1", "t12_measured_points"] {
        points.single(name, &read(name)?)?;
    }
    points.reads_with_writes("t07", &read("t07_rate_interference_3min")?)?;
    points.concurrent_commands("t13", &read("t13_command_interference")?)?;
    Ok(points.into_vec())
}

fn run_all(model: &Model, points: &[Point]) -> Vec<Vec<Compared>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(point) = points.get(index) else { return done };
            match compare(model, point, Seed(42)) {
                Ok(compared) => done.push((index, compared)),
                Err(error) => eprintln!("{}: {error}", point.key),
            }
        }
    };
    let mut all = vec![Vec::new(); points.len()];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for (index, compared) in workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()) {
            all[index] = compared;
        }
    });
    all
}

/// The groups of a point in the table.
fn groups_of(point: &Point, value: &Compared) -> Vec<String> {
    let actor = &point.job.actors[value.actor];
    if point.job.actors.len() > 1 {
        let few = ["first=1,", "first=2,"].iter().any(|words| point.key.contains(words));
        let kind = match (point.group.contains("reads next to"), few) {
            (true, _) => "reads next to writes, all",
            // With one or two, the host was the bottleneck, not the drive.
            (_, true) => "concurrent commands, 1 or 2 of the first",
            _ => "concurrent commands, more of the first",
        };
        return vec![kind.into(), format!("{}, {}", point.group, actor.op.name())];
    }
    if actor.op == Activity::SequentialRead {
        let which = match (actor.zones.count(), actor.qd) {
            (1, ..=64) => "one zone, depth to 64",
            (1, _) => "one zone, deeper",
            _ => "several zones",
        };
        return vec![format!("sequential reads, {which}")];
    }
    if point.job.lbaf == Some(512) || point.key.contains("lbaf=") {
        return vec![format!("{} B format, all", point.job.lbaf.unwrap_or(4096)), point.group.clone()];
    }
    vec![point.group.clone()]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let detail = arguments.iter().position(|word| word == "--detail").map(|index| arguments[index + 1].clone());
    let only = arguments.iter().position(|word| word == "--only").map(|index| arguments[index + 1].clone());
    let model = Model::load(arguments.first().filter(|word| !word.starts_with("--")).map_or("zn540", |word| word))?;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/zns");
    let mut points = points(folder)?;
    let holds = |point: &Point, word: &str| point.key.contains(word) || point.group.contains(word);
    points.retain(|point| only.iter().chain(&detail).all(|word| word.split('+').all(|word| holds(point, word))));
    let all = run_all(&model, &points);
    let mut groups: BTreeMap<(String, bool), Vec<f64>> = BTreeMap::new();
    for (point, compared) in points.iter().zip(&all) {
        for value in compared {
            let what = match value.metric {
                Metric::Iops => "commands per second",
                Metric::Mean => "mean latency",
                Metric::P95 => "p95 latency",
            };
            let part = if value.is_marked { "all values, marked" } else { "all values, not marked" };
            for group in groups_of(point, value).into_iter().chain([part.into()]) {
                groups.entry((format!("{group}: {what}"), point.held_out())).or_default().push(value.error());
            }
            if detail.is_some() {
                println!(
                    "{} {:<75} {} {what:<20} measured {:>10.1} modelled {:>10.1} {:>+7.1} %",
                    if point.held_out() { "held " } else { "given" },
                    point.key,
                    point.job.actors[value.actor].op.name(),
                    value.measured,
                    value.modelled,
                    value.error() * 100.0
                );
            }
        }
    }
    println!("| {:<60} | points | given: median, p90, worst % | held out: points, median, p90, worst % |", "group");
    let names: std::collections::BTreeSet<&String> = groups.keys().map(|(name, _)| name).collect();
    for name in names {
        let words = |held: bool| match groups
            .get(&(name.clone(), held))
            .and_then(|errors| Summary::of(errors.iter().copied()))
        {
            Some(s) => {
                format!("{:>4} | {:>6.2} {:>6.1} {:>6.1}", s.count, s.median * 100.0, s.p90 * 100.0, s.worst * 100.0)
            }
            None => "   0 |      -      -      -".into(),
        };
        println!("| {name:<60} | {} | {} |", words(false), words(true));
    }
    Ok(())
}
