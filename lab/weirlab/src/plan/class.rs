//! The classes of a plan and their objectives, from words.

use std::str::FromStr;

use cli::Failure;
use config::Objective;

/// A class of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub name: String,
    /// Of the requests.
    pub share: f64,
    pub objective: Option<Objective>,
}

/// `paid:0.2`.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassArg {
    name: String,
    share: f64,
}

impl FromStr for ClassArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ClassArg, String> {
        let parts = || {
            let (name, share) = text.rsplit_once(':')?;
            let share: f64 = share.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0)?;
            (!name.trim().is_empty()).then(|| ClassArg { name: name.trim().into(), share })
        };
        parts().ok_or_else(|| {
            format!("`{text}`: expected NAME:SHARE, a share of the requests above 0 and up to 1, for example paid:0.2")
        })
    }
}

/// `paid: p99 of responses <= 64KiB under 200ms`.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectiveArg {
    class: String,
    objective: Objective,
}

impl FromStr for ObjectiveArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ObjectiveArg, String> {
        let Some((class, objective)) = text.split_once(':') else {
            return Err(format!("`{text}`: expected CLASS: pN of responses [<= SIZE] under TIME"));
        };
        Ok(ObjectiveArg { class: class.trim().into(), objective: objective.trim().parse()? })
    }
}

/// At least two classes, one of them with an objective; their shares make up the whole.
pub fn planned(classes: &[ClassArg], objectives: &[ObjectiveArg]) -> Result<Vec<Planned>, Failure> {
    let wrong = |said: String| Err(Failure::Usage(said));
    let sum: f64 = classes.iter().map(|class| class.share).sum();
    if classes.len() < 2 || (sum - 1.0).abs() > 1e-6 {
        return wrong(format!(
            "--class: {} given, with {sum:.3} of the requests: write two or more that add up to 1, such as --class paid:0.2 --class free:0.8",
            classes.len()
        ));
    }
    let mut planned: Vec<Planned> = Vec::new();
    for ClassArg { name, share } in classes {
        if planned.iter().any(|class| class.name == *name) {
            return wrong(format!("--class {name}: given twice, expected one share for each class: leave one out"));
        }
        planned.push(Planned { name: name.clone(), share: *share, objective: None });
    }
    for ObjectiveArg { class, objective } in objectives {
        let Some(found) = planned.iter_mut().find(|planned| planned.name == *class) else {
            let names: Vec<&str> = planned.iter().map(|planned| planned.name.as_str()).collect();
            let known = names.join(", ");
            return wrong(format!("--objective {class}: no --class has that name: write one of {known}"));
        };
        if found.objective.replace(objective.clone()).is_some() {
            return wrong(format!(
                "--objective {class}: given twice, expected one for each class: leave `{objective}` out"
            ));
        }
    }
    Ok(planned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(classes: &[&str], objectives: &[&str]) -> Result<Vec<Planned>, Failure> {
        let classes: Vec<ClassArg> = classes.iter().map(|text| text.parse().unwrap()).collect();
        let objectives: Vec<ObjectiveArg> = objectives.iter().map(|text| text.parse().unwrap()).collect();
        planned(&classes, &objectives)
    }

    #[test]
    fn classes_have_their_shares_and_objectives() {
        let Ok(found) = read(&["paid:0.2", "free:0.8"], &["paid: p99 of responses <= 64KiB under 200ms"]) else {
            panic!("they are right")
        };
        assert_eq!((found[0].share, found[1].name.as_str()), (0.2, "free"));
        let objective = found[0].objective.as_ref().unwrap();
        assert_eq!(objective.to_string(), "p99 of responses <= 64KiB under 200ms");
    }

    #[test]
    fn mistakes_say_what_is_right() {
        let aim = "a: p99 of responses under 1s";
        for (classes, objectives, said) in [
            (&["a:1"][..], &[aim][..], "two or more that add up to 1"),
            (&["a:0.5", "b:0.4"], &[aim], "0.900 of the requests"),
            (&["a:0.5", "a:0.5"], &[aim], "--class a: given twice"),
            (&["b:0.5", "c:0.5"], &[aim], "--objective a: no --class has that name: write one of b, c"),
            (&["a:0.5", "b:0.5"], &[aim, aim], "--objective a: given twice"),
        ] {
            let Err(Failure::Usage(found)) = read(classes, objectives) else { panic!("{classes:?} is taken") };
            assert!(found.contains(said), "{found}");
        }
        for text in ["paid", ":0.1", "paid:2", "paid:-0.1", "paid:0", "paid:NaN"] {
            assert!(text.parse::<ClassArg>().unwrap_err().contains("NAME:SHARE"), "{text}");
        }
        assert!("paid".parse::<ObjectiveArg>().is_err() && "paid: fast".parse::<ObjectiveArg>().is_err());
    }
}
