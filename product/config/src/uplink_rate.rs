//! The rate of the uplink, as written in the file.

use sched::line::BoundsError;

pub use sched::UplinkRate;

use crate::keys::Form;
use crate::value_forms::{FromText, Wrong};

impl FromText for UplinkRate {
    const FORM: Form = Form::Uplink;

    fn from_text(text: &str) -> Result<UplinkRate, Wrong> {
        text.parse().map_err(|error| match error {
            BoundsError::Rate(..) | BoundsError::Off => Wrong::Form,
            BoundsError::Slow(_) => Wrong::Expected("64kbit or more".into()),
            BoundsError::Order { .. } => Wrong::Expected("the lower rate first, for example 2mbit..20mbit".into()),
        })
    }
}
