//! The keys of an experiment. In a file the keys of its load are among the others; in its type they are in a separate
//! struct.
//!
//! serde's own `flatten` would separate them too, but loses the line of a wrong value, and cannot refuse unknown keys.

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::{Experiment, Load};

/// The key that exists only in the type.
const LOAD: &str = "load";

/// Moves the load's keys into a separate table. An unknown key is an error, with its offset and the known keys.
pub(super) fn gather_load(table: &mut DeTable<'_>) -> Result<(), (usize, String)> {
    let (own, loads) = (keys_of::<Experiment>(), keys_of::<Load>());
    let known = || own.iter().chain(loads).filter(|key| **key != LOAD);
    let is_known = |key: &str| known().any(|known| *known == key);
    if let Some(key) = table.keys().find(|key| !is_known(key.get_ref())) {
        let names = known().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        return Err((key.span().start, format!("unknown field `{}`, expected one of {names}", key.get_ref())));
    }
    let of_load = loads.iter().filter_map(|key| table.remove_entry(*key)).collect();
    let key = Spanned::new(0..0, DeString::Borrowed(LOAD));
    table.insert(key, Spanned::new(0..0, DeValue::Table(of_load)));
    Ok(())
}

/// The keys that this type reads.
fn keys_of<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut keys = Keys(&[]);
    // It provides no values.
    let _ = T::deserialize(&mut keys);
    keys.0
}

/// Records the keys that are requested from it.
struct Keys(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut Keys {
    type Error = serde::de::value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0 = fields;
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("there is nothing"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
