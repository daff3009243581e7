//! What of an experiment the load generator has to know.

use std::time::Duration;

use super::Experiment;

impl Experiment {
    /// The flags of `weirlab load` that decide which jobs are submitted and when; with the seed they decide all of it.
    pub fn load_flags(&self) -> Vec<String> {
        let mut words: Vec<String> = vec![];
        let mut flag = |name: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value]));
        };
        flag("trace", self.trace.as_ref().map(|trace| trace.display().to_string()));
        flag("rho", self.rho.map(|rho| rho.to_string()));
        flag("profile", self.profile.clone());
        flag("users", self.users.map(|users| users.to_string()));
        flag("uplink", Some(self.link.to_string()));
        flag("seconds", Some(self.seconds.to_string()));
        flag("seed", Some(self.seed.to_string()));
        match &self.session {
            None => flag("per-connection", Some(self.per_connection.to_string())),
            Some(session) => flag("session", Some(format!("{},{}", session.requests, in_ms(session.think)))),
        }
        flag("abort", self.abort.map(in_ms));
        flag("retries", self.retries.map(|retries| retries.to_string()));
        flag("grace", self.grace.map(in_ms));
        words.extend(self.surge.map(|surge| format!("--surge={}", surge.model().name)));
        // Users and sessions ask without end.
        let ends = self.users.is_none() && self.session.is_none();
        words.extend((self.repeat && ends).then(|| "--repeat".to_owned()));
        words
    }
}

/// Millionths of a second are finer than any time of an experiment.
fn in_ms(time: Duration) -> String {
    format!("{}ms", time.as_micros() as f64 / 1000.0)
}
