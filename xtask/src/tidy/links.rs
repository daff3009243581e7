//! Links between pages. A page that moves leaves its links behind, and no compiler reads them.

use super::files::Tree;

/// A problem for every relative link in a Markdown page that leads to no file or folder of the tree.
pub fn check(tree: &Tree) -> Vec<String> {
    let pages = tree.texts.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| check_page(&page.path, &page.text, |path| tree.holds(path))).collect()
}

fn check_page(page: &str, text: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let broken = targets(text).filter(|(_, target)| !resolve(page, target).is_some_and(|path| is_there(&path)));
    broken.map(|(line, target)| format!("{page}:{line}: the link to `{target}` leads to no file of the tree")).collect()
}

/// Line numbers and targets of the links to files, without their anchors. Code between fences holds none.
fn targets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    let prose = text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    let targets = prose.flat_map(|(nth, line)| {
        let ends = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        ends.map(move |(target, _)| (nth + 1, target.split('#').next().unwrap_or_default()))
    });
    targets.filter(|(_, target)| !target.is_empty() && !target.contains(':'))
}

/// The target as a path from the root of the tree; `None` if it leaves the tree.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(page: &str, text: &str) -> Vec<String> {
        check_page(page, text, |path| ["README.md", "docs/a.md", "results/day"].contains(&path))
    }

    #[test]
    fn links_that_lead_somewhere_are_right() {
        let text =
            "[a](docs/a.md#part) and [b](results/day/), [c](https://example.org), [d](#here)\n```\nx](none)\n```\n";
        assert_eq!(problems("README.md", text), [""; 0]);
        assert_eq!(problems("docs/b.md", "[a](a.md) [r](../README.md) [d](./../results/day)"), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_told_with_their_line() {
        let said = problems("docs/b.md", "one\n[a](docs/a.md)\n[b](../../README.md) [c](a.md)");
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("docs/b.md:2: the link to `docs/a.md`"), "{said:?}");
        assert!(said[1].starts_with("docs/b.md:3: the link to `../../README.md`"), "{said:?}");
    }
}
