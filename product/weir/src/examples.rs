//! Tests the examples in the documentation: every excerpt of a configuration, and every command line of `weir`.

use std::path::{Path, PathBuf};

use clap::Parser;

use super::Cli;

/// Pages whose configurations are for the laboratory.
const OTHERS: [&str; 3] = ["weirlab.md", "workloads.md", "line-experiments.md"];
/// Text to put before and after an excerpt of a configuration. Every excerpt must be a correct file with one of these
/// pairs.
const AROUND: [(&str, &str); 7] = [
    ("", ""),
    ("[[site]]\nroot = '/srv/www'\n", ""),
    ("[[site]]\n", "\n[[site.proxy]]\nto = ['127.0.0.1:3000']\n"),
    ("", "\n[[site]]\nroot = '/srv/www'\n"),
    ("", "\n[[site]]\nroot = '/srv/www'\ncert = 'chain.pem'\nkey = 'key.pem'\n"),
    ("", "\n[[site]]\nhosts = ['shop.example.net']\nroot = '/srv/www'\n"),
    ("[uplink]\ndefault_class = 'paid'\n", "\n[[site]]\nroot = '/srv/www'\n"),
];

fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    pages.push(root.join("README.md"));
    pages.sort();
    pages.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The code blocks of a page: language, first line and text.
fn blocks(page: &str) -> Vec<(&str, usize, String)> {
    let mut blocks: Vec<(&str, usize, String)> = Vec::new();
    let mut is_inside = false;
    for (number, line) in page.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(word) => {
                is_inside = !is_inside;
                if is_inside {
                    blocks.push((word, number + 2, String::new()));
                }
            }
            None if is_inside => *blocks.last_mut().map(|(_, _, text)| text).unwrap() += &format!("{line}\n"),
            None => {}
        }
    }
    assert!(!is_inside, "the last block has no end");
    blocks
}

#[test]
fn every_configuration_is_right() {
    let mut count = 0;
    for (path, page) in pages().iter().filter(|(path, _)| !OTHERS.iter().any(|other| path.ends_with(other))) {
        for (_, line, text) in blocks(page).iter().filter(|(word, ..)| *word == "toml") {
            let tried = AROUND.map(|(before, behind)| config::read(format!("{before}{text}{behind}").as_bytes()).err());
            let mistakes = tried.iter().flatten().min_by_key(|mistakes| mistakes.len());
            assert!(tried.iter().any(Option::is_none), "{}:{line}: {mistakes:?}", path.display());
            count += 1;
        }
    }
    assert!(count >= 15, "{count} configurations");
}

#[test]
fn packaged_configurations_are_right() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let read = |name: &str| std::fs::read_to_string(packaging.join(name)).unwrap();
    let values = read("helm/values.yaml");
    let (_, below) = values.split_once("\nconfiguration: |\n").unwrap();
    let of_chart: String = below
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("  "))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert!(of_chart.contains("[[site.proxy]]"), "{of_chart}");
    for text in [read("weir.toml"), of_chart] {
        assert!(config::read(text.as_bytes()).is_ok(), "{text}");
    }
}

/// Files and images are named by the version.
#[test]
fn pages_and_packages_name_this_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let version = env!("CARGO_PKG_VERSION");
    for (name, of_version) in [
        ("docs/install.md", format!("weir_{version}_amd64.deb")),
        ("docs/install.md", format!("weir:{version} run")),
        ("packaging/compose.yaml", format!("weir:{version}\n")),
        ("packaging/helm/Chart.yaml", format!("appVersion: \"{version}\"")),
        ("CHANGELOG.md", format!("\n## {version}")),
    ] {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        assert!(text.contains(&of_version), "{name}: expected {of_version}");
    }
}

#[test]
fn every_command_line_parses() {
    let mut count = 0;
    for (path, page) in pages() {
        for (_, first, text) in blocks(&page) {
            for (number, line) in text.lines().enumerate() {
                let Some(words) = command(line) else { continue };
                let parsed = Cli::try_parse_from(&words);
                assert!(parsed.is_ok(), "{}:{}: {words:?}: {:?}", path.display(), first + number, parsed.err());
                count += 1;
            }
        }
    }
    assert!(count >= 25, "{count} command lines");
}

/// Returns the words of a line that runs `weir`, directly, as root or in a container.
fn command(line: &str) -> Option<Vec<&str>> {
    // Without a comment, or another program that reads the output.
    let line = line.split(" # ").next()?.split(" | ").next()?.split(" >").next()?.trim();
    let words = words(line.strip_prefix("sudo ").unwrap_or(line));
    match words.first()? {
        &"weir" => Some(words),
        &"podman" | &"docker" => {
            let image = words.iter().position(|word| word.starts_with("weir:")).filter(|at| at + 1 < words.len())?;
            Some(std::iter::once("weir").chain(words[image + 1..].iter().copied()).collect())
        }
        _ => None,
    }
}

/// Splits a line into words like a shell, with quotes around whole words only.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        if at % 2 == 1 { words.push(part) } else { words.extend(part.split_whitespace()) }
    }
    words
}

/// Checks that the parser, `--help-all` and the page list the same policies.
#[test]
fn every_policy_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/policies.md")).unwrap();
    let help = Cli::try_parse_from(["weir", "serve", "--help-all"]).err().unwrap().to_string();
    let forms: Vec<&str> = server::POLICY_FORMS.split(", ").collect();
    assert!(forms.len() > 9, "{forms:?}");
    for form in forms {
        let spec = form.split('[').next().unwrap().replace("EXPRESSION", "left");
        assert!(spec.parse::<server::PolicySpec>().is_ok(), "{spec}");
        assert!(help.contains(form), "{form} is not in --help-all: {help}");
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let name = spec.split(':').next();
        let is_row = |line: &str| line.split('`').any(|word| word.split(':').next() == name);
        assert!(rows.into_iter().any(is_row), "{spec} has no row in docs/policies.md");
    }
}

#[test]
fn a_mistake_would_be_found() {
    let page = "a\n```toml\n[uplink]\nrat = \"1mbit\"\n```\n```\nsudo weir serve --no-such /srv | tee x\n```\n";
    let blocks = blocks(page);
    assert_eq!(blocks[0], ("toml", 3, "[uplink]\nrat = \"1mbit\"\n".into()));
    assert!(
        AROUND
            .iter()
            .all(|(before, behind)| { config::read(format!("{before}{}{behind}", blocks[0].2).as_bytes()).is_err() })
    );
    let words = command(&blocks[1].2).unwrap();
    assert!(words == ["weir", "serve", "--no-such", "/srv"] && Cli::try_parse_from(words).is_err());
    assert_eq!(
        command("weir serve --policy 'rank:left * rtt' a | b").unwrap(),
        ["weir", "serve", "--policy", "rank:left * rtt", "a"]
    );
    assert_eq!(command("podman run --rm weir:0.2.0 proxy :1").unwrap(), ["weir", "proxy", ":1"]);
}
