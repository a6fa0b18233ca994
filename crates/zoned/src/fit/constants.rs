//! Constants of a model by name: `read.fixed_us`, or `write.fixed_write_us@4` for a curve's value at 4 (KiB, or reads
//! in flight).

use crate::error::ZonedError;
use crate::sim::model::Model;
use toml::Value;

#[derive(Debug, Clone)]
pub struct Constants(Value);

impl Constants {
    pub fn of(model: &Model) -> Result<Self, ZonedError> {
        Ok(Self(Value::try_from(model).map_err(|error| ZonedError::Usage(format!("model: {error}")))?))
    }

    pub fn get(&self, key: &str) -> Option<f64> {
        let (path, knot) = split(key);
        let mut value = &self.0;
        for part in path.split('.') {
            value = value.get(part)?;
        }
        number(match knot {
            None => value,
            Some(knot) => value.as_array()?.iter().find(|pair| is_at(pair, knot))?.get(1)?,
        })
    }

    /// Sets a constant and returns its value. Constants that are whole numbers are rounded, to at least 1.
    pub fn set(&mut self, key: &str, to: f64) -> Result<f64, ZonedError> {
        let place = self.place(key).ok_or_else(|| ZonedError::Usage(format!("the model has no constant {key}")))?;
        *place = match place {
            Value::Integer(_) => Value::Integer((to.round() as i64).max(1)),
            _ => Value::Float(to),
        };
        Ok(number(place).unwrap_or(to))
    }

    fn place(&mut self, key: &str) -> Option<&mut Value> {
        let (path, knot) = split(key);
        let mut value = &mut self.0;
        for part in path.split('.') {
            value = value.get_mut(part)?;
        }
        match knot {
            None => Some(value),
            Some(knot) => value.as_array_mut()?.iter_mut().find(|pair| is_at(pair, knot))?.get_mut(1),
        }
    }

    pub fn model(&self) -> Result<Model, ZonedError> {
        let model: Model =
            self.0.clone().try_into().map_err(|error: toml::de::Error| ZonedError::Usage(format!("model: {error}")))?;
        model.checked()
    }

    /// Returns the names of all times, shares and sizes, except those of geometry and of the fit itself.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        if let Some(table) = self.0.as_table() {
            let own = table.iter().filter(|(key, _)| !["geometry", "fit"].contains(&key.as_str()));
            own.for_each(|(key, value)| collect(key, value, &mut names));
        }
        names
    }
}

fn collect(key: &str, value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Table(table) => table.iter().for_each(|(part, value)| collect(&format!("{key}.{part}"), value, names)),
        Value::Array(pairs) => {
            let knots = pairs.iter().filter_map(|pair| number(pair.get(0)?));
            names.extend(knots.map(|knot| format!("{key}@{knot}")));
        }
        Value::Integer(_) | Value::Float(_) => names.push(key.into()),
        _ => {}
    }
}

fn split(key: &str) -> (&str, Option<f64>) {
    let knot = key.split_once('@').and_then(|(path, knot)| Some((path, knot.parse().ok()?)));
    knot.map_or((key, None), |(path, knot)| (path, Some(knot)))
}

fn is_at(pair: &Value, knot: f64) -> bool {
    pair.get(0).and_then(number).is_some_and(|x| (x - knot).abs() < 1e-9)
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_read_and_changed_by_name() {
        let mut constants = Constants::of(&Model::load("zn540").unwrap()).unwrap();
        assert_eq!(constants.get("read.fixed_us"), Some(8.1));
        assert_eq!(constants.get("write.fixed_write_us@8"), Some(2.56));
        assert_eq!(constants.get("host.none.delay_us@8.5"), Some(3.7));
        assert_eq!((constants.get("read.fixed"), constants.get("write.fixed_write_us@5")), (None, None));
        assert_eq!(constants.set("flash.buffer_kib", 4000.4).unwrap(), 4000.0);
        constants.set("write.fixed_write_us@8", 3.0).unwrap();
        let model = constants.model().unwrap();
        assert_eq!((model.flash.buffer_kib, model.write.fixed_write_us[1]), (4000, (8.0, 3.0)));
        assert!(constants.set("zones.nothing_us", 1.0).unwrap_err().to_string().contains("zones.nothing_us"));
        constants.set("flash.redo_us", 1e6).unwrap();
        assert!(constants.model().is_err(), "programs would never end");
    }

    #[test]
    fn every_name_leads_to_its_constant() {
        let constants = Constants::of(&Model::load("zn540").unwrap()).unwrap();
        let names = constants.names();
        assert!(names.len() > 100 && names.iter().all(|name| constants.get(name).is_some()), "{names:?}");
        assert!(!names.iter().any(|name| name.starts_with("geometry")));
    }
}
