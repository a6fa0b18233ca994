//! Checks whether a fit recovers the constants of a simulated drive: `cargo run --release -p senesce-zoned --example
//! fit_recovery -- [--alter N] [--seed N] [--only WORD] [--all] [--commands N] [--seconds N] [--rounds N]`. The drive
//! is `sim:zn540` with every fitted constant changed by a random factor of up to a quarter; `--alter` seeds the factors
//! (0: unchanged). `--only` selects blocks whose name contains WORD. `--all` lists all constants.

use senesce_core::Seed;
use senesce_zoned::fit::design::{Effort, design};
use senesce_zoned::fit::recovery::{altered, recover};
use senesce_zoned::sim::model::Model;
use senesce_zoned::survey::Survey;
use std::collections::BTreeSet;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |word: &str| arguments.iter().position(|a| a == word).and_then(|index| arguments.get(index + 1));
    let number = |word: &str, usual: u64| after(word).map_or(Ok(usual), |text| text.parse());
    let (alter, seed) = (number("--alter", 0)?, Seed(number("--seed", 42)?));
    let start = Model::load("zn540")?;
    let blocks = design(&Survey::of(&"sim:zn540".parse()?)?, Effort::usual(true))?.blocks;
    let names: Vec<String> = blocks.into_iter().flat_map(|block| block.constants).collect();
    let drive = if alter == 0 { start.clone() } else { altered(&start, &names, Seed(alter))? };
    if let Some(file) = after("--model") {
        std::fs::write(file, drive.to_toml()?)?;
        return Ok(());
    }
    let usual = Effort::usual(true);
    let effort = Effort {
        commands: number("--commands", usual.commands)?,
        seconds: after("--seconds").map_or(Ok(usual.seconds), |text| text.parse())?,
        rounds: number("--rounds", usual.rounds.into())? as u32,
    };
    let all = arguments.iter().any(|word| word == "--all");
    let recovered = recover(&drive, &start, effort, seed, after("--only").map_or("", String::as_str))?;
    let (mut determined, mut within, mut wrong, mut beyond) = (0, 0, 0, 0);
    for one in &recovered {
        let (error, is_determined) = (one.error(), one.found.is_determined());
        let deviation = one.found.deviation.unwrap_or(f64::NAN);
        let is_beyond = is_determined && error.abs() > 3.0 * deviation;
        determined += usize::from(is_determined);
        within += usize::from(is_determined && error.abs() <= 0.02);
        wrong += usize::from(one.is_wrong());
        beyond += usize::from(is_beyond);
        if all || one.is_wrong() || !is_determined || is_beyond || deviation > 0.02 {
            println!(
                "{:44} {:28.28} {:10.3} {:10.3} {:7.2} % +- {:6.3} %{}{}{}",
                one.found.key,
                one.block,
                one.truth,
                one.found.value,
                error * 100.0,
                deviation * 100.0,
                if is_determined { "" } else { " not determined" },
                if one.is_wrong() { " WRONG" } else { "" },
                if is_beyond { " >3" } else { "" },
            );
        }
    }
    let unsettled: BTreeSet<&str> = recovered.iter().filter(|one| !one.settled).map(|one| one.block.as_str()).collect();
    if !unsettled.is_empty() {
        println!("did not settle: {}", unsettled.into_iter().collect::<Vec<_>>().join("; "));
    }
    println!(
        "{} constants, {determined} determined, {within} of them within 2 %, {wrong} wrong, {beyond} beyond 3 deviations",
        recovered.len()
    );
    Ok(())
}
