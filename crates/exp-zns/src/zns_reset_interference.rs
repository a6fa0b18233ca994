//! Resets beside reads, writes and appends: who disturbs whom.

use crate::zns::compare::Comparison;
use crate::zns::measure::{Measured, Point};
use crate::zns::{ZONED, ZnsStudy, judged, ramp};
use clap::Args;
use senesce_core::{Axis, Better, Bytes, Failure, Figure, FigureKind, Finding, Level, Mark, Series, Span, Verdict};
use senesce_zoned::job::{Activity, ActorSpec, Job, Span as JobSpan, Zones};
use serde::{Deserialize, Serialize};

/// Resets beside others.
pub struct ZnsResetInterference;

/// Those who run beside the resets: name, activity, request size, zones written at once.
const OTHERS: [(&str, Activity, u64, u32); 4] = [
    ("write", Activity::Write, 4, 1),
    ("append", Activity::Append, 4, 1),
    ("randread", Activity::RandomRead, 4, 1),
    ("writes over 4 zones", Activity::Write, 128, 4),
];

fn plural(name: &str) -> String {
    if name.starts_with("writes") {
        name.into()
    } else if name == "randread" {
        "reads".into()
    } else {
        format!("{name}s")
    }
}

fn actors(name: &str, time: JobSpan) -> Option<ActorSpec> {
    let (_, op, kib, jobs) = OTHERS.into_iter().find(|(known, ..)| *known == name)?;
    let zones = if op == Activity::RandomRead { Zones::Range(0, 300) } else { Zones::Range(0, 8 * jobs) };
    Some(ActorSpec { bs: Bytes::kib(kib), zones, jobs: Some(jobs), time: Some(time), ..ActorSpec::new(op) })
}

/// Its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// zoned drive: sim:zn540, null, or a device such as /dev/ng0n1
    #[arg(long)]
    pub device: String,
    /// how long each point is measured
    #[arg(long)]
    pub time: Span,
    /// how long each point runs before counting begins
    #[arg(long)]
    pub ramp: Span,
}

impl ZnsStudy for ZnsResetInterference {
    const ID: &'static str = "zns-reset-interference";
    const TITLE: &'static str = "Zoned drive: resets beside reads, writes and appends";
    const SUMMARY: &'static str = "Full zones are reset back to back while somebody else reads, writes or appends, each on a processor of its own.";
    const PAGE: &'static str = include_str!("../../../docs/experiments/zns-reset-interference.md");
    const PUBLISHED: &'static str = include_str!("../../../data/published/zns-reset-interference.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/zns-reset-interference.claims.toml");
    type Spec = Spec;

    fn defaults(level: Level) -> Spec {
        Spec { device: ZONED.into(), time: Span::from_millis(level.of([300, 10_000, 60_000])), ramp: ramp(level) }
    }

    fn points(spec: &Spec) -> Result<Vec<Point>, Failure> {
        let time = JobSpan(spec.time.0);
        let device = &*spec.device;
        let resets = || ActorSpec {
            zones: Zones::Range(400, 800),
            occupancy: Some(1.0),
            time: Some(time),
            ..ActorSpec::new(Activity::Reset)
        };
        let job = |actors| -> Result<Job, Failure> { Ok(Job { ramp: JobSpan(spec.ramp.0), ..Job::of(actors) }) };
        let mut points = vec![Point::new("reset alone", device, job(vec![resets()])?)];
        for (name, ..) in OTHERS {
            let Some(other) = actors(name, time) else { continue };
            points.push(Point::new(format!("{name} alone"), device, job(vec![other.clone()])?));
            let both = Point::new(format!("{name} with resets"), device, job(vec![other, resets()])?);
            points.push(both.and(&format!("reset with {}", plural(name)), 1, None, ""));
        }
        Ok(points)
    }

    fn findings(measured: &Measured) -> Vec<Finding> {
        let ratio = |with: &str, alone: &str, name: &str| Some(measured.get(with, name)? / measured.get(alone, name)?);
        let halved = || {
            let share = ratio("writes over 4 zones with resets", "writes over 4 zones alone", "bw_mib")?;
            Some(((0.35..0.75).contains(&share), format!("{:.0} % of the bandwidth without resets", share * 100.0)))
        };
        let longer = || {
            let share = ratio("reset with writes over 4 zones", "reset alone", "lat_mean_us")?;
            Some(((1.1..1.7).contains(&share), format!("times {share:.2}")))
        };
        let unmoved = || {
            let shares = ["write", "append", "randread"]
                .map(|name| ratio(&format!("{name} with resets"), &format!("{name} alone"), "lat_p95_us"));
            let [write, append, read] = shares;
            let (write, append, read) = (write?, append?, read?);
            let words = format!("times {write:.2}, {append:.2} and {read:.2} for writes, appends and reads");
            Some(([write, append, read].iter().all(|share| (0.8..1.2).contains(share)), words))
        };
        let mut findings = vec![
            judged("Back-to-back resets roughly halve the bandwidth of several writers", "about 50 %", halved()),
            judged("Resets take about a third longer under saturating writes", "times 1.33", longer()),
            judged(
                "The 95th percentile of reads, writes and appends hardly moves",
                "times 1.01, 0.99 and 1.00",
                unmoved(),
            ),
        ];
        findings.push(host_artefact(measured));
        findings
    }

    fn figures(measured: &Measured, _comparison: &[Comparison]) -> Vec<Figure> {
        let mark = if measured.simulated { Mark::Modelled } else { Mark::Measured };
        let mut names = vec!["alone".to_string()];
        names.extend(OTHERS.iter().map(|(name, ..)| format!("with {}", plural(name))));
        let series = |metric: &'static str, legend: &str| {
            let points = names.iter().enumerate();
            let points = points
                .filter_map(|(x, name)| Some((x as f64, measured.get(&format!("reset {name}"), metric)? / 1000.0)));
            Series::new(legend, mark, points.collect())
        };
        let all = vec![series("lat_mean_us", "mean"), series("lat_p95_us", "95th percentile")];
        vec![Figure {
            id: "resets".into(),
            title: "Resets of full zones beside others".into(),
            caption: "Latency of a reset, alone and beside one other activity.".into(),
            device: measured.device.clone(),
            better: Better::Lower,
            kind: FigureKind::Bars {
                x: Axis::categories("beside", names.clone()),
                y: Axis::linear("latency (ms)").from_zero(),
                series: all,
            },
        }]
    }
}

/// The study's own claim rests on two polling threads that shared a core; with a core each it must not come out.
fn host_artefact(measured: &Measured) -> Finding {
    let claim = "Resets get a 56, 78 and 75 % longer 95th percentile beside reads, writes and appends";
    let ratio = |name: &str| {
        let alone = measured.get("reset alone", "lat_p95_us")?;
        Some(measured.get(&format!("reset with {name}"), "lat_p95_us")? / alone)
    };
    let ratios: Option<Vec<f64>> = ["reads", "writes", "appends"].into_iter().map(ratio).collect();
    let mut finding = judged(
        claim,
        "28.0, 32.0 and 31.5 ms against 17.9 ms",
        ratios.map(|all| {
            (all.iter().all(|share| *share > 1.5), format!("times {:.2}, {:.2} and {:.2}", all[0], all[1], all[2]))
        }),
    );
    if finding.verdict == Verdict::NotSeen {
        finding.note =
            "the published latencies are multiples of the host's 4 ms tick: both polling threads shared one core \
                        there, here each actor has its own"
                .into();
    }
    finding
}
