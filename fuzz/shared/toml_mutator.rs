//! Changes a TOML text by its values, not its bytes, so that most of what comes out is TOML again.

use toml::{Table, Value};

/// A small generator: xorshift64 (Marsaglia, 2003).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u32) -> Self {
        Self(u64::from(seed) << 20 | 0x9e37_79b9)
    }

    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = self.below(from.len());
        from.get(at)
    }
}

const WORDS: &[&str] = &[
    "",
    "0",
    "-1",
    "1e400",
    "1G",
    "18446744073709551615",
    "99999999999999999999T",
    "1ns",
    "..",
    "/",
    "/dev/null",
    "a/b",
    "\u{1b}[31m",
    "<b>",
    "%s",
    "auto",
    "none",
    "ext4",
    "agrawal",
    "seq",
    "write",
];

/// A changed text. `None`: it was no TOML.
pub fn mutate(text: &str, seed: u32) -> Option<String> {
    let mut table: Table = text.parse().ok()?;
    let mut random = Random::new(seed);
    let mut strings = Vec::new();
    table.values().for_each(|value| collect(value, &mut strings));
    for _ in 0..1 + random.below(3) {
        change_table(&mut table, &strings, &mut random);
    }
    toml::to_string(&table).ok()
}

/// The words of the text itself: a name in the place of another is what a parser meets.
fn collect(value: &Value, strings: &mut Vec<String>) {
    match value {
        Value::String(text) => strings.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|one| collect(one, strings)),
        Value::Table(table) => table.values().for_each(|one| collect(one, strings)),
        _ => {}
    }
}

fn change_table(table: &mut Table, strings: &[String], random: &mut Random) {
    let keys: Vec<String> = table.keys().cloned().collect();
    let (Some(key), Some(other)) = (random.pick(&keys).cloned(), random.pick(&keys).cloned()) else { return };
    match random.below(12) {
        0 => drop(table.remove(&key)),
        1 => {
            if let Some(value) = table.get(&other).cloned() {
                table.insert(key, value);
            }
        }
        _ => table.get_mut(&key).into_iter().for_each(|value| change(value, strings, random)),
    }
}

fn change(value: &mut Value, strings: &[String], random: &mut Random) {
    match value {
        Value::Table(table) => change_table(table, strings, random),
        Value::Array(all) => change_array(all, strings, random),
        Value::Boolean(truth) => *truth = !*truth,
        Value::Integer(number) => *number = integer(*number, random),
        Value::Float(number) => *number = float(*number, random),
        Value::String(text) => *text = string(text, strings, random),
        Value::Datetime(_) => *value = Value::Integer(0),
    }
}

fn change_array(all: &mut Vec<Value>, strings: &[String], random: &mut Random) {
    let at = random.below(all.len());
    match random.below(5) {
        _ if all.is_empty() => {}
        0 => drop(all.remove(at)),
        1 => all.push(all[at].clone()),
        2 => {
            let other = random.below(all.len());
            all.swap(at, other);
        }
        _ => change(&mut all[at], strings, random),
    }
}

fn integer(number: i64, random: &mut Random) -> i64 {
    let step = 1i64 << random.below(63);
    match random.below(8) {
        0 => 0,
        1 => number.wrapping_neg(),
        2 => i64::MAX,
        3 => number.wrapping_add(step),
        4 => number ^ step,
        5 => number / 2,
        6 => number.wrapping_mul(2),
        _ => number.wrapping_add(1),
    }
}

fn float(number: f64, random: &mut Random) -> f64 {
    match random.below(9) {
        0 => 0.0,
        1 => -number,
        2 => f64::MAX,
        3 => f64::MIN_POSITIVE,
        4 => f64::NAN,
        5 => f64::INFINITY,
        6 => number * 1e9,
        7 => number / 1e9,
        _ => number * 1.01,
    }
}

fn string(text: &str, strings: &[String], random: &mut Random) -> String {
    match random.below(5) {
        0 => random.pick(WORDS).copied().unwrap_or_default().to_string(),
        1 => text.repeat(2),
        2 => text.chars().take(random.below(text.chars().count())).collect(),
        3 => number_in(text, random),
        _ => random.pick(strings).cloned().unwrap_or_default(),
    }
}

/// The number in "512M" or "lz77-3", changed.
fn number_in(text: &str, random: &mut Random) -> String {
    let Some(start) = text.find(|character: char| character.is_ascii_digit()) else { return text.to_uppercase() };
    let length = text[start..].find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len() - start);
    let number = text[start..start + length].parse().unwrap_or(1);
    format!("{}{}{}", &text[..start], integer(number, random), &text[start + length..])
}
