//! Every dependency has its reason, in one place, and every crate the workspace's lints.

use super::files::TextFile;

const WORKSPACE: &str = "Cargo.toml";

/// Crates that hold `unsafe` and so may write their own `[lints]`.
const OWN_LINTS: &[&str] = &["product/uplink/Cargo.toml", "product/server/Cargo.toml", "product/http2/Cargo.toml"];

const DEPENDENCY_SECTIONS: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

pub fn check(texts: &[TextFile]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in texts {
        if file.path == WORKSPACE {
            problems.extend(check_workspace(&file.text));
        } else if file.path.ends_with("/Cargo.toml") {
            problems.extend(check_crate(&file.path, &file.text));
        }
    }
    problems
}

/// A dependency that is not ours ends with `# reason` on its line.
fn check_workspace(text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let section = lines.skip_while(|(_, line)| line.trim() != "[workspace.dependencies]").skip(1);
    let dependencies = section.take_while(|(_, line)| !line.starts_with('[')).filter(|(_, line)| line.contains('='));
    let unexplained = dependencies.filter(|(_, line)| !line.contains("path =") && reason(line).is_none());
    let problem = |(at, line): (usize, &str)| {
        let name = line.split('=').next().unwrap_or("").trim();
        format!("{WORKSPACE}:{}: dependency `{name}` without its reason; end the line with `# why it is here`", at + 1)
    };
    unexplained.map(problem).collect()
}

/// The comment at the end of a line of TOML, if it says something.
fn reason(line: &str) -> Option<&str> {
    let mut in_string = false;
    let start = line.find(|c| {
        in_string ^= c == '"';
        c == '#' && !in_string
    })?;
    Some(line[start + 1..].trim()).filter(|text| !text.is_empty())
}

fn check_crate(path: &str, text: &str) -> Vec<String> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(e) => return vec![format!("{path}: {e}")],
    };
    let mut problems = Vec::new();
    let inherits = |value: Option<&toml::Value>| {
        value.and_then(|value| value.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
    };
    if !inherits(manifest.get("lints")) && !OWN_LINTS.contains(&path) {
        problems
            .push(format!("{path}: write `[lints] workspace = true`; only crates that hold `unsafe` have their own"));
    }
    for section in DEPENDENCY_SECTIONS {
        let Some(dependencies) = manifest.get(*section).and_then(toml::Value::as_table) else { continue };
        for name in dependencies.iter().filter(|(_, value)| !inherits(Some(value))).map(|(name, _)| name) {
            problems.push(format!(
                "{path}: write `{name}.workspace = true` and put `{name}` with its reason into {WORKSPACE}"
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_says_why() {
        let text = "[package]\nx = 1\n[workspace.dependencies]\n# Ours.\nunits = { path = \"u\" }\ncsv = \"1\" # text\n\
                    bare = \"1\"\nempty = \"1\" #\nhash = \"#1\"\n\n[profile.dev]\ndebug = 1\n";
        let problems = check_workspace(text);
        assert_eq!(problems.len(), 3, "{problems:?}");
        for (problem, said) in problems.iter().zip(["Cargo.toml:7: dependency `bare`", "`empty`", "`hash`"]) {
            assert!(problem.contains(said), "{problem}");
        }
    }

    #[test]
    fn a_crate_inherits_lints_and_versions() {
        let good = "[lints]\nworkspace = true\n[dependencies]\ncsv.workspace = true\n\
                    serde = { workspace = true, features = [\"rc\"] }\n";
        assert_eq!(check_crate("core/a/Cargo.toml", good), [""; 0]);
        let bad = "[lints.rust]\nunsafe_code = \"allow\"\n[dev-dependencies]\ncsv = \"1\"\n";
        let problems = check_crate("core/a/Cargo.toml", bad);
        assert!(
            problems[0].contains("[lints] workspace = true") && problems[1].contains("`csv.workspace"),
            "{problems:?}"
        );
        assert_eq!(check_crate("product/uplink/Cargo.toml", "[lints.rust]\nunsafe_code = \"allow\"\n"), [""; 0]);
    }

    #[test]
    fn a_manifest_that_does_not_parse_is_named() {
        assert!(check_crate("core/a/Cargo.toml", "[lints\n")[0].starts_with("core/a/Cargo.toml: "));
    }
}
