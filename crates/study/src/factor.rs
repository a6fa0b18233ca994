//! `[[factor]]`: one parameter as an axis. Expanded before the study is read: a study with a factor becomes one with an
//! entry for each value.

use senesce_core::parameter::suggest;
use toml::{Table, Value};

/// Parts of a study that a factor may vary. Values of `cell` keys become file systems of their own, so that they are
/// compared as pairs.
const AXES: [&str; 4] = ["file_system", "state", "workload", "cell"];

/// Limit of entries of one axis.
const MOST_ENTRIES: usize = 1000;

struct Factor {
    name: String,
    axis: String,
    path: Vec<String>,
    of: String,
    values: Vec<(String, Value)>,
}

pub(crate) fn spread(study: &mut Table) -> Result<(), String> {
    let factors = match study.remove("factor") {
        None => return Ok(()),
        Some(Value::Array(factors)) => factors,
        Some(_) => return Err("factor is a list: write [[factor]]".into()),
    };
    for factor in factors {
        let Value::Table(table) = factor else { return Err("factor is a list: write [[factor]]".into()) };
        Factor::of(table)?.write_out(study)?;
    }
    Ok(())
}

impl Factor {
    fn of(mut table: Table) -> Result<Self, String> {
        let mut text = |key: &str| match table.remove(key) {
            Some(Value::String(text)) => Ok(text),
            None => Ok(String::new()),
            Some(other) => Err(format!("factor: {key} = {other}: must be text")),
        };
        let (name, key, of) = (text("name")?, text("key")?, text("of")?);
        let values = list(&mut table, "values")?;
        let labels = list(&mut table, "labels")?;
        if let Some(unknown) = table.keys().next() {
            let hint = suggest(unknown, ["name", "key", "of", "values", "labels"]);
            return Err(format!("factor '{name}': unknown key '{unknown}'{hint}"));
        }
        let mut path: Vec<String> = key.split('.').map(str::to_string).collect();
        let axis = path.remove(0);
        if !AXES.contains(&axis.as_str()) || path.is_empty() || path.iter().any(String::is_empty) {
            return Err(format!(
                "factor '{name}': key = '{key}'{}: write the key that it sets, such as \"file_system.mkfs\", \
                 \"state.fullness\", \"workload.scale\" or \"cell.memory\"",
                suggest(&axis, AXES)
            ));
        }
        let name = if name.is_empty() { path.join(" ") } else { name };
        if values.len() < 2 {
            return Err(format!("factor '{name}': values is a list of at least two"));
        }
        if !labels.is_empty() && labels.len() != values.len() {
            return Err(format!("factor '{name}': {} labels for {} values", labels.len(), values.len()));
        }
        let label = |index: usize| label_of(&name, labels.get(index).unwrap_or(&values[index]));
        let values = values.iter().cloned().enumerate().map(|(index, value)| (label(index), value)).collect();
        Ok(Self { name, axis, path, of, values })
    }

    fn write_out(&self, study: &mut Table) -> Result<(), String> {
        let of_cells = self.axis == "cell";
        let axis = if of_cells { "file_system" } else { &self.axis };
        let entries = match study.remove(axis) {
            Some(Value::Array(entries)) => entries,
            _ => return Err(format!("factor '{}': the study has no [[{axis}]]", self.name)),
        };
        if entries.len() * self.values.len() > MOST_ENTRIES {
            return Err(format!("factor '{}': it makes more than {MOST_ENTRIES} [[{axis}]]", self.name));
        }
        let (mut spread, mut renamed, mut cells) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            let Value::Table(entry) = entry else { return Err(format!("{axis} is a list: write [[{axis}]]")) };
            let name = name_of(&entry);
            let copies =
                text_of(&entry, "kind") == "copy" && renamed.iter().any(|(old, _)| *old == text_of(&entry, "of"));
            if !copies && !self.of.is_empty() && self.of != name {
                spread.push(Value::Table(entry));
                continue;
            }
            for (label, value) in &self.values {
                let mut one = entry.clone();
                let new = format!("{name}, {label}");
                one.insert("name".into(), Value::String(new.clone()));
                if copies {
                    one.insert("of".into(), Value::String(format!("{}, {label}", text_of(&entry, "of"))));
                } else if of_cells {
                    let mut cell = Table::from_iter([("file_system".to_string(), Value::String(new.clone()))]);
                    self.set(&mut cell, &self.path, value.clone())?;
                    cells.push(Value::Table(cell));
                } else {
                    self.set(&mut one, &self.path, value.clone())?;
                }
                renamed.push((name.clone(), new));
                spread.push(Value::Table(one));
            }
        }
        if renamed.is_empty() {
            return Err(format!("factor '{}': of = '{}': no [[{axis}]] has this name", self.name, self.of));
        }
        study.insert(axis.into(), Value::Array(spread));
        let all = follow(study.remove("cell"), axis, &renamed);
        let all: Vec<Value> = all.into_iter().chain(cells).collect();
        if !all.is_empty() {
            study.insert("cell".into(), Value::Array(all));
        }
        Ok(())
    }

    /// Sets a key, creating nested tables; variables of a workload are text.
    fn set(&self, table: &mut Table, path: &[String], value: Value) -> Result<(), String> {
        match path {
            [] => {}
            [key] => drop(table.insert(key.clone(), value)),
            [key, rest @ ..] => {
                let inner = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
                let value = match value {
                    Value::String(_) => value,
                    other if key == "set" => Value::String(other.to_string()),
                    other => other,
                };
                let Value::Table(inner) = inner else {
                    let rest = rest.join(".");
                    return Err(format!("factor '{}': {key} = {inner} has no key '{rest}'", self.name));
                };
                self.set(inner, rest, value)?;
            }
        }
        Ok(())
    }
}

/// Exceptions that name an entry, once for each of its values.
fn follow(cells: Option<Value>, axis: &str, renamed: &[(String, String)]) -> Vec<Value> {
    let cells = match cells {
        Some(Value::Array(cells)) => cells,
        other => return other.into_iter().collect(),
    };
    let mut all = Vec::new();
    for cell in cells {
        let named = cell.get(axis).and_then(Value::as_str).unwrap_or_default().to_string();
        let new: Vec<&String> = renamed.iter().filter(|(old, _)| *old == named).map(|(_, new)| new).collect();
        match (cell, new.is_empty()) {
            (Value::Table(cell), false) => all.extend(new.into_iter().map(|name| {
                let mut cell = cell.clone();
                cell.insert(axis.into(), Value::String(name.clone()));
                Value::Table(cell)
            })),
            (cell, _) => all.push(cell),
        }
    }
    all
}

fn list(table: &mut Table, key: &str) -> Result<Vec<Value>, String> {
    match table.remove(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(values)) => Ok(values),
        Some(other) => Err(format!("factor: {key} = {other}: must be a list")),
    }
}

fn text_of(entry: &Table, key: &str) -> String {
    entry.get(key).and_then(Value::as_str).unwrap_or_default().to_string()
}

fn name_of(entry: &Table) -> String {
    let keys = ["name", "kind", "personality", "file", "microbenchmark", "ready"];
    let named = keys.into_iter().map(|key| text_of(entry, key)).find(|text| !text.is_empty());
    let command = || entry.get("command")?.as_array()?.first()?.as_str().map(str::to_string);
    named.or_else(command).unwrap_or_else(|| "cold-read".into())
}

/// Returns the label of a value without `=`, which separates names in conditions.
fn label_of(name: &str, value: &Value) -> String {
    let text = match value {
        Value::String(text) if text.trim().is_empty() => "default".to_string(),
        Value::String(text) => text.trim().to_string(),
        other => other.to_string(),
    };
    format!("{name} {text}").replace(['=', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use crate::StudySpec;

    const STUDY: &str = r#"
name = "t"
size = "64M"
file_system = [{ kind = "ext4" }, { kind = "ext4", name = "other" }]
workload = [{ personality = "webserver", scale = 0.02, set = { memsize = "1m" } }]
cell = [{ file_system = "ext4", state = "fresh", cpus = 1.5 }]
[[state]]
kind = "fresh"
[[state]]
kind = "aged"
profile = "wang_os"
fullness = 0.4
overwrites = 1.0
truncate = "drop"
[[state]]
kind = "copy"
of = "aged"
"#;

    fn study(factor: &str) -> Result<StudySpec, String> {
        StudySpec::parse("t", &format!("{STUDY}\n[[factor]]\n{factor}")).map_err(|failure| failure.to_string())
    }

    #[test]
    fn file_system_factor_expands_entries_and_exceptions() {
        let spec =
            study("name = 'inodes'\nkey = 'file_system.mkfs'\nof = 'ext4'\nvalues = ['-I 128', '-I 256']").unwrap();
        let names: Vec<&str> = spec.file_system.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["ext4, inodes -I 128", "ext4, inodes -I 256", "other"]);
        assert_eq!((spec.file_system[0].mkfs.as_str(), spec.file_system[2].mkfs.as_str()), ("-I 128", ""));
        let limited = |fs: usize| spec.exception(fs, 0, "webserver").cpus.is_some();
        assert_eq!([limited(0), limited(1), limited(2)], [true, true, false]);
    }

    #[test]
    fn state_factor_expands_its_copies() {
        let spec = study("key = 'state.fullness'\nof = 'aged'\nvalues = [0.3, 0.5]").unwrap();
        let names: Vec<&str> = spec.state.iter().map(|one| one.name.as_str()).collect();
        let wanted = ["fresh", "aged, fullness 0.3", "aged, fullness 0.5", "copy, fullness 0.3", "copy, fullness 0.5"];
        assert_eq!(names, wanted);
        assert_eq!(spec.state[4].of, "aged, fullness 0.5");
        assert_eq!(spec.source(&spec.state[4]).fullness, Some(0.5));
    }

    #[test]
    fn cell_factors_expand_to_file_systems() {
        let spec = study("key = 'cell.memory'\nof = 'ext4'\nvalues = ['512M', '1G']").unwrap();
        assert_eq!(spec.file_system.len(), 3);
        assert_eq!(spec.exception(0, 1, "webserver").memory.map(|bytes| bytes.0), Some(512 << 20));
        assert_eq!(spec.exception(2, 1, "webserver").memory, None);
        let spec = study("key = 'cell.set.nfiles'\nvalues = [30, 40]").unwrap();
        let of = |fs: usize| spec.workload_of(fs, 0, 0).set.clone();
        assert_eq!((of(0)["nfiles"].as_str(), of(1)["nfiles"].as_str(), of(0)["memsize"].as_str()), ("30", "40", "1m"));
        let spec = study("key = 'workload.scale'\nvalues = [0.02, 0.03]").unwrap();
        assert_eq!(spec.workload[1].name, "webserver, scale 0.03");
    }

    #[test]
    fn invalid_factors_are_reported() {
        for (factor, said) in [
            ("key = 'filesystem.mkfs'\nvalues = ['a', 'b']", "file_system"),
            ("key = 'state.fullness'\nvalues = [0.5]", "at least two"),
            ("key = 'state.fullness'\nof = 'agd'\nvalues = [0.5, 0.6]", "has this name"),
            ("key = 'state.fulness'\nof = 'aged'\nvalues = [0.5, 0.6]", "fulness"),
            ("key = 'state.fullness'\nvalue = 1\nvalues = [0.5, 0.6]", "did you mean"),
            ("key = 'state.fullness.most'\nof = 'aged'\nvalues = [0.5, 0.6]", "has no key 'most'"),
            ("key = 'state.seed'\nof = 'fresh'\nlabels = ['a']\nvalues = [1, 2]", "labels"),
        ] {
            assert!(study(factor).unwrap_err().contains(said), "{factor}");
        }
    }
}
