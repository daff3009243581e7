//! Flags, keys and commands that were renamed or removed, and flags of other servers. Each is refused in one line with
//! its replacement.

/// A flag, key or command that has a new name.
#[derive(Debug)]
pub struct Renamed {
    /// The old name: a flag with its dashes, a key with its table, or a command with `weir`.
    pub old: &'static str,
    pub new: &'static str,
    /// A value in the new form, as TOML for a key. Empty if the form has not changed.
    pub value: &'static str,
}

const fn renamed(old: &'static str, new: &'static str) -> Renamed {
    Renamed { old, new, value: "" }
}

/// All renamed words. docs/renamed.md has the same rows.
pub const RENAMED: &[Renamed] = &[
    renamed("server.slots", "server.max_accepted_connections"),
    Renamed { old: "uplink.guard", new: "uplink.starvation_share", value: r#""1%""# },
    Renamed { old: "uplink.cross_share", new: "uplink.other_traffic_share", value: r#""50%""# },
    Renamed { old: "uplink.foreign_share", new: "uplink.other_traffic_share", value: r#""50%""# },
    renamed("uplink.slot_sharing", "uplink.concurrency_sharing"),
    renamed("limits.body_rate_min", "limits.min_request_rate"),
    renamed("limits.send_rate_min", "limits.min_send_rate"),
    renamed("limits.send_window", "limits.min_send_rate_window"),
    renamed("timeouts.head", "timeouts.header"),
    renamed("timeouts.stop", "timeouts.shutdown"),
    renamed("site.listing", "site.autoindex"),
    renamed("site.hidden", "site.serve_dotfiles"),
    Renamed { old: "site.http", new: "site.https_redirect", value: "true" },
    renamed("site.proxy.ca", "site.proxy.tls_ca"),
    renamed("site.proxy.tls_name", "site.proxy.tls_server_name"),
    renamed("site.proxy.requests", "site.proxy.max_concurrent_requests"),
    renamed("site.proxy.requests_per_client", "site.proxy.max_concurrent_requests_per_client"),
    renamed("site.proxy.health", "site.proxy.health_uri"),
    renamed("site.proxy.health_every", "site.proxy.health_interval"),
    renamed("site.proxy.files", "site.proxy.accel_root"),
    renamed("site.proxy.spool", "site.proxy.max_temp_file_size"),
    renamed("class.guaranteed", "class.min_rate"),
    renamed("class.greatest", "class.max_rate"),
    renamed("class.max_concurrent", "class.max_concurrent_requests"),
    renamed("--slots", "--max-accepted-connections"),
    Renamed { old: "--guard", new: "--starvation-share", value: "1%" },
    Renamed { old: "--cross-share", new: "--other-traffic-share", value: "50%" },
    Renamed { old: "--foreign-share", new: "--other-traffic-share", value: "50%" },
    renamed("--body-rate-min", "--min-request-rate"),
    renamed("--send-rate-min", "--min-send-rate"),
    renamed("--send-window", "--min-send-rate-window"),
    renamed("--head-timeout", "--header-timeout"),
    renamed("--stop-timeout", "--shutdown-timeout"),
    renamed("--listing", "--autoindex"),
    renamed("--hidden", "--serve-dotfiles"),
    renamed("--tls-dev", "--tls-self-signed"),
    renamed("weir uplink watch", "weir status --watch"),
];

impl Renamed {
    /// Returns the line that refuses the old name, with a new value if the form has changed.
    fn said(&self) -> String {
        let Renamed { old, new, value } = self;
        let (noun, new, written) = match old {
            _ if old.starts_with("--") => ("flag", *new, format!("{new} {value}")),
            _ if old.contains(' ') => ("command", *new, String::new()),
            _ => {
                let name = new.rsplit('.').next().unwrap_or(new);
                ("key", name, format!("{name} = {value}"))
            }
        };
        let unit = if value.contains('%') { ", in percent" } else { "" };
        let write = if value.is_empty() { String::new() } else { format!("{unit}: write `{written}`") };
        format!("{noun} `{old}` is now `{new}`{write}")
    }
}

const RECORDS: &str = "the JSON access log has them, and `weirlab.records(LOG)` of the Python package reads it (docs/weirlab.md); write --access-log FILE --log-format json";

const RANKED: &str = "write bands, which `weir uplink up` makes (docs/attach.md)";

const PROMOTION: &str = "a response moves to a better band when nothing of its connection is queued; leave it out";

/// Removed words and their replacements: a flag as it is typed, or a key with its table, followed by a value if only
/// that value was removed.
const GONE: &[(&str, &str)] = &[
    ("--class", "write [[class]] tables in weir.toml and start with `weir run` (docs/policies.md)"),
    ("--drain", "write --shaping"),
    ("--carrier-rank", "a connection stands by its stage (docs/notebook/carriers.md); leave it out"),
    ("--promotion", PROMOTION),
    ("uplink.promotion", PROMOTION),
    ("--shaping ranked", RANKED),
    ("uplink.shaping ranked", RANKED),
    ("--qdisc ranked", "write htb, the default"),
    ("--into", "responses go into bands; leave it out"),
    ("--records", RECORDS),
    ("server.records", RECORDS),
    ("--ktls", "Weir makes TLS records itself; leave it out"),
    ("server.ktls", "Weir makes TLS records itself; leave it out"),
];

const ADDRESS: &str = "the address is --listen, for example --listen :8080";
const FOLDER: &str = "the folder needs no flag, as in weir serve FOLDER";

/// Flags of other servers, with their equivalents here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("--port", ADDRESS),
    ("--bind", ADDRESS),
    ("--host", ADDRESS),
    ("--address", ADDRESS),
    ("--root", FOLDER),
    ("--directory", FOLDER),
    ("--config", "the file needs no flag, as in weir run weir.toml"),
    ("--browse", "write --autoindex"),
];

/// Returns a line about a flag of another server; `None` for any other word.
pub fn elsewhere(word: &str) -> Option<String> {
    let (word, instead) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == word)?;
    Some(format!("unknown flag {word}: {instead}"))
}

/// Returns a line about a flag, key or command that was renamed or removed; `None` for any other word.
pub fn gone(word: &str) -> Option<String> {
    if let Some(renamed) = RENAMED.iter().find(|renamed| renamed.old == word) {
        return Some(renamed.said());
    }
    let (word, instead) = GONE.iter().find(|(gone, _)| *gone == word)?;
    Some(format!("`{word}` is gone: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Key, keys};

    #[test]
    fn renamed_keys_stay_in_their_table() {
        for Renamed { old, new, value } in RENAMED.iter().filter(|renamed| !renamed.old.contains(['-', ' '])) {
            assert!(Key::of(old).is_none(), "{old}");
            let key = Key::of(new).unwrap_or_else(|| panic!("{new} is no key"));
            assert_eq!(old.rsplit_once('.').unwrap().0, key.parts().0, "{old}");
            let read = format!("x = {value}").parse::<toml::Table>();
            assert!(value.is_empty() || read.is_ok(), "{old}: {value}");
        }
    }

    #[test]
    fn a_word_that_is_gone_is_no_key_and_is_answered_in_one_line() {
        for (word, instead) in GONE.iter().chain(ELSEWHERE) {
            assert!(!instead.contains('\n') && !instead.ends_with('.'), "{word}");
            assert!(keys().all(|key| key.path != *word), "{word}");
        }
        assert_eq!(gone("--ktls").unwrap(), "`--ktls` is gone: Weir makes TLS records itself; leave it out");
        assert_eq!(gone("--port"), None);
        assert_eq!(
            gone("uplink.guard").unwrap(),
            "key `uplink.guard` is now `starvation_share`, in percent: write `starvation_share = \"1%\"`"
        );
        assert_eq!(gone("class.greatest").unwrap(), "key `class.greatest` is now `max_rate`");
        let guard = "flag `--guard` is now `--starvation-share`, in percent: write `--starvation-share 1%`";
        assert_eq!(gone("--guard").unwrap(), guard);
        assert_eq!(gone("weir uplink watch").unwrap(), "command `weir uplink watch` is now `weir status --watch`");
        assert_eq!(
            gone("site.http").unwrap(),
            "key `site.http` is now `https_redirect`: write `https_redirect = true`"
        );
        let port = "unknown flag --port: the address is --listen, for example --listen :8080";
        assert_eq!((elsewhere("--port").as_deref(), elsewhere("--listen")), (Some(port), None));
    }
}
