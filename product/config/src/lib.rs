//! `weir.toml`, read and checked: text in, a [`Configuration`] or all its mistakes out.
//!
//! Its keys are data ([`keys`]): from that table come the check for unknown keys, the reference ([`reference()`]) and the
//! schema for editors ([`schema()`]). Reading goes on after a mistake, since a person repairs a file once and not ten times.
//! No I/O but [`read_file`].
//!
//! ```
//! let checked = config::read(b"[[site]]\nroot = \"/srv/www\"\nlistnig = true\n");
//! let mistakes = checked.unwrap_err();
//! assert_eq!(mistakes[0].line("weir.toml"), "weir.toml:3:1: unknown key `site.listnig`: did you mean `site.listing`?");
//! ```

mod changes;
mod class;
mod document;
mod explain;
mod form;
mod gone;
mod host;
pub mod keys;
mod network;
mod pattern;
mod place;
mod reach;
mod reference;
mod schema;
mod section;
mod settings;
mod site;
mod suggest;
mod uplink_rate;

pub use changes::{Change, changes};
pub use class::{Asked, Assignment, Class, Field, FieldLines, OTHERS, Objective, Rule, Token, Why};
pub use document::{FILE_BYTES_MAX, FileError, open, read, read_file};
pub use explain::{AskError, Explanation, Question, explain};
pub use form::{LogFormat, Shaping, SlotSharing, listen_address, listen_expected};
pub use gone::{elsewhere, gone};
pub use host::{Host, HostName};
pub use network::Network;
pub use pattern::Pattern;
pub use place::{Place, Placed, Remark};
pub use reference::{manual, reference};
pub use schema::schema;
pub use section::Held;
pub use settings::{AccessLog, HEAD_BYTES, Limits, Listener, Process, Settings, Timeouts, Uplink};
pub use site::{
    Answers, CacheRule, ErrorPage, HeaderRule, Health, Https, MEASURED_PATHS, Proxy, Redirect, Site, Target, Unclear,
    UpstreamAddress, UpstreamSocket, UpstreamVersion, split_host,
};
pub use uplink_rate::UplinkRate;

use sched::classes::{ClassSpec, ClassTable};

/// A file without mistakes.
#[derive(Debug, Clone)]
pub struct Configuration {
    pub settings: Settings,
    pub sites: Vec<Site>,
    pub classes: Vec<Class>,
    /// Of all classes, in the order of the file; the first that matches decides.
    pub rules: Vec<Rule>,
    /// What is worth knowing, in the order of the file.
    pub notes: Vec<Remark>,
}

impl Configuration {
    /// Which class a request has.
    pub fn assignment(&self) -> Assignment {
        Assignment::new(&self.classes, &self.rules, &self.sites, self.settings.uplink.default_class.as_ref())
    }

    /// The classes of the file and, behind them, [`OTHERS`] at the last of their priorities; `None` where all requests are alike.
    pub fn class_table(&self) -> Option<ClassTable> {
        let uplink = &self.settings.uplink;
        let priority = self.classes.iter().map(|class| class.priority).max()?;
        let others = ClassSpec { priority, is_pooled: true, ..ClassSpec::plain(OTHERS, uplink.policy.order().clone()) };
        let classes = self.classes.iter().map(|class| class.spec(uplink)).chain([others]).collect();
        Some(ClassTable { classes, slot_sharing: uplink.slot_sharing.into() })
    }

    /// In the places of [`Configuration::class_table`].
    pub fn objectives(&self) -> Vec<Option<Objective>> {
        self.classes.iter().map(|class| class.objective.clone()).chain([None]).collect()
    }
}
