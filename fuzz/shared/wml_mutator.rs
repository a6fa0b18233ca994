//! Changes a workload by its words, not its bytes, so that most of what comes out is read as a workload again.

/// A small generator: xorshift64 (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }
}

const NUMBERS: &[&str] = &["0", "1", "2", "7", "100", "4096", "64k", "1m", "4294967295", "18446744073709551615", "1e3"];

pub fn mutate(text: &str, seed: u32) -> String {
    let mut random = Random(u64::from(seed) << 20 | 0x9e37_79b9);
    let mut words = split(text);
    for _ in 0..1 + random.below(3) {
        match random.below(8) {
            0 => repeat_line(&mut words, &mut random),
            1 => remove_attribute(&mut words, &mut random),
            2 => exchange_values(&mut words, &mut random),
            _ => change_number(&mut words, &mut random),
        }
    }
    words.concat()
}

fn is_part(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '.' | '-' | '$' | '/')
}

/// Words, blanks, quoted texts and single signs: together the text again.
fn split(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut quoted = false;
    for character in text.chars() {
        let joins = words
            .last()
            .and_then(|word| word.chars().next_back())
            .is_some_and(|last| quoted || is_part(last) && is_part(character) || last == ' ' && character == ' ');
        match words.last_mut() {
            Some(word) if joins => word.push(character),
            _ => words.push(character.to_string()),
        }
        quoted ^= character == '"';
    }
    words
}

fn places(words: &[String], is_it: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..words.len()).filter(|at| is_it(*at)).collect()
}

/// The word behind `=`.
fn values(words: &[String]) -> Vec<usize> {
    places(words, |at| at > 0 && words[at - 1] == "=")
}

fn change_number(words: &mut [String], random: &mut Random) {
    let numbers = places(words, |at| words[at].starts_with(|first: char| first.is_ascii_digit()));
    let Some(at) = numbers.get(random.below(numbers.len())).copied() else { return };
    words[at] = match random.below(3) {
        0 => format!("{}0", words[at].trim_end_matches(char::is_alphabetic)),
        1 => words[numbers[random.below(numbers.len())]].clone(),
        _ => NUMBERS[random.below(NUMBERS.len())].to_string(),
    };
}

fn exchange_values(words: &mut [String], random: &mut Random) {
    let values = values(words);
    let (first, second) = (random.below(values.len()), random.below(values.len()));
    if let (Some(first), Some(second)) = (values.get(first), values.get(second)) {
        words.swap(*first, *second);
    }
}

/// `,name=value` goes.
fn remove_attribute(words: &mut Vec<String>, random: &mut Random) {
    let commas = places(words, |at| words[at] == ",");
    let Some(start) = commas.get(random.below(commas.len())).copied() else { return };
    let is_end = |word: &String| matches!(word.as_str(), "," | "\n" | "{" | "}");
    let end = words[start + 1..].iter().position(is_end).map_or(words.len(), |length| start + 1 + length);
    words.drain(start..end);
}

fn repeat_line(words: &mut Vec<String>, random: &mut Random) {
    let ends = places(words, |at| words[at] == "\n");
    let number = random.below(ends.len());
    let Some(end) = ends.get(number).copied() else { return };
    let start = if number == 0 { 0 } else { ends[number - 1] + 1 };
    let line = words[start..=end].to_vec();
    words.splice(start..start, line);
}
