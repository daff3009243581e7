//! The fields of a spec for 004: WebStone's clients, and slots in front of the link.

use cli::Failure;
use sched::Sharing;
use serde::{Deserialize, Serialize};
use sim::queue::{Arrivals, SlotSpec};
use testbed::{Customer, check_customers};
use units::{Nanos, parse_duration, parse_size};

use super::queue::wrong;

/// All fields have defaults: an open load, and no slots.
#[derive(Debug, Clone, PartialEq, Default, clap::Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Closed clients and slots, only with --model queue")]
pub struct WebStoneSpec {
    /// Instead of an offered load, WebStone's clients with this workload of 004, WA or WB: each asks again when it was answered
    #[arg(long, value_name = "WA|WB", conflicts_with_all = ["rho", "profile", "dist", "trace"])]
    pub webstone: Option<String>,
    /// A class of its clients and how many they are, such as A:15; repeatable, the highest priority first
    #[arg(long = "class", value_name = "NAME:CLIENTS")]
    pub class: Vec<String>,
    /// Jobs of each class that compete for the link at a time, the others sleep (max_proc of 004), such as A:5,B:3
    #[arg(long, value_name = "NAME:SLOTS,...")]
    pub slots: Option<String>,
    /// Who may use a slot: own (its class alone, not work-conserving), any (all while it is free), preempt (the same, and its
    /// class takes it back), none (as without slots) [default: own]
    #[arg(long, value_name = "SHARING")]
    pub sharing: Option<String>,
    /// What a socket takes: with so many bytes left, a job gives its slot back [default: 0, with its last byte]
    #[arg(long, value_name = "SIZE")]
    pub buffer: Option<String>,
    /// Time of the link that a job takes beside its bytes, where the link stands for a processor [default: none]
    #[arg(long, value_name = "TIME")]
    pub job_cost: Option<String>,
}

impl WebStoneSpec {
    /// Returns the arrivals, if they are from WebStone's clients.
    pub(super) fn arrivals(&self) -> Result<Option<Arrivals>, Failure> {
        let customers = self.customers()?;
        let Some(of) = &self.webstone else {
            return match customers.is_empty() {
                false => Err(wrong("class")("it is of WebStone's clients: write --webstone WA too")),
                true => Ok(None),
            };
        };
        if customers.is_empty() {
            return Err(wrong("webstone")("nobody asks: write --class A:15, say, once for each class"));
        }
        Ok(Some(Arrivals::WebStone {
            of: of.parse().map_err(wrong("webstone"))?,
            clients: customers.iter().map(|customer| customer.clients).collect(),
        }))
    }

    pub(super) fn job_cost(&self) -> Result<Nanos, Failure> {
        let time = self.job_cost.as_deref().map(parse_duration).transpose().map_err(wrong("job_cost"))?;
        Ok(time.unwrap_or_default().into())
    }

    /// The slots of each class. Classes without clients have them by position.
    pub(super) fn slots(&self) -> Result<Option<SlotSpec>, Failure> {
        let Some(text) = &self.slots else {
            let unused = [("sharing", self.sharing.is_some()), ("buffer", self.buffer.is_some())];
            return match unused.into_iter().find(|(_, is_set)| *is_set) {
                Some((field, _)) => Err(wrong(field)("there are no slots: write --slots A:5,B:3, say")),
                None => Ok(None),
            };
        };
        let buffer = self.buffer.as_deref().map(parse_size).transpose().map_err(wrong("buffer"))?;
        let slots = slots(text, &self.names()?).map_err(wrong("slots"))?;
        let sharing = sharing(self.sharing.as_deref().unwrap_or("own")).map_err(wrong("sharing"))?;
        Ok(sharing.map(|sharing| SlotSpec { slots, sharing, buffer_bytes: buffer.unwrap_or(0) }))
    }

    /// Returns the names of the classes.
    pub(super) fn names(&self) -> Result<Vec<String>, Failure> {
        Ok(self.customers()?.into_iter().map(|customer| customer.name).collect())
    }

    fn customers(&self) -> Result<Vec<Customer>, Failure> {
        let read: Result<Vec<Customer>, String> = self.class.iter().map(|text| text.parse()).collect();
        let customers = read.map_err(wrong("class"))?;
        if !customers.is_empty() {
            check_customers(&customers).map_err(wrong("class"))?;
        }
        Ok(customers)
    }
}

/// Parses `A:5,B:3` in any order, or `5,3` if classes have no names.
fn slots(text: &str, names: &[String]) -> Result<Vec<u32>, String> {
    let wrong = || {
        let example: Vec<String> = names.iter().map(|name| format!("{name}:5")).collect();
        let example = if names.is_empty() { "5,3".into() } else { example.join(",") };
        format!("`{text}` does not say the slots of each class: write {example}, say")
    };
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if names.is_empty() {
        return parts.iter().map(|part| part.parse().map_err(|_| wrong())).collect();
    }
    let of = |name: &String| {
        let found = parts.iter().filter_map(|part| part.split_once(':')).find(|(of, _)| of == name);
        found.and_then(|(_, slots)| slots.parse().ok()).ok_or_else(wrong)
    };
    let slots: Vec<u32> = names.iter().map(of).collect::<Result<_, _>>()?;
    if parts.len() == names.len() { Ok(slots) } else { Err(wrong()) }
}

fn sharing(text: &str) -> Result<Option<Sharing>, String> {
    match text {
        "none" => Ok(None),
        "own" => Ok(Some(Sharing::Own)),
        "any" => Ok(Some(Sharing::Any)),
        "preempt" => Ok(Some(Sharing::AnyUntilWanted)),
        _ => Err(format!("`{text}` is no way to share slots: write own, any, preempt or none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(slots: &str) -> WebStoneSpec {
        WebStoneSpec { class: vec!["A:15".into(), "B:15".into()], slots: Some(slots.into()), ..WebStoneSpec::default() }
    }

    #[test]
    fn slots_are_those_of_the_named_classes() {
        assert_eq!(spec("B:3, A:5").slots().unwrap().unwrap().slots, [5, 3]);
        for wrong in ["A:5", "5,3", "A:5,B:x", "A:5,C:3", "A:5,B:3,C:1", ""] {
            let Err(Failure::Usage(said)) = spec(wrong).slots() else { panic!("{wrong} is taken") };
            assert!(said.starts_with("--slots: ") && said.ends_with("write A:5,B:5, say"), "{said}");
        }
        let by_place = WebStoneSpec { slots: Some("5,3".into()), ..WebStoneSpec::default() };
        assert_eq!(by_place.slots().unwrap().unwrap().slots, [5, 3]);
    }

    #[test]
    fn fields_that_would_do_nothing_are_refused() {
        let alone = [
            WebStoneSpec { sharing: Some("own".into()), ..WebStoneSpec::default() },
            WebStoneSpec { buffer: Some("8KB".into()), ..WebStoneSpec::default() },
        ];
        assert!(alone.iter().all(|spec| spec.slots().is_err()));
        assert!(spec("A:1,B:1").arrivals().is_err());
        let nobody = WebStoneSpec { webstone: Some("WA".into()), ..WebStoneSpec::default() };
        assert!(nobody.arrivals().is_err());
    }
}
