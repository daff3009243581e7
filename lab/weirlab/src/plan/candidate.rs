//! The settings that are tried: weights, guaranteed rates or slots, over a bounded grid.

use std::fmt::Write as _;

use sched::Sharing;
use sched::classes::{ClassSpec, ClassTable};
use sched::policy::Order;
use units::Rate;

use super::class::Planned;

/// What is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Knob {
    /// `class.weight` of the classes with objectives
    Weights,
    /// `class.min_rate` of the same, in steps of 5 % of the link
    Guaranteed,
    /// `class.max_concurrent_requests` of the others
    Slots,
}

pub const KNOBS: [Knob; 3] = [Knob::Weights, Knob::Guaranteed, Knob::Slots];

/// Of one knob; more classes have a coarser grid.
pub const CANDIDATES_MAX: usize = 1000;

const WEIGHTS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
const PERCENT_STEP: u32 = 5;
/// All of the link cannot be promised to some.
const PERCENT_MAX: u32 = 95;
const SLOTS_MAX: u32 = 32;

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub knob: Knob,
    /// By class: a weight, per cent of the link, slots; `None` where it is left alone.
    pub values: Vec<Option<u32>>,
}

/// All settings of a knob, and whether steps were left out.
pub fn grid(knob: Knob, classes: &[Planned]) -> (Vec<Candidate>, bool) {
    let mut is_set: Vec<bool> =
        classes.iter().map(|class| class.objective.is_some() != (knob == Knob::Slots)).collect();
    if !is_set.contains(&true) {
        is_set.fill(true);
    }
    if knob == Knob::Weights && is_set.iter().all(|is_set| *is_set) {
        // Weights are relative.
        is_set[classes.len() - 1] = false;
    }
    let mut steps: Vec<u32> = match knob {
        Knob::Weights => WEIGHTS.to_vec(),
        Knob::Guaranteed => (PERCENT_STEP..=PERCENT_MAX).step_by(PERCENT_STEP as usize).collect(),
        Knob::Slots => (1..=SLOTS_MAX).collect(),
    };
    let fits = |values: &Vec<u32>| knob != Knob::Guaranteed || values.iter().sum::<u32>() <= PERCENT_MAX;
    let count = is_set.iter().filter(|is_set| **is_set).count();
    let whole = steps.len();
    while steps.len().saturating_pow(count as u32) > CANDIDATES_MAX && steps.len() > 1 {
        steps = steps.into_iter().step_by(2).collect();
    }
    let found: Vec<Vec<u32>> = product(&steps, count).into_iter().filter(fits).collect();
    let placed = |values: Vec<u32>| {
        let mut values = values.into_iter();
        let values = is_set.iter().map(|is_set| if *is_set { values.next() } else { None }).collect();
        Candidate { knob, values }
    };
    (found.into_iter().map(placed).collect(), steps.len() < whole)
}

/// Every list of so many of these.
fn product(steps: &[u32], count: usize) -> Vec<Vec<u32>> {
    let mut lists = vec![vec![]];
    for _ in 0..count {
        let longer = |list: &Vec<u32>| steps.iter().map(|step| [&list[..], &[*step]].concat()).collect::<Vec<_>>();
        lists = lists.iter().flat_map(longer).collect();
    }
    lists
}

impl Knob {
    /// As `--by` has it.
    pub fn name(self) -> &'static str {
        match self {
            Knob::Weights => "weights",
            Knob::Guaranteed => "guaranteed",
            Knob::Slots => "slots",
        }
    }
}

impl Candidate {
    /// Nothing is set: all classes stand in one order.
    pub fn plain(classes: &[Planned]) -> Candidate {
        Candidate { knob: Knob::Weights, values: vec![None; classes.len()] }
    }

    pub fn is_plain(&self) -> bool {
        self.set_count() == 0
    }

    /// Classes of which something is set.
    pub fn set_count(&self) -> usize {
        self.values.iter().flatten().count()
    }

    /// On this link, as a server reads it from [`Candidate::toml`].
    pub fn table(&self, classes: &[Planned], order: &Order, link: Rate) -> ClassTable {
        let spec = |(class, value): (&Planned, &Option<u32>)| {
            let plain = ClassSpec::plain(&class.name, order.clone());
            let pooled = ClassSpec { is_pooled: true, ..plain.clone() };
            match (self.knob, *value) {
                (_, None) => pooled,
                (Knob::Weights, Some(weight)) => ClassSpec { weight, ..plain },
                (Knob::Guaranteed, Some(percent)) => ClassSpec { guaranteed: Some(part(link, percent)), ..plain },
                (Knob::Slots, Some(slots)) => ClassSpec { concurrent_max: Some(slots), ..pooled },
            }
        };
        ClassTable { classes: classes.iter().zip(&self.values).map(spec).collect(), slot_sharing: Sharing::Own }
    }

    /// In words: `paid: weight 4`.
    pub fn words(&self, classes: &[Planned]) -> String {
        if self.is_plain() {
            return "nothing set".into();
        }
        let word = |value| match self.knob {
            Knob::Weights => format!("weight {value}"),
            Knob::Guaranteed => format!("min_rate {value} %"),
            Knob::Slots => format!("max_concurrent_requests {value}"),
        };
        let set = classes.iter().zip(&self.values).filter_map(|(class, value)| Some((class, (*value)?)));
        set.map(|(class, value)| format!("{}: {}", class.name, word(value))).collect::<Vec<_>>().join(", ")
    }

    /// As tables of a `weir.toml`; which requests a class has is for its operator to say.
    pub fn toml(&self, classes: &[Planned], link: Rate) -> String {
        let mut text = String::new();
        for (class, value) in classes.iter().zip(&self.values) {
            let _ = write!(text, "[[class]]\nname = \"{}\"\n", class.name);
            let _ = match (self.knob, *value) {
                (_, None) => Ok(()),
                (Knob::Weights, Some(weight)) => writeln!(text, "weight = {weight}"),
                (Knob::Guaranteed, Some(percent)) => writeln!(text, "min_rate = \"{}\"", part(link, percent)),
                (Knob::Slots, Some(slots)) => writeln!(text, "max_concurrent_requests = {slots}"),
            };
            if let Some(objective) = &class.objective {
                let _ = writeln!(text, "objective = \"{objective}\"");
            }
            text.push('\n');
        }
        text
    }
}

fn part(link: Rate, percent: u32) -> Rate {
    let bits_per_s = u128::from(link.bits_per_s()) * u128::from(percent) / 100;
    Rate::from_bits_per_s(u64::try_from(bits_per_s).unwrap_or(u64::MAX).max(1)).unwrap_or(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(objectives: &[bool]) -> Vec<Planned> {
        let share = 1.0 / objectives.len() as f64;
        let class = |(nth, has): (usize, &bool)| Planned {
            name: format!("c{nth}"),
            share,
            objective: has.then(|| "p99 of responses under 1s".parse().unwrap()),
        };
        objectives.iter().enumerate().map(class).collect()
    }

    #[test]
    fn grids_are_bounded_and_set_what_they_should() {
        for (objectives, expected) in [
            (&[true, false][..], [(10, false), (19, false), (32, false)]),
            (&[true, true], [(10, false), (171, false), (256, true)]),
            (&[true, true, false], [(100, false), (171, false), (32, false)]),
        ] {
            for (knob, expected) in KNOBS.into_iter().zip(expected) {
                let (found, is_coarse) = grid(knob, &classes(objectives));
                assert_eq!((found.len(), is_coarse), expected, "{knob:?} {objectives:?}");
            }
        }
        let many = classes(&[true; 12]);
        for knob in KNOBS {
            let (found, is_coarse) = grid(knob, &many);
            assert!((1..=CANDIDATES_MAX).contains(&found.len()) && is_coarse, "{knob:?}: {}", found.len());
        }
        let (slots, _) = grid(Knob::Slots, &classes(&[true, false]));
        assert_eq!(slots[4].values, [None, Some(5)]);
    }

    #[test]
    fn nothing_set_is_one_order() {
        let (classes, link) = (classes(&[true, false]), "10mbit".parse().unwrap());
        let plain = Candidate::plain(&classes);
        let order = "srpt".parse::<sched::policy::PolicySpec>().unwrap().order().clone();
        assert!(plain.is_plain() && plain.words(&classes) == "nothing set");
        assert!(plain.table(&classes, &order, link).classes.iter().all(|class| class.is_pooled));
    }

    #[test]
    fn a_setting_is_a_table_and_its_text_is_read_as_the_same() {
        let (classes, link) = (classes(&[true, false]), "10mbit".parse().unwrap());
        let order = "srpt".parse::<sched::policy::PolicySpec>().unwrap().order().clone();
        for (knob, value, words) in [
            (Knob::Weights, [Some(4), None], "c0: weight 4"),
            (Knob::Guaranteed, [Some(25), None], "c0: min_rate 25 %"),
            (Knob::Slots, [None, Some(3)], "c1: max_concurrent_requests 3"),
        ] {
            let candidate = Candidate { knob, values: value.to_vec() };
            assert_eq!(candidate.words(&classes), words);
            assert!(!candidate.is_plain());
            let rules = "[[class.rule]]\npath = \"/a/*\"\n\n[[class]]\nname = \"c1\"\n";
            let text = candidate.toml(&classes, link).replace("\n[[class]]\nname = \"c1\"\n", rules);
            let file =
                format!("[uplink]\nrate = \"10mbit\"\n{text}[[class.rule]]\npath = \"/b/*\"\n[[site]]\nroot = \"r\"\n");
            let read = config::read(file.as_bytes()).unwrap_or_else(|mistakes| panic!("{file}: {mistakes:?}"));
            let read_table = read.class_table().unwrap();
            assert_eq!(read_table.classes[..2], candidate.table(&classes, &order, link).classes[..], "{file}");
        }
    }
}
