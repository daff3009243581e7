//! `weirlab report --md`: an experiment with points, a figure and its claims, as Markdown and as kept claims.

use std::fs;
use std::path::Path;

use crate::{Folder, report, run, text};

/// `fair` takes 90 ms at both loads, `srpt` 30 ms at 0.5 and 10 ms at 0.8, where `late` is void.
const EXPERIMENT: &str = "\
question = \"does it <b>help</b>?\"
link = \"10mbit\"
seconds = 1
profile = \"1s@1.2,1s@0.2\"
[vary]
seed = [2, 10]
[figure]
paper = \"000\"
figure = \"3\"
claim = \"3-8 x lower\"
[[figure.expect]]
text = \"3-8 x\"
value = \"response_time_ms.mean\"
of = \"fair\"
over = \"srpt\"
least = 2.0
most = 8.0
larger = \"more\"
[[figure.expect]]
text = \"late is sooner\"
point = \"seed-10\"
value = \"slowdown_mean\"
of = \"late\"
most = 100.0
[[figure.expect]]
text = \"nobody drops\"
point = \"seed-2\"
value = \"syn_drops\"
of = \"srpt\"
most = 0.0
[[run]]
name = \"srpt\"
server = \"weir\"
baseline = \"fair\"
[[run]]
name = \"fair\"
server = \"nginx\"
[[run]]
name = \"late\"
server = \"weir\"
";

/// An experiment folder as `weirlab run` leaves it.
fn experiment(test: &str) -> Folder {
    let folder = Folder::new("report", test);
    let out = folder.path().join("000-fig3");
    let write = |point: &str, name: &str, response_ms, void: Option<&str>| {
        let mut run = run(name, response_ms);
        run.manifest.void = void.map(String::from);
        run.manifest.environment.insert("wire".into(), "netem rate 10000000".into());
        run.manifest.policy = if name == "fair" { "fair" } else { "srpt" }.into();
        run.manifest.baseline = (name == "srpt").then(|| "fair".into());
        run.write(&out.join(point).join(name)).expect("a run can be written");
    };
    for (point, srpt_ms) in [("seed-2", 30), ("seed-10", 10)] {
        write(point, "fair", 90, None);
        write(point, "srpt", srpt_ms, None);
    }
    write("seed-10", "late", 90, Some("requests were <late>"));
    fs::write(out.join("experiment.toml"), EXPERIMENT).unwrap();
    fs::write(out.join("left-out.json"), "{ \"seed-2/late\": \"no <cake>\", \"seed-2/srpt\": \"was made since\" }")
        .unwrap();
    folder
}

fn made(folder: &Folder) -> String {
    let [markdown, claims] = ["page.md", "claims.json"].map(|name| folder.path().join(name));
    let output = report(&[folder.path(), Path::new("--md"), &markdown, Path::new("--claims"), &claims]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::read_to_string(markdown).unwrap()
}

#[test]
fn claims_stand_beside_what_was_found() {
    let folder = experiment("claims");
    let markdown = made(&folder);
    for row in [
        "| 3-8 x | 5.20 ×, 1 trace | - | undecided: 1 trace; a verdict needs 5 |",
        "**void**: requests were <late> |",
        "not measured: syn_drops was not measured or has no value |",
        "| ~~late~~ |",
        "- void: late: requests were <late>",
        "- not here: late: no <cake>",
    ] {
        assert!(markdown.contains(row), "`{row}` is not in\n{markdown}");
    }
    assert!(markdown.find("### seed-2").unwrap() < markdown.find("### seed-10").unwrap(), "in the order of the file");
    let claims = fs::read_to_string(folder.path().join("claims.json")).unwrap();
    let kept: Vec<serde_json::Value> = serde_json::from_str(&claims).unwrap();
    assert_eq!((kept.len(), &kept[0]["traces"]), (3, &1.into()), "{claims}");
    assert!((kept[0]["value"].as_f64().unwrap() - 27f64.sqrt()).abs() < 1e-9, "the geometric mean of 3 and 9");
}

/// A run that was left out, or lost, is not to look as if nobody had thought of it.
#[test]
fn what_is_not_here_is_named() {
    let folder = experiment("absent");
    let out = folder.path().join("000-fig3");
    let not_here = |markdown: &str| -> Vec<String> {
        markdown.lines().filter_map(|line| line.strip_prefix("- not here: ")).map(str::to_string).collect()
    };
    let markdown = made(&folder);
    assert_eq!(not_here(&markdown), ["late: no <cake>"], "what was made since is here");
    let table = report(&[&out.join("seed-10")]);
    assert!(!text(&table.stdout).contains("SKIPPED"));

    fs::remove_dir_all(out.join("seed-2")).unwrap();
    fs::remove_dir_all(out.join("seed-10/fair")).unwrap();
    let gone = ["seed-2 / late: no <cake>", "seed-2 / srpt: was made since", "seed-2 / fair: no finished run is here"];
    assert_eq!(not_here(&made(&folder)), [&gone[..], &["fair: no finished run is here"]].concat());
    fs::remove_file(out.join("left-out.json")).unwrap();
    assert_eq!(not_here(&made(&folder))[0], "seed-2: no finished run is here");

    // Of an experiment that this machine could do nothing of there is a reason, and no run.
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("experiment.toml"), EXPERIMENT).unwrap();
    fs::write(other.join("left-out.json"), "{ \"seed-2/fair\": \"no nginx\" }").unwrap();
    assert!(not_here(&made(&folder)).contains(&"seed-2 / fair: no nginx".to_string()));
}

#[test]
fn mistakes_are_named() {
    let folder = experiment("mistakes");
    let out = folder.path().join("page.md");
    let both = report(&[folder.path(), Path::new("--md"), &out, Path::new("--json")]);
    assert_eq!((both.status.code(), text(&both.stdout)), (Some(2), String::new()));
    let file = folder.path().join("000-fig3/experiment.toml");
    fs::write(&file, EXPERIMENT.replace("over = \"srpt\"", "over = \"sprt\"")).unwrap();
    let wrong = report(&[folder.path(), Path::new("--md"), &out]);
    let said = format!("{}:11: there is no run `sprt`; the runs are srpt, fair, late", file.display());
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains(&said) && !out.exists(), "{}", text(&wrong.stderr));
    fs::create_dir(folder.path().join("empty")).unwrap();
    let empty = report(&[&folder.path().join("empty"), Path::new("--md"), &out]);
    assert_eq!(empty.status.code(), Some(1));
    assert!(text(&empty.stderr).contains("no run here"), "{}", text(&empty.stderr));
}
