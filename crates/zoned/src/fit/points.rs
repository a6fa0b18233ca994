//! Operating points: measured values with their condition. A point that several tables contain counts once.

use super::measured_table::{MeasuredTable, Row};
use crate::error::ZonedError;
use crate::job::{Activity, ActorSpec, Job, Rate, Span, Zones};
use crate::sim::HostPath;
use senesce_core::Bytes;
use std::collections::BTreeMap;

/// Joins two concurrent operations in the key of a point. Keys seed the simulation, so this word stays.
pub const CONCURRENT: &str = " beside ";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    Iops,
    Mean,
    P95,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    pub actor: usize,
    pub metric: Metric,
    /// In the metric's unit, above 0.
    pub value: f64,
}

#[derive(Debug, Clone)]
pub struct Point {
    /// Identifies the point: all its settings.
    pub key: String,
    pub group: String,
    /// The job, without ramp and time.
    pub job: Job,
    pub values: Vec<Value>,
}

pub(crate) const HELD_OUT_ONE_OF: u64 = 3;

impl Point {
    /// Returns whether the point must not be used for fitting, decided by a hash (FNV-1a, 64 bits) of its key.
    pub fn held_out(&self) -> bool {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = self.key.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        // The low bits of the product depend only on the low bits of the text.
        (hash >> 32).is_multiple_of(HELD_OUT_ONE_OF)
    }
}

#[derive(Debug, Default)]
pub struct Points {
    points: BTreeMap<String, Point>,
    /// Rows that were left out, by reason.
    pub left_out: BTreeMap<String, Vec<String>>,
}

impl Points {
    pub fn into_vec(self) -> Vec<Point> {
        self.points.into_values().collect()
    }

    fn leave_out(&mut self, why: &str, row: &Row<'_>) {
        self.left_out.entry(why.into()).or_default().push(row.place());
    }

    fn add(&mut self, row: &Row<'_>, point: Point) {
        let new = || Point { values: Vec::new(), ..point.clone() };
        let entry = self.points.entry(point.key.clone()).or_insert_with(new);
        let mut contradicts = false;
        for value in &point.values {
            let same = |known: &&Value| known.actor == value.actor && known.metric == value.metric;
            match entry.values.iter().find(same) {
                Some(known) => contradicts |= known != value,
                None => entry.values.push(*value),
            }
        }
        if contradicts {
            self.leave_out("an earlier row has the same condition with another value", row);
        }
    }

    /// Adds a table of single actors with the columns `lbaf` or `lba_format`, `engine`, `sched` or `scheduler`, `op`,
    /// `bs` or `block_bytes`, `zones`, `qd` or `depth_per_zone`, `iops`, `p95_us` or `p95_latency_us`. Rows of more
    /// than 8 zones are left out, because their host had too few processors.
    pub fn single(&mut self, name: &str, text: &str) -> Result<(), ZonedError> {
        let pairs = [("lbaf", "lba_format"), ("sched", "scheduler"), ("bs", "block_bytes"), ("qd", "depth_per_zone")];
        let table = MeasuredTable::parse(name, text, &["engine", "op", "zones", "iops"])?.with_either(&pairs)?;
        for row in table.rows() {
            self.single_row(&row)?;
        }
        Ok(())
    }

    fn single_row(&mut self, row: &Row<'_>) -> Result<(), ZonedError> {
        let either = |one: &'static str, other: &'static str| if row.text(one).is_empty() { other } else { one };
        let format = either("lbaf", "lba_format");
        let lbaf = match row.text(format) {
            "lbaf0" => 512,
            "lbaf2" => 4096,
            _ => return Err(row.wrong(format, "lbaf0 or lbaf2")),
        };
        let scheduler = either("sched", "scheduler");
        let path = match (row.text("engine"), row.text(scheduler)) {
            ("spdk", _) => HostPath::Direct,
            ("io_uring", "none") => HostPath::None,
            ("io_uring", "mq-deadline") => HostPath::MqDeadline,
            _ => return Err(row.wrong(scheduler, "none or mq-deadline, of engine io_uring or spdk")),
        };
        let op = match row.text("op") {
            "read" => Activity::SequentialRead,
            word => word.parse().map_err(|_| row.wrong("op", "an operation"))?,
        };
        let (bs, depth) = (row.whole(either("bs", "block_bytes"))?, row.whole(either("qd", "depth_per_zone"))?);
        let zones = row.whole("zones")?;
        if zones > 8 {
            self.leave_out("for more than 8 zones the host had too few processors", row);
            return Ok(());
        }
        let iops = row.needed("iops")?;
        let mut values = vec![Value { actor: 0, metric: Metric::Iops, value: iops }];
        // Little's law: rate times latency is the number in flight. A row that contradicts it is not a valid
        // measurement.
        let mean = either("lat_mean_us", "mean_latency_us");
        let most = f64::from(zones) * f64::from(depth);
        if let Some(mean_us) = row.latency(mean)?
            && iops * mean_us * 1e-6 > most * MOST_IN_FLIGHT
        {
            let in_flight = iops * mean_us * 1e-6;
            return Err(row.wrong(
                mean,
                &format!("a possible value: {iops}/s of it are {in_flight:.1} in flight, of {most} at most"),
            ));
        }
        // Percentiles of io_uring were taken with another clock.
        if let (Some(value), HostPath::Direct) = (row.latency(either("p95_us", "p95_latency_us"))?, path) {
            values.push(Value { actor: 0, metric: Metric::P95, value });
        }
        let actor = ActorSpec { bs: Bytes(bs.into()), qd: depth, zones: Zones::Count(zones), ..ActorSpec::new(op) };
        let point = Point {
            key: format!("op={},bs={bs},qd={depth},zones={zones},path={},lbaf={lbaf}", op.name(), path.name()),
            group: format!("{} {lbaf} B{}", op.name(), if path == HostPath::MqDeadline { ", mq-deadline" } else { "" }),
            job: Job { lbaf: Some(lbaf), path, ..Job::of(vec![actor]) },
            values,
        };
        self.add(row, point);
        Ok(())
    }

    /// Adds a table of random reads next to a rate-limited writer: `dev`, `rate_mib`, `read_qd`, `r_lat_mean_us`,
    /// `r_p95_us`.
    pub fn reads_with_writes(&mut self, name: &str, text: &str) -> Result<(), ZonedError> {
        let needed = ["dev", "rate_mib", "read_qd", "r_lat_mean_us", "r_p95_us"];
        let table = MeasuredTable::parse(name, text, &needed)?;
        for row in table.rows() {
            let op = match row.text("dev") {
                "zns" => Activity::Write,
                "zns_append" => Activity::Append,
                _ => {
                    self.leave_out("dev is neither zns nor zns_append", &row);
                    continue;
                }
            };
            let depth = row.whole("read_qd")?;
            let rate = row.text("rate_mib").parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
            let Some(rate) = rate else {
                self.leave_out("rate_mib is not a number above 0", &row);
                continue;
            };
            let jobs = Some(1);
            let reader =
                ActorSpec { qd: depth, zones: Zones::Range(400, 800), jobs, ..ActorSpec::new(Activity::RandomRead) };
            let (bs, rate_of) = (Bytes::kib(128), Some(Rate(Bytes((rate * f64::from(1 << 20)).ceil() as u64))));
            let writer = ActorSpec { bs, zones: Zones::Range(0, 400), jobs, rate: rate_of, ..ActorSpec::new(op) };
            let value = |metric, column| row.needed(column).map(|value| Value { actor: 0, metric, value });
            let point = Point {
                key: format!("randread,bs=4096,qd={depth}{CONCURRENT}{},bs=131072,rate={rate}MiB/s", op.name()),
                group: format!("reads next to {}s", op.name()),
                job: Job { lbaf: Some(4096), ..Job::of(vec![reader, writer]) },
                values: vec![value(Metric::Mean, "r_lat_mean_us")?, value(Metric::P95, "r_p95_us")?],
            };
            self.add(&row, point);
        }
        Ok(())
    }

    /// Adds a table of concurrent zone commands: each point is the rows with equal `experiment`,
    /// `jobs_or_depth_of_first` and `second_limited_to_percent_of_its_own_rate`.
    pub fn concurrent_commands(&mut self, name: &str, text: &str) -> Result<(), ZonedError> {
        let (first, second) = ("jobs_or_depth_of_first", "second_limited_to_percent_of_its_own_rate");
        let needed = ["experiment", first, second, "actor", "block_bytes", "depth", "jobs", "per_second"];
        let table = MeasuredTable::parse(name, text, &needed)?;
        let mut points: BTreeMap<String, Vec<Row<'_>>> = BTreeMap::new();
        for row in table.rows() {
            let key = format!("{},first={},second={}%", row.text("experiment"), row.text(first), row.text(second));
            points.entry(key).or_default().push(row);
        }
        let own_rate: BTreeMap<(&str, &str), f64> = table
            .rows()
            .filter(|row| row.text(second) == "alone")
            .map(|row| Ok(((row.text("experiment"), row.text("actor")), row.needed("per_second")?)))
            .collect::<Result<_, ZonedError>>()?;
        for (key, rows) in points {
            if rows.iter().any(|row| row.text(first) == "14") {
                self.leave_out("14 actors of the first kind need more processors than the host had", &rows[0]);
                continue;
            }
            let (mut actors, mut values) = (Vec::new(), Vec::new());
            for row in &rows {
                // Only the command named first in the experiment is limited, and never a finish.
                let share = row.text(second).parse::<f64>().ok().filter(|share| *share > 0.0);
                let limited = row.text("experiment").starts_with(&format!("{}-on-", row.text("actor")));
                let own = own_rate.get(&(row.text("experiment"), row.text("actor")));
                let rate = match (share, own) {
                    (Some(share), Some(own)) if limited => Some(own * share / 100.0),
                    (Some(_), None) if limited => row.positive("per_second")?,
                    _ => None,
                };
                values.extend(concurrent_values(row, actors.len())?);
                actors.push(concurrent_actor(row, rate)?);
            }
            let group = rows[0].text("experiment").replace("-interference", "");
            let job = Job { lbaf: Some(4096), path: HostPath::Passthrough, ..Job::of(actors) };
            self.add(&rows[0], Point { key, group, job, values });
        }
        Ok(())
    }
}

const CAPACITY: u64 = 1077 << 20;
/// Tolerance: means and rates of a run cover slightly different times.
const MOST_IN_FLIGHT: f64 = 1.05;

fn concurrent_values(row: &Row<'_>, actor: usize) -> Result<Vec<Value>, ZonedError> {
    let columns = [(Metric::Iops, "per_second"), (Metric::Mean, "mean_latency_us"), (Metric::P95, "p95_latency_us")];
    let mut values = Vec::new();
    for (metric, column) in columns {
        values.extend(row.positive(column)?.map(|value| Value { actor, metric, value }));
    }
    Ok(values)
}

/// Returns an actor, optionally limited to `per_second` commands.
fn concurrent_actor(row: &Row<'_>, per_second: Option<f64>) -> Result<ActorSpec, ZonedError> {
    let op: Activity = row.text("actor").parse().map_err(|_| row.wrong("actor", "an operation"))?;
    let mut actor = ActorSpec::new(op);
    let rate = |bytes: f64| per_second.map(|per_second| Rate(Bytes((per_second * bytes) as u64)));
    if op.manages() {
        actor.zones = Zones::Count(200);
        actor.jobs = Some(1);
        // One block is written before a finish, the full capacity before a reset.
        actor.occupancy = Some(if op == Activity::Finish { 4e-6 } else { 1.0 });
        actor.rate = rate(CAPACITY as f64);
        return Ok(actor);
    }
    let jobs = row.whole("jobs")?;
    actor.bs = Bytes(row.whole("block_bytes")?.into());
    // In flight by rate times latency; the rings of that host hold a power of two.
    actor.qd = row.whole("depth")?.next_power_of_two();
    actor.zones = Zones::Count(jobs);
    actor.rate = rate(actor.bs.0 as f64 / f64::from(jobs));
    Ok(actor)
}

/// Returns (ramp, time) in virtual time until the numbers are stable.
pub(crate) fn duration(job: &Job) -> (Span, Span) {
    let has = |op| job.actors.iter().any(|actor| actor.op == op);
    let seconds = match job.actors.len() {
        _ if has(Activity::Finish) => 20.0,
        // Six periods of a rate-limited actor.
        _ if has(Activity::Reset) => {
            let resets = job.actors.iter().filter(|actor| actor.op == Activity::Reset);
            let periods = resets.filter_map(|actor| Some(6.0 * CAPACITY as f64 / actor.rate?.0.0 as f64));
            periods.fold(4.0, f64::max)
        }
        1 if has(Activity::RandomRead) => 0.3 * (16.0 / f64::from(job.actors[0].qd)).clamp(0.5, 4.0),
        1 if has(Activity::SequentialRead) => 0.4,
        // The time in which the flash fills all zones: whole rounds contain their share of resets.
        1 => 0.94 * f64::from(job.actors[0].zones.count().max(4)),
        _ if has(Activity::RandomRead) => 2.0,
        _ => 1.0,
    };
    (Span::seconds(0.1), Span::seconds(seconds))
}
