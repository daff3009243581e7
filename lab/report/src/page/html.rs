//! What text has to be to stand in a page beside what maud escapes.

use maud::{Markup, PreEscaped};

/// JSON that may stand within a script element: nothing in it ends one.
pub(super) fn json(value: &serde_json::Value) -> Markup {
    PreEscaped(value.to_string().replace('<', "\\u003c"))
}

/// A name as a part of an id or an address: letters, digits, `-`.
pub(super) fn slug(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out() {
        let text = "<a href=\"x\">&";
        let escaped = "&lt;a href=&quot;x&quot;&gt;&amp;";
        let said = maud::html! { p title=(text) { (text) } }.into_string();
        assert_eq!(said, format!("<p title=\"{escaped}\">{escaped}</p>"));
        assert_eq!(json(&serde_json::json!("</script>")).into_string(), "\"\\u003c/script>\"");
        assert_eq!(slug("003, W1/A"), "003--w1-a");
    }
}
