//! Files that a file includes: where they are found, which mistakes belong to which file, and the base of their paths.

use std::path::{Path, PathBuf};

use config::{Configuration, FileError, read_file};

/// A folder of files, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-include-{name}-{}", std::process::id()));
        let folder = Folder(path);
        files.iter().for_each(|(name, text)| folder.write(name, text));
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self) -> Result<Configuration, Vec<String>> {
        let folder = format!("{}/", self.0.display());
        read_file(&self.0.join("weir.toml")).map_err(|error| match error {
            FileError::Mistakes { files, mistakes, .. } => {
                mistakes.iter().map(|mistake| mistake.line(&files).replace(&folder, "")).collect()
            }
            error => vec![error.to_string()],
        })
    }

    fn mistakes(&self) -> Vec<String> {
        self.read().map(|_| Vec::new()).unwrap_or_else(|mistakes| mistakes)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn site(host: &str) -> String {
    format!("[[site]]\nhosts = ['{host}']\nroot = 'www'\n")
}

#[test]
fn files_are_read_in_the_order_of_their_names() {
    let folder = Folder::new(
        "order",
        &[
            (
                "weir.toml",
                "include = ['sites/*.toml', '/dev/../dev/null/*.toml', 'more.toml']\n[server]\naccess_log = 'a.log'\n",
            ),
            ("sites/b.toml", "[[site]]\nhosts = ['b.org']\nroot = '/srv/b'\naccess_log = '-'\n"),
            (
                "sites/a.toml",
                "[[site]]\nhosts = ['a.org']\nroot = 'a'\nfollow_symlinks_into = ['m']\n[[site.proxy]]\npath = '/x'\nto = [':1']\naccel_root = 'x'",
            ),
            ("sites/.b.toml.swp.toml", "broken"),
            ("sites/c.toml~", "broken"),
            ("more.toml", &format!("include = [\n  'deep/?.toml',\n] # more\n{}", site("more.org"))),
            ("deep/d.toml", &site("d.org")),
        ],
    );
    let read = folder.read().unwrap();
    let names: Vec<&str> = read.sites.iter().map(|site| site.name.as_str()).collect();
    assert_eq!(names, ["a.org", "b.org", "more.org", "d.org"]);
    let roots = read.sites.iter().map(|site| site.root.clone().unwrap());
    assert_eq!(roots.collect::<Vec<_>>(), ["sites/a", "/srv/b", "www", "deep/www"].map(PathBuf::from));
    assert_eq!(read.sites[0].links_into, [Path::new("sites/m")]);
    assert_eq!(read.sites[0].answers.proxies[0].accel_root.as_deref(), Some(Path::new("sites/x")));
    let log = |at: usize| read.sites[at].access_log.as_ref().map(|log| log.path.clone());
    assert_eq!([log(0), log(1)], [Some("a.log".into()), Some("-".into())]);
    let below = |name: &str| folder.0.join(name);
    assert!(
        [below("sites"), folder.0.clone(), below("deep")].iter().all(|folder| read.include_folders.contains(folder))
    );
    folder.write("sites/aa.toml", &site("new.org"));
    assert_eq!(folder.read().unwrap().sites.len(), 5, "a new file is taken");
}

#[test]
fn a_mistake_has_the_name_and_the_line_of_its_file() {
    let folder = Folder::new(
        "mistakes",
        &[
            ("weir.toml", &format!("include = ['sites/*.toml']\n{}", site("a.org"))),
            ("sites/a.toml", &format!("# A comment.\n\n{}indx = 1", site("b.org"))),
            ("sites/b.toml", &site("a.org")),
            ("sites/c.toml", &format!("{}[[site.header]]\npath = '/a'\nname = 'X'\nvalue = 'ü'\n", site("c.org"))),
        ],
    );
    assert_eq!(
        folder.mistakes(),
        [
            "sites/a.toml:6:1: unknown key `site.indx`: did you mean `site.index`?",
            "sites/b.toml:1:1: site `a.org`: expected a name of its own, line 2 of weir.toml has it",
            "sites/b.toml:2:10: site.hosts `a.org`: expected once, line 3 of weir.toml has it",
            "sites/c.toml:7:9: site.header.value `ü`: expected the value of a header field, on one line of visible characters",
        ]
    );
}

#[test]
fn a_file_is_whole_by_itself() {
    let folder = Folder::new(
        "whole",
        &[
            ("weir.toml", &format!("include = ['sites/*.toml']\n{}", site("a.org"))),
            ("sites/a.toml", "root = 'x'\n"),
            ("sites/b.toml", "[[site.header]]\nname = 'X'\nvalue = 'y'\n"),
            ("sites/c.toml", "[[site]]\nhosts = ['x\n"),
            ("sites/d.toml", ""),
        ],
    );
    let mistakes = folder.mistakes();
    assert_eq!(
        mistakes[..2],
        [
            "sites/a.toml:1:1: key `root` outside a table: expected a file of whole tables, such as [[site]]",
            "sites/b.toml:1:3: table `site`: expected [[site]] above the tables that are part of it",
        ]
    );
    assert!(mistakes.len() == 3 && mistakes[2].starts_with("sites/c.toml:2:"), "{mistakes:#?}");
    let twice = Folder::new(
        "twice",
        &[
            ("weir.toml", &format!("include = ['x.toml']\n[uplink]\nrate = 'off'\n{}", site("a.org"))),
            ("x.toml", "\n[uplink]\nrate = '1mbit'\n"),
        ],
    );
    assert_eq!(twice.mistakes(), ["x.toml:2:2: table `uplink` a second time: expected once"]);
}

#[test]
fn circles_and_files_that_cannot_be_read_are_refused() {
    let folder = Folder::new(
        "circles",
        &[
            ("weir.toml", &format!("include = ['a.toml', 'none.toml', 'sites', '[']\n{}", site("a.org"))),
            ("a.toml", "\ninclude = ['b.toml']\n"),
            ("b.toml", "include = ['*.toml']\n"),
            ("sites/x", ""),
        ],
    );
    let mistakes = folder.mistakes();
    let begins = [
        "weir.toml:1:22: include `none.toml`: cannot read it: No such file or directory",
        "weir.toml:1:35: include `sites`: cannot read it: it is a folder",
        "weir.toml:1:44: include `[`: ",
        "b.toml:1:12: include `a.toml`: is already included; expected each file once, and no cycle",
        "b.toml:1:12: include `b.toml`: is already included",
        "b.toml:1:12: include `weir.toml`: is already included",
    ];
    assert_eq!(mistakes.len(), begins.len(), "{mistakes:#?}");
    for (mistake, begin) in mistakes.iter().zip(begins) {
        assert!(mistake.starts_with(begin) && !mistake.contains("os error"), "{mistake}\n{begin}");
    }
}

#[test]
fn a_text_alone_includes_nothing() {
    let text = format!("include = ['none.toml']\n{}", site("a.org"));
    assert_eq!(config::read(text.as_bytes()).unwrap().sites.len(), 1);
    let wrong = config::read(format!("include = 'x'\n{}", site("a.org")).as_bytes()).unwrap_err();
    assert!(wrong[0].said.starts_with("include `x`: expected a list in brackets"), "{wrong:?}");
}
