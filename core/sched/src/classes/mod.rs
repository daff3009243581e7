//! Classes that an operator defines: customers, kinds of pages, networks, each with its share of the link.
//!
//! Three rules apply in this order:
//! 1. A class that is below its guaranteed rate while it has something to send is served.
//! 2. Of the others, the classes with the lowest priority number are served; among these each has the link by its
//!    weight, and those without a share have one together.
//! 3. Within a class its own order applies, fair between its clients if clients share the link.
//!
//! In addition a class may have a maximum rate, which it never exceeds, and a maximum number of concurrent responses
//! ([`crate::Slots`]). [`ByClass`] is the order; the [`crate::Scheduler`] keeps the two limits, since they need a
//! clock.
//!
//! Sources: Almeida, Dabu, Manikutty & Cao, "Providing differentiated levels of service in web content hosting", 1998,
//! for classes by document and their slots; guaranteed and maximum rates come from hierarchical token buckets
//! (Devera's HTB: `rate` and `ceil`); weights are start-time fair queueing (Goyal, Vin & Cheng 1996).

mod by_class;
mod ceilings;
mod lane;
pub(crate) mod slots;

use units::Rate;

use crate::Sharing;
use crate::policy::Order;

pub use by_class::ByClass;
pub(crate) use ceilings::Ceilings;

/// The maximum number of classes.
pub const CLASSES_MAX: usize = crate::LEVELS_MAX;
/// The number of priorities. They run from 0, which goes first, to one less than this.
pub const PRIORITIES: u8 = 16;
/// The maximum weight; the minimum is 1.
pub const WEIGHT_MAX: u32 = 1000;

/// A class as its operator configures it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSpec {
    /// The name, for logs and records.
    pub name: String,
    /// The priority, below [`PRIORITIES`]; lower numbers go first.
    pub priority: u8,
    /// The share of the link among the classes of its priority, 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// The rate that the class gets regardless of the demand of others. If the guarantees add up to more than the
    /// link's rate, all are scaled down to fit.
    pub guaranteed: Option<Rate>,
    /// The rate that the class never exceeds, even on an idle link.
    pub greatest: Option<Rate>,
    /// The maximum number of concurrent responses, at least 1; `None` for no limit.
    pub concurrent_max: Option<u32>,
    /// The order of its responses.
    pub order: Order,
    /// True if the class is pooled, so that it has no share of its own: its responses share one queue with the other
    /// pooled classes of its priority, as in Almeida et al., whose classes differ only in their slots.
    pub is_pooled: bool,
}

impl ClassSpec {
    /// Makes a class without privileges or limits.
    pub fn plain(name: &str, order: Order) -> ClassSpec {
        ClassSpec {
            name: name.into(),
            priority: 0,
            weight: 1,
            guaranteed: None,
            greatest: None,
            concurrent_max: None,
            order,
            is_pooled: false,
        }
    }
}

/// All classes of a link. A job's class is its index here; a number past the last counts as the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassTable {
    /// The classes, 1 to [`CLASSES_MAX`].
    pub classes: Vec<ClassSpec>,
    /// The way in which classes with a [`ClassSpec::concurrent_max`] share slots.
    pub slot_sharing: Sharing,
}
