//! Reads and checks `weir.toml`: returns a [`Configuration`] or all mistakes in the text.
//!
//! The keys are data ([`keys`]): the check for unknown keys, the reference ([`reference()`]) and the schema for editors
//! ([`schema()`]) are made from that table. Reading continues after a mistake, so that one run reports all of them.
//! Only [`read_file`] and [`open`] do I/O.
//!
//! ``` let checked = config::read(b"[[site]]\nroot = \"/srv/www\"\nautoindx = true\n"); let mistakes =
//! checked.unwrap_err(); assert_eq!(mistakes[0].line("weir.toml"), "weir.toml:3:1: unknown key `site.autoindx`: did you
//! mean `site.autoindex`?");
//! ```

mod acme;
mod changes;
mod class;
mod client_prefix;
mod client_weight;
pub mod defaults;
mod document;
mod explain;
mod host;
pub mod keys;
mod network;
mod pattern;
mod place;
mod reference;
mod renamed_words;
mod schema;
mod section;
mod settings;
mod site;
mod sources;
mod suggest;
mod unreached_rules;
mod uplink_rate;
mod value_forms;
mod zone;

pub use acme::{Acme, Challenge, is_public};
pub use changes::{Change, changes};
pub use class::{Asked, Assignment, Class, Field, FieldLines, OTHERS, Objective, Rule, Token, Why};
pub use client_prefix::{ClientPrefix, ClientPrefixError};
pub use client_weight::{ClientWeight, ClientWeightError};
pub use document::{FILE_BYTES_MAX, FileError, open, read, read_file};
pub use explain::{AskError, Explanation, Question, explain};
pub use host::{Host, HostName};
pub use network::Network;
pub use pattern::Pattern;
pub use place::{FileNames, Named, Place, Placed, Remark};
pub use reference::{manual, reference};
pub use renamed_words::{RENAMED, Renamed, elsewhere, gone};
pub use schema::schema;
pub use section::Held;
pub use settings::{AccessLog, HEAD_BYTES, Limits, Listener, Process, Settings, Timeouts, Uplink, is_overlapping};
pub use site::{
    Access, Answers, AuthUrl, ByNetwork, CacheRule, Compression, CorsRule, ErrorPage, FieldTemplate, ForwardAuth,
    HeaderRule, Health, Https, MEASURED_PATHS, MediaTypes, Networks, Origin, Proxy, ProxyRequest, Redirect,
    RequestHeader, Rewrite, Rewritten, Site, Target, Template, Tries, Unclear, UpstreamAddress, UpstreamSocket,
    UpstreamVersion, UsersFile, Variable, split_host,
};
pub use uplink_rate::UplinkRate;
pub use value_forms::{
    ConcurrencySharing, LogFormat, Satisfy, Shaping, Statuses, has_ipv6, is_https_url, listen_address, listen_expected,
    timeout,
};
pub use zone::{in_zone, zoned};

use std::path::PathBuf;

use sched::classes::{ClassSpec, ClassTable};

/// A file without mistakes.
#[derive(Debug, Clone)]
pub struct Configuration {
    pub settings: Settings,
    pub sites: Vec<Site>,
    pub classes: Vec<Class>,
    /// The rules of all classes, in the order of the file. The first rule that matches decides.
    pub rules: Vec<Rule>,
    /// Remarks that are not mistakes, in the order of the file.
    pub notes: Vec<Remark>,
    pub files: FileNames,
    /// The folders that are searched for files to include.
    pub include_folders: Vec<PathBuf>,
}

impl Configuration {
    /// The assignment of requests to classes.
    pub fn assignment(&self) -> Assignment {
        Assignment::new(&self.classes, &self.rules, &self.sites, self.settings.uplink.default_class.as_ref())
    }

    /// Returns the classes of the file, followed by [`OTHERS`] at the lowest of their priorities. Returns `None` if the
    /// file has no classes.
    pub fn class_table(&self) -> Option<ClassTable> {
        let uplink = &self.settings.uplink;
        let priority = self.classes.iter().map(|class| class.priority).max()?;
        let others = ClassSpec { priority, is_pooled: true, ..ClassSpec::plain(OTHERS, uplink.policy.order().clone()) };
        let classes = self.classes.iter().map(|class| class.spec(uplink)).chain([others]).collect();
        Some(ClassTable { classes, slot_sharing: uplink.concurrency_sharing.into() })
    }

    /// The objective of each class, in the order of [`Configuration::class_table`].
    pub fn objectives(&self) -> Vec<Option<Objective>> {
        self.classes.iter().map(|class| class.objective.clone()).chain([None]).collect()
    }
}
