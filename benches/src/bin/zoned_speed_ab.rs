//! Speed of two builds of the simulator against each other, in turns:
//! `cargo run --release -p senesce-benches --bin zoned_speed_ab -- OLD NEW [ROUNDS]`, where OLD and NEW are the program
//! `zoned_simulation` of two commits. Each round runs OLD, NEW and OLD again; the two OLD give the A/A column.

use std::collections::BTreeMap;
use std::process::Command;

/// Million commands per processor second by job, from the table that the program prints.
fn rates(program: &str) -> BTreeMap<String, f64> {
    let output = Command::new(program).output().expect("the program can be run");
    let text = String::from_utf8(output.stdout).expect("the program prints text");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        // Name, commands, drive time, processor time, "best, median" between bars.
        let [_, name, _, _, _, rates, _] = cells.as_slice() else { return None };
        Some(((*name).to_string(), rates.split(',').next()?.trim().parse::<f64>().ok()?))
    };
    text.lines().filter_map(row).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [old, new, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: zoned_speed_ab OLD NEW [ROUNDS]");
        std::process::exit(2);
    };
    let rounds: usize = rest.first().and_then(|word| word.parse().ok()).unwrap_or(5);
    let mut found: BTreeMap<String, Vec<[f64; 3]>> = BTreeMap::new();
    for _ in 0..rounds.max(1) {
        let (first, second, third) = (rates(old), rates(new), rates(old));
        for (name, rate) in &first {
            if let (Some(new), Some(again)) = (second.get(name), third.get(name)) {
                found.entry(name.clone()).or_default().push([*rate, *new, *again]);
            }
        }
    }
    println!(
        "| job | old | new (million commands per CPU second) | new over old: median, least, greatest | A/A: median, least, greatest |"
    );
    println!("|-|-|-|-|-|");
    for (name, rounds) in &found {
        let of = |pick: fn(&[f64; 3]) -> f64| -> Vec<f64> { rounds.iter().map(pick).collect() };
        let text = |ratios: Vec<f64>| {
            let (least, greatest) = ratios.iter().fold((f64::MAX, 0.0f64), |(a, b), x| (a.min(*x), b.max(*x)));
            format!("{:.2}, {least:.2}, {greatest:.2}", median(ratios))
        };
        let ratio = of(|[old, new, again]| new / ((old + again) / 2.0));
        let same = of(|[old, _, again]| again / old);
        let (old, new) = (median(of(|one| (one[0] + one[2]) / 2.0)), median(of(|one| one[1])));
        println!("| {name} | {old:.2} | {new:.2} | {} | {} |", text(ratio), text(same));
    }
}
