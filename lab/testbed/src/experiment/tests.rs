//! Points and set-ups.

use std::path::{Path, PathBuf};

use super::{ExperimentFile, Load, Overrides, Surge};

const TOP: &str = "question = \"q\"\nlink = \"10mbit\"\nseconds = 60\n";
const RUN: &str = "[[run]]\nname = \"a\"\nserver = \"nginx\"\n";

fn parse(middle: &str) -> Result<ExperimentFile, String> {
    let text = format!("{TOP}{middle}\n{RUN}");
    ExperimentFile::parse(&text, Path::new("x.toml"), &Overrides::default()).map_err(|e| e.to_string())
}

fn names(file: &ExperimentFile) -> Vec<&str> {
    file.points().iter().map(|point| point.name.as_str()).collect()
}

#[test]
fn every_combination_is_a_point() {
    let file = parse("[vary]\nlink = [\"10mbit\", \"1gbit\"]\nrho = [0.5, 0.8]").unwrap();
    let want = ["link-10mbit_rho-0.5", "link-10mbit_rho-0.8", "link-1gbit_rho-0.5", "link-1gbit_rho-0.8"];
    assert_eq!(names(&file), want);
    let last = &file.points()[3];
    assert_eq!((last.experiment.load.rho, last.experiment.link.bits_per_s()), (Some(0.8), 1_000_000_000));
    assert_eq!(last.values["link"].as_str(), Some("1gbit"));
    assert!(file.varies_key("rho") && !file.varies_key("seed"));
}

#[test]
fn a_table_sets_several_keys_under_one_name() {
    let vary = "rho = 0.8\n[vary]\ntrap = [{ name = \"today\" }, { name = \"reno\", congestion_control = \"reno\", seed = 2 }]";
    let file = parse(vary).unwrap();
    assert_eq!(names(&file), ["trap-today", "trap-reno"]);
    let [today, reno] = [0, 1].map(|n| &file.points()[n].experiment);
    assert_eq!((today.congestion_control.as_str(), today.load.seed), ("cubic", 1));
    assert_eq!((reno.congestion_control.as_str(), reno.load.seed), ("reno", 2));
    assert_eq!(file.points()[1].values["trap"].as_str(), Some("reno"));
}

#[test]
fn one_point_is_without_a_name() {
    let file = parse("rho = 0.8").unwrap();
    assert_eq!((names(&file), file.varies()), (vec![""], false));
}

#[test]
fn mistakes_have_the_line_of_the_value() {
    for (middle, line, says) in [
        ("[vary]\nrho = [\n0.5,\n0.0]", 7, "`0` is not a load"),
        ("[vary]\nrho = 0.5", 5, "what varies is a list: write rho = [ONE, OTHER]"),
        ("[vary]\nrho = []", 5, "the list is empty"),
        ("[vary]\nrho = [0.5, 0.5]", 5, "`0.5` is there twice"),
        ("vary = 3", 4, "vary is a table"),
        ("[vary]\nrhoo = [0.5]", 5, "unknown field `rhoo`"),
        ("rho = 0.8\n[vary]\ntrap = [{ seed = 1 }]", 6, "a table in [vary] has a `name`"),
        ("rho = 0.8\n[vary]\nseconds.x = [1]", 6, "`seconds.x` cannot be varied"),
        ("rho = 0.8\nsetup = \"none\"", 5, "there is no set-up `none`"),
        ("rho = 0.8\nsetup = \"../up\"", 5, "`../up` is not a name for a set-up"),
    ] {
        let said = parse(middle).unwrap_err();
        assert!(said.starts_with(&format!("x.toml:{line}: {says}")), "{middle}: {said}");
    }
}

#[test]
fn what_is_asked_for_must_be_there() {
    let mut file = parse("[vary]\nrho = [0.5, 0.8]").unwrap();
    let said = file.keep_only(&[], &["rho-0.6".into()]).unwrap_err();
    assert_eq!(said, "there is no point `rho-0.6`; the points are rho-0.5, rho-0.8");
    file.keep_only(&["a".into()], &["rho-0.8".into()]).unwrap();
    assert_eq!(names(&file), ["rho-0.8"]);
    assert!(parse("rho = 0.8").unwrap().keep_only(&[], &["rho-0.8".into()]).unwrap_err().ends_with("x varies nothing"));
}

/// A folder of set-ups, removed at the end.
struct Setups(PathBuf);

impl Setups {
    fn new(name: &str, setups: &[(&str, &str)]) -> Setups {
        let folder = std::env::temp_dir().join(format!("weir-setups-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("setups")).unwrap();
        for (name, text) in setups {
            std::fs::write(folder.join(format!("setups/{name}.toml")), text).unwrap();
        }
        Setups(folder)
    }

    fn parse(&self, text: &str) -> Result<ExperimentFile, String> {
        ExperimentFile::parse(text, &self.0.join("x.toml"), &Overrides::default()).map_err(|e| e.to_string())
    }
}

impl Drop for Setups {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_setup_fills_in_what_the_file_does_not_say() {
    let outer = "setup = \"inner\"\nrho = 0.8\nseed = 3";
    let setups = Setups::new("fills", &[("inner", &format!("{TOP}{RUN}")), ("outer", outer)]);
    let own = RUN.replace("\"a\"", "\"b\"");
    let file = setups.parse(&format!("setup = \"outer\"\nseed = 4\n{own}")).unwrap();
    let experiment = &file.points()[0].experiment;
    assert_eq!((experiment.load.rho, experiment.load.seed, experiment.seconds()), (Some(0.8), 4, 60));
    assert_eq!(experiment.runs().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    // The copy kept with the results no longer needs a set-up.
    let again = ExperimentFile::parse(&file.text, Path::new("y.toml"), &Overrides::default()).unwrap();
    assert_eq!(again.points()[0].experiment, *experiment);
}

#[test]
fn a_mistake_in_a_setup_names_its_file_and_line() {
    let setups = Setups::new("wrong", &[("bad", "\nlink = 5\n"), ("round", "setup = \"round\"")]);
    let said = setups.parse(&format!("setup = \"bad\"\nrho = 0.8\nseconds = 1\nquestion = \"\"\n{RUN}")).unwrap_err();
    assert!(said.contains("setups/bad.toml:2: invalid type"), "{said}");
    assert!(setups.parse("setup = \"round\"").unwrap_err().contains("set-ups build on each other"));
}

#[test]
fn the_digest_is_of_what_is_measured() {
    let digest = |middle: &str, jobs: &str| {
        let file = parse(middle).unwrap();
        let point = &file.points()[0];
        point.digest(point.experiment.runs().find(|run| run.name == "a").unwrap(), jobs)
    };
    let one = digest("rho = 0.8\nseed = 2", "jobs");
    assert_eq!(one, digest("seed = 2\nrho = 0.8", "jobs"));
    assert_eq!(one, digest("seed = 2\nrho = 0.8\n[[run]]\nname = \"other\"\nserver = \"weir\"", "jobs"));
    assert_eq!(one, digest("seed = 2\nrho = 0.8\n[figure]\npaper = \"000\"", "jobs"));
    assert_ne!(one, digest("seed = 2\nrho = 0.8", "other jobs"));
    assert_ne!(one, digest("seed = 3\nrho = 0.8", "jobs"));
}

#[test]
fn a_command_line_goes_before_the_file() {
    let overrides = Overrides { seconds: Some(7), rho: Some(0.5), trace: Some("here".into()), ..Overrides::default() };
    let text = format!("{TOP}rho = 0.8\n{RUN}");
    let file = ExperimentFile::parse(&text, Path::new("far/x.toml"), &overrides).unwrap();
    let experiment = &file.points()[0].experiment;
    assert_eq!((experiment.seconds(), experiment.load.rho), (7, Some(0.5)));
    assert_eq!(experiment.load.trace.as_deref(), Some(Path::new("here")));
}

fn load(middle: &str) -> Load {
    parse(middle).unwrap().points()[0].experiment.load.clone()
}

/// A command line with only a load.
#[derive(clap::Parser)]
struct Words {
    #[command(flatten)]
    load: Load,
}

#[test]
fn a_load_is_the_same_in_a_file_and_as_flags_and_as_it_is_handed_on() {
    let users = "abort = \"1.5s\"\nretries = 2\ngrace = \"40.001us\"\nseed = 9";
    let flags_of_users = "--abort 1.5s --retries 2 --grace 40.001us --seed 9";
    for (file, flags) in [
        ("rho = 0.8", ""),
        (
            "rho = 0.9016994374947451\nrepeat = true\nshuffle = true\nper_connection = 3\nroutes = \"100~0.5\"",
            "--rho 0.9016994374947451 --repeat --shuffle --per-connection 3 --routes 100~0.5",
        ),
        ("profile = \"W1\"\nsurge = \"000\"", "--profile W1 --surge=000"),
        ("users = 300\nsurge = \"002\"", "--users 300 --surge=002"),
    ] {
        let load = load(&format!("{file}\n{users}"));
        let words = format!("load {flags} {flags_of_users} --seconds 60");
        let words = if flags.is_empty() { words.replace("load ", "load --rho 0.8") } else { words };
        assert_eq!(<Words as clap::Parser>::parse_from(words.split_whitespace()).load, load, "{flags}");
        let handed = serde_json::to_string(&load).unwrap();
        assert_eq!(serde_json::from_str::<Load>(&handed).unwrap(), load, "{handed}");
    }
}

#[test]
fn a_wrong_flag_of_a_load_is_named_with_what_would_be_right() {
    for (words, says) in [
        ("--surge=1999", "--surge: `1999` is no model: write one of 000, 002, such as --surge=000"),
        ("--routes 0", "--routes: `0` is no number of routes: write 1 to 676"),
        ("--abort 7", "--abort: `7` is not a duration: write "),
    ] {
        let words = ["load", "--rho=1"].into_iter().chain(words.split(' '));
        let Err(error) = <Words as clap::Parser>::try_parse_from(words) else { panic!("{says}") };
        assert!(error.to_string().starts_with(&format!("error: {says}")), "{error}");
    }
}

#[test]
fn a_load_that_ends_is_repeated_where_that_is_wanted() {
    assert!(load("rho = 0.8\nshuffle = true").shuffle && !load("rho = 0.8").shuffle);
    let said = parse("users = 9\nshuffle = true").unwrap_err();
    assert!(said.contains("shuffle is of a trace: surge, users, webstone and pages draw"), "{said}");
    assert!(load("rho = 0.8\nrepeat = true").repeat && !load("rho = 0.8").repeat);
}

/// A key of the load that a file does not have is an error there, whatever the type calls it.
#[test]
fn the_keys_of_the_load_are_the_files() {
    let said = parse("rhoo = 0.8\nrho = 0.8").unwrap_err();
    assert!(said.starts_with("x.toml:4: unknown field `rhoo`, expected one of `question`, "), "{said}");
    assert!(said.contains("`rho`, `profile`, `seconds`, ") && !said.contains("`load`"), "{said}");
    let said = parse("load = { rho = 0.8 }").unwrap_err();
    assert!(said.starts_with("x.toml:4: unknown field `load`, "), "{said}");
    let said = parse("users = 5000000000").unwrap_err();
    assert!(said.starts_with("x.toml:4: `5000000000` users are too many: write 1 to "), "{said}");
}

#[test]
fn pages_are_a_load_of_their_own() {
    let pages = load("rho = 0.8\npages = true");
    assert!(pages.pages && !load("rho = 0.8").pages);
    let handed = serde_json::to_string(&pages).unwrap();
    assert_eq!((handed.contains("\"pages\":true"), serde_json::from_str::<Load>(&handed).unwrap()), (true, pages));
    let words = "load --pages --rho 0.8 --seconds 60".split(' ');
    assert!(<Words as clap::Parser>::parse_from(words).load.pages);
    for (with, says) in [
        ("profile = \"W1\"", "x.toml:1: pages without rho: write the load of the link, rho = 0.8"),
        ("users = 9", "x.toml:1: pages without rho"),
        ("rho = 0.8\ntrace = \"t\"", "x.toml:1: pages have requests and connections of their own: leave trace out"),
        ("rho = 0.8\nsurge = \"002\"", "leave surge out"),
        ("rho = 0.8\nrepeat = true", "leave repeat out"),
        ("rho = 0.8\nper_connection = 9", "leave per_connection out"),
        ("rho = 0.8\nabort = \"7s\"", "leave abort out"),
        ("rho = 0", "`0` is not a load"),
    ] {
        let said = parse(&format!("pages = true\n{with}")).unwrap_err();
        assert!(said.contains(says), "{with}: {said}");
    }
    let run = "pages = true\nrho = 0.8\n[[run]]\nname = \"b\"\nserver = \"nginx\"\ntls = true\nh2 = 100\n";
    assert!(parse(run).is_ok(), "a connection carries all of a page");
}

#[test]
fn surge_says_whose_it_is() {
    assert_eq!(load("rho = 0.8\nsurge = \"002\"").surge, Some(Surge::Alsadeh2008));
    let users = load("users = 50\nsurge = \"000\"");
    assert_eq!((users.users, users.surge), (Some(50), Some(Surge::Harchol2003)));
    let said = parse("rho = 0.8\nsurge = \"open\"").unwrap_err();
    assert!(said.starts_with("x.toml:5: unknown variant `open`, expected `000` or `002`"), "{said}");
    assert!(parse("rho = 0.8\nsurge = \"000\"\ntrace = \"t\"").unwrap_err().contains("leave trace out"));
}
