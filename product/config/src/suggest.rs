//! Suggestions for misspelled words.

use crate::keys::{Form, Key, keys};
use crate::place::quoted;
use crate::renamed_words::gone;

/// Maximum edit distance between a word and its suggestion.
const DISTANCE_MAX: usize = 2;
/// The maximum length of a compared word. Longer words are not typing errors, and a comparison takes time proportional
/// to the product of the lengths.
const COMPARED_MAX: usize = 64;
/// The maximum number of words that are compared: comparing ten thousand sites for ten thousand mistakes would take
/// minutes.
const WORDS_MAX: usize = 200;

/// Returns the nearest word, if one is within [`DISTANCE_MAX`].
pub(crate) fn nearest<'w>(given: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    if given.len() > COMPARED_MAX {
        return None;
    }
    let given = given.to_lowercase();
    let distance = |word: &str| strsim::osa_distance(&given, &word.to_lowercase());
    // Any word of two letters is within a distance of two.
    let near = |word: &str, distance: usize| distance <= DISTANCE_MAX.min(word.chars().count() / 2);
    let words = words
        .into_iter()
        .take(WORDS_MAX)
        .map(|word| (distance(word), word))
        .filter(|(distance, word)| near(word, *distance));
    words.min().map(|(_, word)| word)
}

/// Returns the message about a key that this table does not have.
pub(crate) fn unknown_key(table: &str, name: &str) -> String {
    let named = |name: &str| if table.is_empty() { name.into() } else { format!("{table}.{name}") };
    if let Some(said) = gone(&named(name)) {
        return said;
    }
    let said = format!("unknown key {}", quoted(&named(name)));
    let names = || Key::of_table(table).map(|key| key.parts().1);
    let spelled = name.replace('-', "_");
    if let Some(guess) = nearest(&spelled, names()) {
        return format!("{said}: did you mean `{}`?", named(guess));
    }
    match keys().find(|key| key.parts().1 == spelled) {
        Some(elsewhere) => format!("{said}: did you mean `{}`?", elsewhere.path),
        None => format!("{said}: expected {}", names().collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the values that this form accepts, with a suggestion if it is a list of names.
pub(crate) fn with_guess(form: Form, given: &str) -> String {
    let expected = form.expected();
    match form {
        Form::OneOf(names) => guessed(expected, nearest(given, names.iter().copied())),
        _ => expected,
    }
}

pub(crate) fn guessed(expected: String, guess: Option<&str>) -> String {
    match guess {
        Some(guess) => format!("{expected}; did you mean `{guess}`?"),
        None => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_meant() {
        for (table, name, said) in [
            ("site", "autoidnex", "unknown key `site.autoidnex`: did you mean `site.autoindex`?"),
            ("uplink", "client-share", "unknown key `uplink.client-share`: did you mean `uplink.client_share`?"),
            ("", "sites", "unknown key `sites`: did you mean `site`?"),
            ("", "policy", "unknown key `policy`: did you mean `uplink.policy`?"),
            ("server", "ktls", "`server.ktls` is gone: Weir makes TLS records itself; leave it out"),
            ("listener", "zzz", "unknown key `listener.zzz`: expected address, tls, http3, proxy_protocol"),
        ] {
            assert_eq!(unknown_key(table, name), said);
        }
        assert_eq!(nearest("xy", ["ab"]), None);
        assert_eq!(nearest(&"listing".repeat(10), ["listing"]), None);
        assert_eq!(with_guess(Form::OneOf(&["json", "combined"]), "jsno"), "json or combined; did you mean `json`?");
    }
}
