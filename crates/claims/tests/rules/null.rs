//! Draws records at the bounds of each kind of rule, where most decisions are wrong: at most one in a hundred may be.

use senesce_claims::{ClaimSet, Facts, judge};
use senesce_core::{Better, Level, Measurement, Verdict};

const CLAIMS: &str = include_str!("null.claims.toml");
/// Of each claim, each noise and each side of its bound.
const RECORDS: u32 = 150;
/// Standard deviations of the logarithm of a value, between images and between reads of an image.
const NOISE: [(f64, f64); 3] = [(0.005, 0.0), (0.05, 0.01), (0.3, 0.3)];
const IMAGES: u32 = 5;

/// A generator of its own keeps the records equal on all machines.
struct Draws(u64);

impl Draws {
    /// Uniform in 0..1 (splitmix64).
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * (1.0 - self.uniform()).ln()).sqrt(), std::f64::consts::TAU * self.uniform());
        radius * angle.cos()
    }
}

struct World<'d> {
    draws: &'d mut Draws,
    noise: (f64, f64),
    repetitions: u32,
    made: Vec<Measurement>,
}

impl World<'_> {
    /// The values of one condition, whose median is `value`.
    fn put(&mut self, metric: &str, fs: &str, round: u32, value: f64) {
        for image in 0..IMAGES {
            let of_image = value * (self.noise.0 * self.draws.normal()).exp();
            for repetition in 0..self.repetitions {
                let read = of_image * (self.noise.1 * self.draws.normal()).exp();
                let one = Measurement::new(metric, "s", Better::Lower, read).unwrap();
                let one = one.under("fs", fs).under("round", round.to_string());
                self.made.push(Measurement { image, repetition, ..one });
            }
        }
    }

    /// Points whose coefficient is random: its Fisher transform is normal around that of `r`.
    fn cloud(&mut self, r: f64) {
        let count = 6u32;
        let x: Vec<f64> = (0..count).map(|point| f64::from(point) - f64::from(count - 1) / 2.0).collect();
        // Orthogonal to x and to a constant, as long as x.
        let z = [1.0, -3.0, 2.0, 2.0, -3.0, 1.0].map(|one: f64| one * (17.5f64 / 28.0).sqrt());
        for image in 0..IMAGES {
            let r = (r.atanh() + self.noise.0 * self.draws.normal()).tanh();
            for (point, (x, z)) in (0..).zip(x.iter().zip(z)) {
                let y = r * x + (1.0 - r * r).sqrt() * z;
                for (metric, value) in [("score", *x), ("cost", y)] {
                    let one = Measurement::new(metric, "s", Better::Lower, value).unwrap().under("fs", "ext4");
                    self.made.push(Measurement { image, ..one.under("round", (point * 10).to_string()) });
                }
            }
        }
    }
}

/// Median values of `cost` by file system and round with which a claim is just true (`side` > 0) or just false.
fn at_the_bound(id: &str, world: &mut World<'_>, is_true: bool) {
    let near = |bound: f64, up: bool| bound * if up == is_true { 1.0 + 1e-9 } else { 1.0 - 1e-9 };
    match id {
        "value" => {
            // The mean of a lognormal value is above its median.
            let spread = world.noise.0.powi(2) + world.noise.1.powi(2);
            world.put("cost", "ext4", 0, near(2.0, true) * (-spread / 2.0).exp());
        }
        "ratio" => {
            world.put("cost", "ext4", 100, near(2.0, true));
            world.put("cost", "ext4", 0, 1.0);
        }
        "interaction" => {
            for (fs, factor) in [("xfs", near(0.95, false)), ("ext4", 1.0)] {
                world.put("cost", fs, 100, 3.0 * factor);
                world.put("cost", fs, 0, 1.0);
            }
        }
        "order" => {
            for fs in ["ext4", "xfs"] {
                // One pair decides, the other is certain.
                world.put("cost", fs, 0, if fs == "ext4" { near(1.2, true) } else { 1e3 });
            }
            world.put("cost", "btrfs", 0, 1.0);
        }
        "rises" => {
            let top = near(1.5, true);
            (0..=4).for_each(|step| world.put("cost", "ext4", 25 * step, top.powf(f64::from(step) / 4.0)));
        }
        "level" => {
            let top = near(1.25, false);
            (0..=4).for_each(|step| world.put("cost", "ext4", 25 * step, top.powf(f64::from(step) / 4.0)));
        }
        "step" => {
            let top = near(1.5, true);
            (0..=4).for_each(|step| world.put("cost", "ext4", 25 * step, if step == 0 { 1.0 } else { top }));
        }
        "share" => {
            // The third system decides whether the share is met.
            for (fs, top) in [("ext4", 3.0), ("xfs", 3.0), ("btrfs", near(1.25, false))] {
                (0..=2).for_each(|step| world.put("cost", fs, 50 * step, top.powf(f64::from(step) / 2.0)));
            }
        }
        "any" => {
            for (fs, top) in [("ext4", 1.0), ("xfs", near(2.0, true))] {
                world.put("cost", fs, 100, top);
                world.put("cost", fs, 0, 1.0);
            }
        }
        "correlation" => world.cloud(if is_true { -0.8 - 1e-9 } else { -0.8 + 1e-9 }),
        other => panic!("no bound of {other}"),
    }
}

#[test]
fn at_most_one_record_in_a_hundred_is_decided_wrongly() {
    let set = ClaimSet::parse(CLAIMS, "metric,condition,value,unit,source,note\n").unwrap();
    let mut draws = Draws(2017);
    let (mut wrong, mut records) = (0, 0);
    for claim in &set.claims {
        let mut of_claim = (0u32, 0u32);
        for (noise, is_true) in NOISE.into_iter().flat_map(|noise| [(noise, true), (noise, false)]) {
            for record in 0..RECORDS {
                let repetitions = 1 + record % 2;
                let mut world = World { draws: &mut draws, noise, repetitions, made: Vec::new() };
                at_the_bound(&claim.id, &mut world, is_true);
                let facts = Facts { images: true, ..Facts::of(Level::Quick) };
                let found = judge(claim, &set, &world.made, &facts);
                let false_verdict = if is_true { Verdict::NotSupported } else { Verdict::Supported };
                assert_ne!(found.verdict, Verdict::NotTestable, "{}: {found:?}", claim.id);
                of_claim.0 += u32::from(found.verdict == false_verdict);
                of_claim.1 += 1;
            }
        }
        // Three standard deviations above one in a hundred, for 900 records.
        assert!(of_claim.0 <= 18, "{}: {} of {} wrong", claim.id, of_claim.0, of_claim.1);
        wrong += of_claim.0;
        records += of_claim.1;
    }
    assert!(wrong * 100 <= records, "{wrong} of {records} wrong");
    assert!(records >= 9000, "{records}");
}

#[test]
fn many_reads_of_one_image_decide_nothing() {
    let set = ClaimSet::parse(CLAIMS, "metric,condition,value,unit,source,note\n").unwrap();
    for claim in &set.claims {
        let mut draws = Draws(1);
        let mut world = World { draws: &mut draws, noise: (0.3, 0.001), repetitions: 20, made: Vec::new() };
        at_the_bound(&claim.id, &mut world, true);
        world.made.retain(|one| one.image == 0);
        let facts = Facts { images: true, ..Facts::of(Level::Quick) };
        let found = judge(claim, &set, &world.made, &facts);
        assert_eq!(found.verdict, Verdict::Undecided, "{}: {found:?}", claim.id);
    }
}

#[test]
fn parameters_that_no_scale_has_decide_nothing() {
    let set = ClaimSet::parse(CLAIMS, "metric,condition,value,unit,source,note\n").unwrap();
    let claim = set.claims.iter().find(|claim| claim.id == "ratio").unwrap();
    let mut world = World { draws: &mut Draws(1), noise: (0.001, 0.0), repetitions: 1, made: Vec::new() };
    world.put("cost", "ext4", 100, 4.0);
    world.put("cost", "ext4", 0, 1.0);
    for (changed, wanted) in [(Vec::new(), Verdict::Supported), (vec!["size".to_string()], Verdict::Undecided)] {
        let found = judge(claim, &set, &world.made, &Facts { changed, ..Facts::of(Level::Quick) });
        assert_eq!(found.verdict, wanted, "{found:?}");
    }
}
