//! How often the gate fails when both sides are equal: draws gates from the agings of one with many seeds, whose sides differ by
//! nothing that should matter. Usage: `null_gates GATES RUNDIR...`

use senesce_core::{Record, Seed};
use senesce_gate::{Variant, redraw};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let gates: u32 = arguments.next().ok_or("usage: null_gates GATES RUNDIR...")?.parse()?;
    println!("| record | variant | gates | worse | no verdict | extended to 8 pairs |\n|-|-|-|-|-|-|");
    for path in arguments {
        let record = Record::open(path.as_ref()).map_err(|problem| problem.to_string())?;
        for (variant, name) in [(Variant::Own, "its own"), (Variant::OtherSeeds, "other seeds")] {
            let drawn = match redraw(&record, variant, gates, Seed(1)) {
                Ok(drawn) => drawn,
                Err(failure) => {
                    println!("| {path} | {name} | - | {failure} | | |");
                    continue;
                }
            };
            println!(
                "| {path} | {name} | {} | {} | {} | {} |",
                drawn.gates, drawn.worse, drawn.no_verdict, drawn.extended
            );
        }
    }
    Ok(())
}
