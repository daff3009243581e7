//! Records in /run/weir of the parts that an attach made at an interface. The settings in the kernel record them too,
//! but disappear with the clsact, and an empty clsact does not show who created it.

use std::fs;

use super::{Attached, filter};
use crate::tree::{self, leftovers};
use crate::{Error, Interface};

/// The prefix of the file names.
const KIND: &str = "attached";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    pub tree: bool,
    /// True if attaching created a clsact and our program is not attached to it, either not yet or no longer. While it
    /// is attached, its settings record this.
    pub empty_clsact: bool,
}

/// A classifier that was attached and has disappeared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub interface: Interface,
    /// The missing part, with the remedy.
    pub what: String,
}

pub fn write(interface: &Interface, made: Made) -> Result<(), Error> {
    let words = [(made.tree, "tree"), (made.empty_clsact, "clsact")];
    let words: Vec<&str> = words.iter().filter(|(is_made, _)| *is_made).map(|(_, word)| *word).collect();
    let write = || leftovers::write(&leftovers::path(KIND, interface)?, interface, &words.join(" "));
    write().map_err(|error| leftovers::unusable(KIND, interface, error))
}

pub fn read(interface: &Interface) -> Option<Made> {
    let text = leftovers::read(&leftovers::path(KIND, interface).ok()?, interface)?;
    let has = |word: &str| text.split(' ').any(|found| found == word);
    Some(Made { tree: has("tree"), empty_clsact: has("clsact") })
}

pub fn forget(interface: &Interface) {
    if let Ok(path) = leftovers::path(KIND, interface) {
        // Usually there is no such file.
        let _ = fs::remove_file(path);
    }
}

/// Removes the records of earlier interfaces with this name. Returns false if there were none.
pub fn forget_earlier(interface: &Interface) -> bool {
    let earlier = |kept: &Interface| kept.name == interface.name && Interface::named(kept.index).is_err();
    let gone: Vec<Interface> = leftovers::interfaces(KIND).unwrap_or_default().into_iter().filter(earlier).collect();
    gone.iter().for_each(leftovers::forget_interface);
    !gone.is_empty()
}

/// Removes all records of an interface that no longer exists, so that no list names parts that were lost with it.
pub fn forget_gone(interface: &Interface) {
    if Interface::named(interface.index).is_err() {
        leftovers::forget_interface(interface);
    }
}

/// Returns the classifiers of this network namespace that were attached and have disappeared.
pub fn lost() -> Result<Vec<Lost>, Error> {
    let mut lost = Vec::new();
    for kept in leftovers::interfaces(KIND).map_err(|error| Error::kernel("looking for classifiers", error))? {
        match (Interface::named(kept.index), Interface::by_name(&kept.name)) {
            (Ok(interface), _) if read(&interface).is_some() && filter::look(&interface)?.ours().is_none() => {
                let what = cure(
                    &interface,
                    "the classifier is gone: somebody removed it or its clsact, or an attach was interrupted",
                );
                lost.push(Lost { interface, what });
            }
            (Err(_), Ok(interface)) if filter::look(&interface)?.ours().is_none() => {
                let what = cure(&interface, "the interface was created again, without classifier and bands");
                lost.push(Lost { interface, what });
            }
            _ => {}
        }
    }
    Ok(lost)
}

/// Names the parts that a classifier's tree lacks, with the remedy; `None` if it is complete.
pub fn missing(attached: &Attached) -> Option<String> {
    let Attached { interface, settings: Some(settings), .. } = attached else { return None };
    let what = match tree::find(interface) {
        Ok(Some(tree)) if tree.plan.classes == settings.classes.shares() => return None,
        Ok(Some(_)) => "the classes are gone: another program created the bands again".to_string(),
        Ok(None) => "nothing is ordered: somebody removed the bands or replaced them".to_string(),
        Err(_) => "the order is incomplete: another program removed or changed some of the bands".to_string(),
    };
    Some(cure(interface, &what))
}

fn cure(interface: &Interface, what: &str) -> String {
    let name = &interface.name;
    format!(
        "{what}; run `weir attach {name} --rate RATE` to make it whole, or `weir attach --detach {name}` to remove the rest"
    )
}
