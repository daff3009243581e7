//! Names in braces in the configuration of a run, such as `{address}`.
//!
//! A brace that begins anything else, such as a table of TOML, is plain text.

/// The names that are replaced in every run.
pub(crate) const OWN: [&str; 6] = ["address", "site", "link", "policy", "shaping", "access_log"];

/// The additional name in a run with an upstream.
pub(crate) const UPSTREAM: &str = "upstream";

/// The name at the beginning, if the text begins with a name in braces.
fn first(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.split_once('}')?.0;
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    (is_name && !name.is_empty()).then_some(name)
}

/// The first name that `is_known` rejects.
pub(crate) fn unknown(text: &str, is_known: impl Fn(&str) -> bool) -> Option<&str> {
    text.match_indices('{').filter_map(|(at, _)| first(&text[at..])).find(|name| !is_known(name))
}

/// Returns the text with each name replaced by its value; values are not scanned again.
pub(crate) fn fill<E>(text: &str, mut value: impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
    let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.find('{').map(|at| rest.split_at(at)) {
        filled.push_str(before);
        let taken = match first(behind) {
            Some(name) => {
                filled.push_str(&value(name)?);
                name.len() + 2
            }
            None => {
                filled.push('{');
                1
            }
        };
        rest = &behind[taken..];
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_once_and_tables_stay() {
        let value = |name: &str| Ok::<_, ()>(format!("<{name}{{b}}>"));
        assert_eq!(fill("{a} x = { y = 1 } {} {{b} {ä} {", value).unwrap(), "<a{b}> x = { y = 1 } {} {<b{b}> {ä} {");
        assert_eq!(fill("{a}", |_| Err::<String, _>("no")), Err("no"));
    }

    #[test]
    fn the_first_unknown_name_is_found() {
        assert_eq!(unknown("{site} { x = 1 } {recods} {other}", |name| OWN.contains(&name)), Some("recods"));
        assert_eq!(unknown("{site}{access_log} {", |name| OWN.contains(&name)), None);
    }
}
