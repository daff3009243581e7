use serde_json::Value;

use crate::model::Fields;

/// One dimension of the grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub name: String,
    /// At least one, with distinct labels.
    pub values: Vec<AxisValue>,
}

/// What an axis sets: usually the field of its own name, or several fields under one label.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisValue {
    pub label: String,
    /// Its place on the x axis of a picture, if it is a number.
    pub number: Option<f64>,
    pub fields: Fields,
}

/// One combination of the values of all axes; its runs differ in their seeds only.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// For each axis, which of its values.
    pub at: Vec<usize>,
    pub fields: Fields,
}

impl Axis {
    /// Reads the list that an experiment gives for an axis; the error does not name the axis.
    pub(crate) fn parse(name: &str, list: &toml::Value) -> Result<Axis, String> {
        let toml::Value::Array(list) = list else {
            return Err("a value of the grid is a list; what every run has stands in [fixed]".into());
        };
        let values: Vec<AxisValue> = list.iter().map(|value| axis_value(name, value)).collect::<Result<_, _>>()?;
        if values.is_empty() {
            return Err("the list is empty: give at least one value".into());
        }
        for (index, value) in values.iter().enumerate() {
            if values[..index].iter().any(|earlier| earlier.label == value.label) {
                return Err(format!("`{}` is given twice", value.label));
            }
        }
        Ok(Axis { name: name.into(), values })
    }

    pub fn is_numeric(&self) -> bool {
        self.values.iter().all(|value| value.number.is_some())
    }

    /// The fields that its values set, each once, in order of name.
    pub(crate) fn fields(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.values.iter().flat_map(|v| v.fields.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Every combination: the last axis changes first, as in a nest of loops.
pub(crate) fn cells(fixed: &Fields, axes: &[Axis]) -> Vec<Cell> {
    let first = Cell { at: Vec::new(), fields: fixed.clone() };
    axes.iter().fold(vec![first], |cells, axis| {
        let with = |cell: &Cell, index: usize| {
            let mut next = cell.clone();
            next.at.push(index);
            next.fields.extend(axis.values[index].fields.clone());
            next
        };
        cells.iter().flat_map(|cell| (0..axis.values.len()).map(move |index| with(cell, index))).collect()
    })
}

fn axis_value(name: &str, value: &toml::Value) -> Result<AxisValue, String> {
    if let toml::Value::Table(table) = value {
        let mut table = table.clone();
        let name =
            table.remove("name").ok_or("a table in the grid has a `name`, a text or number that stands for it")?;
        let name = field_value(&name)?;
        return Ok(AxisValue { label: label(&name), number: name.as_f64(), fields: fields(&table)? });
    }
    let value = field_value(value)?;
    Ok(AxisValue { label: label(&value), number: value.as_f64(), fields: Fields::from([(name.into(), value)]) })
}

fn label(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// The fields of a table; those of a table in it go by both names with a dot between: `internet.loss`.
pub(crate) fn fields(table: &toml::Table) -> Result<Fields, String> {
    flat(table)?.into_iter().map(|(name, value)| Ok((name.clone(), named(&name, field_value(&value))?))).collect()
}

/// Takes the tables in a table apart, as a dot in a key of TOML means a table.
pub(crate) fn flat(table: &toml::Table) -> Result<Vec<(String, toml::Value)>, String> {
    let mut fields = Vec::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) => {
                fields.extend(flat(inner)?.into_iter().map(|(field, value)| (format!("{name}.{field}"), value)));
            }
            other => fields.push((name.clone(), other.clone())),
        }
    }
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(format!("{}: it is given twice", twice[0])),
        None => Ok(fields),
    }
}

fn named<T>(name: &str, result: Result<T, String>) -> Result<T, String> {
    result.map_err(|reason| format!("{name}: {reason}"))
}

/// A value as a model reads it: TOML has two things that are no value of any field, dates and what is not a number.
pub(crate) fn field_value(value: &toml::Value) -> Result<Value, String> {
    match value {
        toml::Value::String(text) => Ok(Value::from(text.as_str())),
        toml::Value::Integer(number) => Ok(Value::from(*number)),
        toml::Value::Float(number) if number.is_finite() => Ok(Value::from(*number)),
        toml::Value::Float(number) => Err(format!("`{number}` is not a finite number")),
        toml::Value::Boolean(choice) => Ok(Value::from(*choice)),
        toml::Value::Datetime(date) => Err(format!("`{date}` is a date: no model has dates")),
        toml::Value::Array(list) => list.iter().map(field_value).collect::<Result<_, _>>().map(Value::Array),
        toml::Value::Table(_) => Err("a table is no value of a field".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn axis(name: &str, list: &str) -> Result<Axis, String> {
        let table: toml::Table = format!("list = {list}").parse().unwrap();
        Axis::parse(name, &table["list"])
    }

    #[test]
    fn every_combination_once_in_order() {
        let axes = [axis("policy", r#"["ps", "srpt"]"#).unwrap(), axis("rho", "[0.5, 0.8, 0.9]").unwrap()];
        let cells = cells(&Fields::from([("link".into(), Value::from("10mbit"))]), &axes);
        let seen: Vec<String> = cells.iter().map(|cell| serde_json::to_string(&cell.fields).unwrap()).collect();
        assert_eq!(seen.len(), 6);
        assert_eq!(seen[0], r#"{"link":"10mbit","policy":"ps","rho":0.5}"#);
        assert_eq!(seen[1], r#"{"link":"10mbit","policy":"ps","rho":0.8}"#);
        assert_eq!(seen[5], r#"{"link":"10mbit","policy":"srpt","rho":0.9}"#);
        assert_eq!(cells[4].at, [1, 1]);
    }

    #[test]
    fn a_table_sets_several_fields_under_one_name() {
        let wan = r#"[{ name = "near", rtt = "50ms", loss = 0.005 }, { name = "far", rtt = "350ms", loss = 0.03 }]"#;
        let axis = axis("wan", wan).unwrap();
        assert_eq!((axis.values[1].label.as_str(), axis.is_numeric()), ("far", false));
        assert_eq!(axis.fields(), ["loss", "rtt"]);
        let cells = cells(&Fields::new(), &[axis]);
        assert_eq!(serde_json::to_string(&cells[0].fields).unwrap(), r#"{"loss":0.005,"rtt":"50ms"}"#);
    }

    #[test]
    fn a_name_can_be_a_number_and_a_field_can_have_a_dot() {
        let axis = axis("beta", r#"[{ name = 1.5, policy = "fcf:1.5", internet.loss = 0.1 }]"#).unwrap();
        assert_eq!((axis.values[0].label.as_str(), axis.values[0].number), ("1.5", Some(1.5)));
        assert_eq!(axis.fields(), ["internet.loss", "policy"]);
    }

    #[test]
    fn what_is_no_axis_is_said() {
        for (list, said) in [
            ("0.5", "a value of the grid is a list"),
            ("[]", "the list is empty"),
            ("[0.5, 0.50]", "`0.5` is given twice"),
            ("[nan]", "`NaN` is not a finite number"),
            ("[inf]", "`inf` is not a finite number"),
            ("[1979-05-27]", "is a date"),
            ("[{ rtt = 1 }]", "has a `name`"),
            ("[[{ rtt = 1 }]]", "a table is no value"),
            ("[{ name = 1, rtt = nan }]", "rtt: `NaN` is not a finite number"),
            ("[{ name = 1, a.b = 1, \"a.b\" = 2 }]", "a.b: it is given twice"),
        ] {
            assert!(axis("x", list).unwrap_err().contains(said), "{list}");
        }
    }

    proptest! {
        /// As many cells as the product of the axes, and no two alike.
        #[test]
        fn the_product(lengths in prop::collection::vec(1usize..5, 0..4)) {
            let axes: Vec<Axis> = lengths.iter().enumerate().map(|(number, length)| {
                let list: Vec<String> = (0..*length).map(|value| value.to_string()).collect();
                axis(&format!("axis{number}"), &format!("[{}]", list.join(","))).unwrap()
            }).collect();
            let mut all: Vec<String> =
                cells(&Fields::new(), &axes).iter().map(|c| serde_json::to_string(&c.fields).unwrap()).collect();
            prop_assert_eq!(all.len(), lengths.iter().product::<usize>());
            all.sort();
            all.dedup();
            prop_assert_eq!(all.len(), lengths.iter().product::<usize>());
        }
    }
}
