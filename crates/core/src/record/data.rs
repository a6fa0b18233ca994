//! The data of an event. They stay text until they are used: decoded, they take ten times as much memory.

use super::limits::MOST_VALUES;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// JSON text of an event's data.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Data(Box<RawValue>);

impl Data {
    /// Returns the decoded values.
    ///
    /// # Panics
    /// Never: the text was decoded when it was read.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.0.get()).expect("the text was checked when it was read")
    }

    /// Takes a text whose values fit in memory.
    pub(super) fn checked(text: Box<RawValue>) -> Result<Self, String> {
        check_values(text.get().as_bytes())?;
        Ok(Self(text))
    }
}

/// Refuses JSON that is malformed or whose values do not fit in memory.
pub(super) fn check_values(text: &[u8]) -> Result<(), String> {
    let mut left = MOST_VALUES.0;
    let mut reader = serde_json::Deserializer::from_slice(text);
    Weigher(&mut left).deserialize(&mut reader).and_then(|()| reader.end()).map_err(|error| error.to_string())
}

impl Default for Data {
    fn default() -> Self {
        Value::Null.into()
    }
}

impl From<Value> for Data {
    fn from(value: Value) -> Self {
        Self(serde_json::value::to_raw_value(&value).expect("a value is plain data"))
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

/// Memory of a value, in bytes: a number or word, an element of a list that grows, an entry of an object.
const OF_A_VALUE: u64 = 64;
const OF_AN_ENTRY: u64 = 160;

/// Subtracts the memory that values would take, without making them.
struct Weigher<'a>(&'a mut u64);

impl Weigher<'_> {
    fn take<E: serde::de::Error>(&mut self, bytes: u64) -> Result<(), E> {
        let left = self.0.checked_sub(bytes);
        *self.0 = left.ok_or_else(|| E::custom(format!("its values take more than {MOST_VALUES} of memory")))?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Weigher<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Weigher<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<(), E> {
        self.take(OF_A_VALUE)
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<(), E> {
        self.take(OF_A_VALUE + text.len() as u64)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        self.take(OF_A_VALUE)?;
        while elements.next_element_seed(Weigher(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        self.take(OF_AN_ENTRY)?;
        while entries.next_key::<IgnoredAny>()?.is_some() {
            self.take(OF_AN_ENTRY)?;
            entries.next_value_seed(Weigher(self.0))?;
        }
        Ok(())
    }
}
