//! The open comparisons in advice.

use senesce_study::advise::{pairs, sentences};
use serde_json::{Value, json};

fn undecided(counted: &str, needed: Value) -> Value {
    json!({"verdict": "undecided", "counted": counted, "repetitions_needed": needed})
}

#[test]
fn advice_names_the_counted_unit() {
    let result = json!({"answer": "a.", "pairs": [undecided("images", json!(8)), undecided("repetitions", json!(30))]});
    let words: Vec<Value> = pairs(&result).rows.iter().map(|row| row[7].clone()).collect();
    assert_eq!(words, ["8 images of a cell would decide", "30 repetitions of a cell would decide"]);
    let said = sentences(&result);
    assert!(said[1].contains("8 images and 30 repetitions of a cell would decide; give a larger --budget"), "{said:?}");
}
