//! Flags and keys that there were, and flags of other servers: what is said to whoever uses one.

const RECORDS: &str = "the JSON access log has them, and `weirlab report LOG` reads it (docs/weirlab.md); write --access-log FILE --log-format json";

const RANKED: &str = "write bands, which `weir uplink up` makes (docs/attach.md)";

const PROMOTION: &str = "a response moves to a better band when nothing of its connection is queued; leave it out";

/// A flag as it is typed or a key with its table, each with a value where only that is gone, and what to do instead.
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
    ("--foreign-share", "write --cross-share"),
    ("uplink.foreign_share", "write uplink.cross_share"),
    ("--ktls", "records are made in the process; leave it out"),
    ("server.ktls", "records are made in the process; leave it out"),
];

const ADDRESS: &str = "the address is --listen, for example --listen :8080";
const FOLDER: &str = "the folder stands alone, as in weir serve FOLDER";

/// Flags that other servers have, and ours of the same meaning.
const ELSEWHERE: &[(&str, &str)] = &[
    ("--port", ADDRESS),
    ("--bind", ADDRESS),
    ("--host", ADDRESS),
    ("--address", ADDRESS),
    ("--root", FOLDER),
    ("--directory", FOLDER),
    ("--config", "the file stands alone, as in weir run weir.toml"),
    ("--browse", "write --listing"),
];

/// One line for a flag of another server; `None` for any other word.
pub fn elsewhere(word: &str) -> Option<String> {
    let (word, instead) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == word)?;
    Some(format!("unknown flag {word}: {instead}"))
}

/// One line for a flag or key that is gone; `None` for any other word.
pub fn gone(word: &str) -> Option<String> {
    let (word, instead) = GONE.iter().find(|(gone, _)| *gone == word)?;
    Some(format!("`{word}` is gone: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::keys;

    #[test]
    fn a_word_that_is_gone_is_no_key_and_is_answered_in_one_line() {
        for (word, instead) in GONE.iter().chain(ELSEWHERE) {
            assert!(!instead.contains('\n') && !instead.ends_with('.'), "{word}");
            assert!(keys().all(|key| key.path != *word), "{word}");
        }
        assert_eq!(gone("--ktls").unwrap(), "`--ktls` is gone: records are made in the process; leave it out");
        assert_eq!(gone("--port"), None);
        let port = "unknown flag --port: the address is --listen, for example --listen :8080";
        assert_eq!((elsewhere("--port").as_deref(), elsewhere("--listen")), (Some(port), None));
    }
}
