//! The periodic resolution of upstream names by a dedicated thread, as long as the sites that use them exist.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::{Current, Served};
use crate::upstream::resolver::{Found, Name, Names};

/// Updates upstreams to the current addresses of their names until the sites are dropped. Each change is reported as a
/// line for the error log.
pub fn follow_names(current: &Weak<Current>, log: impl Fn(&str)) {
    let (mut answers, mut known) = (0, BTreeMap::new());
    while let Some(current) = current.upgrade() {
        let (served, names) = (current.served(), Arc::clone(current.names()));
        // The thread must not keep the sites alive while it waits.
        drop(current);
        let due = names.renew(&served.names());
        changes(&served, &names, &mut known).iter().for_each(|line| log(line));
        drop(served);
        answers = names.wait(answers, due);
    }
}

/// Applies the latest results of the lookups. Returns a line for each name that has changed since the last call.
fn changes(served: &Served, names: &Names, known: &mut BTreeMap<Name, Found>) -> Vec<String> {
    for group in served.groups() {
        group.addresses.renew(names);
    }
    let now: BTreeMap<Name, Found> = served.names().into_iter().map(|name| (name.clone(), names.find(&name))).collect();
    let before = std::mem::replace(known, now);
    let both = known.iter().filter_map(|(name, now)| Some((name, before.get(name)?, now)));
    both.filter_map(|(name, before, now)| change(name, before, now)).collect()
}

fn change(name: &Name, before: &Found, now: &Found) -> Option<String> {
    let addresses = now.addresses.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>().join(", ");
    match (&before.failure, &now.failure) {
        (None, Some(why)) => Some(format!("cannot find upstream {name} again: {why}; it stays at {addresses}")),
        (Some(_), None) => Some(format!("found upstream {name} at {addresses}")),
        (None, None) if before.addresses != now.addresses => Some(format!("upstream {name} is at {addresses} now")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_a_line() {
        let found = |last: &[u8], failure: Option<&str>| Found {
            addresses: last.iter().map(|last| ([198, 18, 0, *last], 80).into()).collect(),
            failure: failure.map(Into::into),
        };
        let name = Name { host: "app".into(), port: 80 };
        let states = [
            found(&[], Some("unknown")),
            found(&[], Some("try again")),
            found(&[1], None),
            found(&[1], None),
            found(&[1, 2], None),
            found(&[1, 2], Some("unknown")),
        ];
        let lines: Vec<String> = states.windows(2).filter_map(|pair| change(&name, &pair[0], &pair[1])).collect();
        let expected = [
            "found upstream app:80 at 198.18.0.1",
            "upstream app:80 is at 198.18.0.1, 198.18.0.2 now",
            "cannot find upstream app:80 again: unknown; it stays at 198.18.0.1, 198.18.0.2",
        ];
        assert_eq!(lines, expected);
    }
}
