//! Classes of an operator's making: customers, kinds of pages, networks, each with its share of the link.
//!
//! Two levels and three rules, in this order:
//! 1. A class that has had less than its guaranteed rate while it had something to send is served.
//! 2. Of the others, those of the least priority number; among these each has the link by its weight, and those without a share one together.
//! 3. Within a class its own order, fair between its clients where clients share the link.
//!
//! Beside that a class may have a greatest rate, which it never exceeds, and a greatest number of responses at a time
//! ([`crate::Slots`]). [`ByClass`] is the order; the [`crate::Scheduler`] keeps the two limits, since they need a clock.
//!
//! Sources: Almeida, Dabu, Manikutty & Cao, "Providing differentiated levels of service in web content hosting", 1998, for classes by
//! document and their slots; guaranteed and greatest rates are those of hierarchical token buckets (Devera's HTB: `rate` and `ceil`);
//! weights are start-time fair queueing (Goyal, Vin & Cheng 1996).

mod by_class;
mod ceilings;
mod lane;
pub(crate) mod slots;

use units::Rate;

use crate::Sharing;
use crate::policy::Order;

pub use by_class::ByClass;
pub(crate) use ceilings::Ceilings;

/// Classes at most.
pub const CLASSES_MAX: usize = crate::LEVELS_MAX;
/// Priorities are below this; 0 goes first.
pub const PRIORITIES: u8 = 16;
/// The greatest weight; the least is 1.
pub const WEIGHT_MAX: u32 = 1000;

/// A class as its operator wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSpec {
    /// For logs and records.
    pub name: String,
    /// Below [`PRIORITIES`]; classes of a lower number go first.
    pub priority: u8,
    /// Share of the link among the classes of its priority, 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// What it has whatever the others ask for. More than the link in all is scaled down to the link.
    pub guaranteed: Option<Rate>,
    /// What it never exceeds, though the link be idle.
    pub greatest: Option<Rate>,
    /// Responses at a time, at least 1; `None` is any number.
    pub concurrent_max: Option<u32>,
    /// Order of its responses.
    pub order: Order,
    /// It has no share of its own: its responses stand in one order with those of the other such classes of its priority, as those of
    /// Almeida et al. do, whose classes differ in their slots alone.
    pub is_pooled: bool,
}

impl ClassSpec {
    /// A class of no privilege and no limit.
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

/// All classes of a link. A job's class is its place here; a number past the last counts as the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassTable {
    /// 1 to [`CLASSES_MAX`].
    pub classes: Vec<ClassSpec>,
    /// Of the slots of those that have a [`ClassSpec::concurrent_max`].
    pub slot_sharing: Sharing,
}
