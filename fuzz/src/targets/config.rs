//! `weir.toml`: the input is the file. If it is valid, it is queried about a request.

use config::{Configuration, Question, explain, read};

use crate::{Reached, Target};

pub const TARGET: Target = Target {
    name: "config",
    run,
    reaches: &["a configuration", "classes", "mistakes", "notes", "sites"],
    seeds,
    mutants: 2_000,
};

const FILE: &str = "weir.toml";

fn run(bytes: &[u8]) -> Reached {
    let mut reached = Reached::default();
    match read(bytes) {
        Ok(configuration) => {
            reached.mark("a configuration");
            ask(&configuration, &mut reached);
        }
        Err(mistakes) => {
            reached.mark("mistakes");
            assert!(!mistakes.is_empty(), "no configuration and no mistake");
            let lines = bytes.split(|byte| *byte == b'\n').count();
            for mistake in &mistakes {
                assert!((1..=lines).contains(&(mistake.at.line as usize)), "{mistake:?} of {lines} lines");
                let line = mistake.line(FILE);
                assert!(!line.contains('\n'), "{line:?}");
            }
        }
    }
    reached
}

fn ask(configuration: &Configuration, reached: &mut Reached) {
    let client = Some([192, 0, 2, 1].into());
    for url in ["http://example.org/a/b.html?q", "https://www.example.org:8443/"] {
        let question = Question::new(url, client, &["X-Tier: gold".to_string()]).expect("a question of our own");
        assert!(!explain(configuration, &question).of_file(FILE).to_string().is_empty());
    }
    let classes = configuration.class_table().map_or(0, |table| table.classes.len());
    assert!(classes == 0 || classes == configuration.objectives().len());
    let _ = configuration.assignment();
    reached.mark_if(classes > 0, "classes");
    reached.mark_if(configuration.sites.len() > 1, "sites");
    reached.mark_if(!configuration.notes.is_empty(), "notes");
}

fn seeds() -> Vec<Vec<u8>> {
    let examples = [
        include_str!("../../../examples/small-site.toml"),
        include_str!("../../../examples/several-sites.toml"),
        include_str!("../../../examples/hoster.toml"),
    ];
    // Without their comments, which need no mutation.
    let bare = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let mut seeds: Vec<Vec<u8>> = examples.into_iter().map(|text| bare(text).into_bytes()).collect();
    let mistakes = [
        "[[site]]\nroot = \"/srv/www\"\nautoindx = true\n",
        "[uplink]\nrate = \"10 mbit\"\npolicy = \"srpt\"\n[uplink]\n",
        "[[site]]\nroot = 5\nhosts = [\"*.example.org\", \"*\", \"a b\"]\n[[site]]\n",
        "[[class]]\nname = \"a\"\nweight = -1\n[[class.rule]]\npath = \"/*\"\n[[class]]\nname = \"a\"\n",
        "\u{feff}[limits]\nconnections = 99999999999999999999\n",
        "[[site]]\nroot = \"\"\"\n/srv\n\"\"\"\n\0",
    ];
    seeds.extend(mistakes.map(|text| text.as_bytes().to_vec()));
    seeds
}
