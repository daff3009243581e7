//! The file of saved attaches. It has a table for each interface, whose keys are the names of the flags.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use ::uplink::classify::{Classes, ClientBy, Cuts, Settings};
use ::uplink::tree::Overhead;
use clap::Parser;
use cli::Failure;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use units::Rate;

use super::Args;
use super::classes::{self, CLASS, DEFAULT_CLASS, SavedClasses, Setting};
use super::rate::AttachRate;

pub const FILE: &str = "/etc/weir/attach.toml";
/// The maximum size of the file. A thousand interfaces take a fifth of it.
const FILE_BYTES_MAX: u64 = 1 << 20;
const RATE: &str = "rate";
const REPLACE: &str = "replace";
const OVERHEAD: &str = "overhead";
const UPLOADS: &str = "uploads";
const CLIENT_BY: &str = "client_by";
const KEYS: [&str; 12] = [
    "port",
    UPLOADS,
    RATE,
    OVERHEAD,
    "policy",
    "cuts",
    "client_share",
    "client_prefix",
    CLIENT_BY,
    REPLACE,
    DEFAULT_CLASS,
    CLASS,
];
/// The parser's message about a table or key that occurs twice.
const DUPLICATE: &str = "duplicate key";
const HEADING: &str = "# Attaches that stay: written by `weir attach --save`, made by `weir apply`.\n";

/// The attach that the file demands for an interface.
#[derive(Debug)]
pub struct Saved {
    pub interface: String,
    pub args: Args,
    pub classes: SavedClasses,
}

/// Arguments in the form that `weir attach` parses.
#[derive(clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Flags {
    #[command(flatten)]
    args: Args,
}

/// The file, read and without a mistake.
pub struct File {
    path: PathBuf,
    text: String,
    pub all: Vec<Saved>,
}

impl File {
    /// Opens the file. A missing file has no tables.
    pub fn open(path: &Path) -> Result<File, Failure> {
        match File::read(path) {
            Ok(file) => Ok(file),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(File { path: path.to_path_buf(), text: String::new(), all: Vec::new() })
            }
            Err(error) => Err(Failure::Failed(said_of(path, &error))),
        }
    }

    /// Opens the file, which must exist.
    pub fn open_existing(path: &Path) -> Result<File, Failure> {
        File::read(path).map_err(|error| {
            let is_missing = error.kind() == ErrorKind::NotFound;
            let cure = if is_missing { "; write one: weir attach eth0 --save" } else { "" };
            Failure::Failed(format!("{}{cure}", said_of(path, &error)))
        })
    }

    fn read(path: &Path) -> std::io::Result<File> {
        let about = fs::metadata(path)?;
        if !about.is_file() || about.len() > FILE_BYTES_MAX {
            let said = format!(
                "{} bytes, or no regular file; expected a file with a maximum of {FILE_BYTES_MAX} bytes",
                about.len()
            );
            return Err(std::io::Error::other(said));
        }
        let text = fs::read_to_string(path)?;
        let all = parse(&path.display().to_string(), &text)
            .map_err(|mistakes| std::io::Error::new(ErrorKind::InvalidData, mistakes.join("\n")))?;
        Ok(File { path: path.to_path_buf(), text, all })
    }

    pub fn of(&self, interface: &str) -> Option<&Saved> {
        self.all.iter().find(|saved| saved.interface == interface)
    }

    /// Saves the attach of this interface in place of an earlier one; `None` removes it. Attaches of other interfaces,
    /// including those saved since the file was opened, are kept.
    pub fn put(&self, interface: &str, words: Option<&Words>) -> Result<(), Failure> {
        let name = self.path.display().to_string();
        let _lock = locked(&target(&self.path))
            .map_err(|error| Failure::Failed(format!("cannot write {name}: {error}; --save=FILE takes another")))?;
        forget_unfinished(&target(&self.path));
        File::open(&self.path)?.put_now(interface, words)
    }

    fn put_now(&self, interface: &str, words: Option<&Words>) -> Result<(), Failure> {
        let name = self.path.display().to_string();
        // Classes that are there stay as they are written.
        let kept = self.of(interface).map(|saved| &saved.classes.classes).filter(|classes| !classes.all.is_empty());
        let table = words.map(|words| table(interface, words, kept.is_none()));
        let text = with_table(&self.text, interface, table.as_deref());
        let wanted = words.map(|words| kept.unwrap_or(&words.classes).all.len());
        let found = |all: &[Saved]| {
            all.iter().find(|saved| saved.interface == interface).map(|saved| saved.classes.classes.all.len())
        };
        if !parse(&name, &text).is_ok_and(|all| found(&all) == wanted && all.len() + 1 >= self.all.len()) {
            return Err(Failure::Failed(format!(
                "{name}: {interface} is not a table of its own there: write it as [{interface}] with one key per line; the file is unchanged"
            )));
        }
        write(&target(&self.path), &text)
            .map_err(|error| Failure::Failed(format!("cannot write {name}: {error}; --save=FILE takes another")))
    }
}

fn said_of(path: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        // The mistakes name the file.
        ErrorKind::InvalidData if error.get_ref().is_some() => error.to_string(),
        _ => format!("cannot read {}: {error}", path.display()),
    }
}

/// Creates the folder of the file if necessary, and locks it, because a file that is replaced by renaming cannot be
/// locked itself. If two processes save at the same time, the second one reads what the first one wrote. Dropping the
/// handle releases the lock.
fn locked(path: &Path) -> std::io::Result<fs::File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let folder = fs::File::open(folder)?;
    folder.lock()?;
    Ok(folder)
}

/// Returns the file to which a symbolic link points. Another program may manage the link, and a rename would replace
/// it.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Writes a new file and renames it, so that a power failure leaves either the old or the new file. Owner and mode are
/// kept.
pub fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let mut file = fs::File::create_new(&new)?;
    let written = as_before(path, &file)
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, path));
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Removes files that killed processes had begun to write. The caller must hold the lock, so that no process is
/// writing.
fn forget_unfinished(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_left = |found: &str| {
            let process = found.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".new")?;
            process.parse::<u32>().ok()
        };
        if entry.file_name().to_str().and_then(is_left).is_some() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Gives a new file the owner and mode of the file that it replaces, if there is one.
fn as_before(path: &Path, new: &fs::File) -> std::io::Result<()> {
    let Ok(before) = fs::metadata(path) else { return Ok(()) };
    let now = new.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        fchown(new, Some(before.uid()), Some(before.gid()))?;
    }
    new.set_permissions(before.permissions())
}

/// The table of an attach: keys with values, and classes, for which there is no flag.
#[derive(Debug, Default)]
pub struct Words {
    pub keys: Vec<(&'static str, String)>,
    pub classes: Classes,
}

/// Returns the flags for an attach with these settings. Without a rate, the rate is followed.
pub fn words(settings: &Settings, rate: Option<Rate>, overhead: Option<Overhead>, replace: bool) -> Words {
    let ports: Vec<String> = settings.ports.iter().map(u16::to_string).collect();
    let mut keys = vec![
        ("port", format!("[{}]", ports.join(", "))),
        (RATE, rate.map_or("\"auto\"".to_string(), |rate| format!("\"{rate}\""))),
        ("policy", format!("\"{}\"", settings.policy.name())),
    ];
    if settings.has_uploads {
        keys.push((UPLOADS, "true".to_string()));
    }
    if let Some(overhead) = overhead.filter(|overhead| *overhead != Overhead::None) {
        keys.push((OVERHEAD, format!("\"{}\"", overhead.name())));
    }
    if let Cuts::Given(cuts) = settings.wanted_cuts() {
        let cuts: Vec<String> = cuts.iter().map(u64::to_string).collect();
        keys.push(("cuts", format!("[{}]", cuts.join(", "))));
    }
    match settings.clients() {
        Some(clients) => keys.extend([
            ("client_share", format!("\"{}\"", clients.share)),
            ("client_prefix", format!("\"{},{}\"", clients.v4_bits, clients.v6_bits)),
        ]),
        None => keys.push(("client_share", "\"off\"".to_string())),
    }
    if let Some(by) = settings.clients().map(|clients| clients.by).filter(|by| *by != ClientBy::Address) {
        keys.push((CLIENT_BY, format!("\"{}\"", by.name())));
    }
    if replace {
        keys.push((REPLACE, "true".to_string()));
    }
    if let Some(name) = classes::default_name(&settings.classes) {
        keys.push((DEFAULT_CLASS, format!("\"{name}\"")));
    }
    Words { keys, classes: settings.classes.clone() }
}

fn table(interface: &str, words: &Words, has_classes: bool) -> String {
    let is_bare = interface.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let name = if is_bare { interface.to_string() } else { toml::Value::from(interface).to_string() };
    let lines: String = words.keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let classes = if has_classes { classes::tables(&name, &words.classes) } else { String::new() };
    format!("[{name}]\n{lines}{classes}")
}

/// Returns the text with the interface's table replaced, or removed together with its classes. All other lines stay.
fn with_table(text: &str, interface: &str, table: Option<&str>) -> String {
    let is_header = |line: &str| line.trim_start().starts_with('[');
    // A header of a class has the name with a key in it.
    let is_own = |line: &str, of_class: bool| {
        let keys = |value: &DeValue<'_>| value.as_table().map(|keys| keys.is_empty());
        let is =
            |parsed: &DeTable<'_>| parsed.get(interface).and_then(|value| keys(value.get_ref())) == Some(!of_class);
        is_header(line) && DeTable::parse(line).is_ok_and(|parsed| is(parsed.get_ref()))
    };
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    // The lines from a header on that belong to it. Comments above the next table belong to that.
    let lines_of = |lines: &[&str], begin: usize| {
        let next = lines[begin + 1..].iter().position(|line| is_header(line)).map_or(lines.len(), |at| begin + 1 + at);
        let is_key = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        begin..lines[begin..next].iter().rposition(is_key).map_or(next, |at| begin + at + 1)
    };
    while table.is_none()
        && let Some(begin) = lines.iter().position(|line| is_own(line, true))
    {
        drop(lines.drain(lines_of(&lines, begin)));
    }
    let table = table.unwrap_or_default();
    let Some(begin) = lines.iter().position(|line| is_own(line, false)) else {
        let between = if text.is_empty() { HEADING } else { "" };
        let end = if text.is_empty() || text.ends_with('\n') { "\n" } else { "\n\n" };
        return if table.is_empty() { lines.concat() } else { format!("{text}{between}{end}{table}") };
    };
    let end = lines_of(&lines, begin).end;
    format!("{}{table}{}", lines[..begin].concat(), lines[end..].concat())
}

/// Parses the attaches of a text. Returns all mistakes as `FILE:LINE: …`.
fn parse(file: &str, text: &str) -> Result<Vec<Saved>, Vec<String>> {
    let at = |offset: usize| {
        let before = text.get(..offset).unwrap_or(text);
        format!("{file}:{}", before.matches('\n').count() + 1)
    };
    let tables = DeTable::parse(text).map_err(|error| {
        let mut message = error.message().lines().collect::<Vec<_>>().join(" ");
        let place = error.span().map_or(text.len(), |span| span.start);
        if let (DUPLICATE, Some(key)) = (message.as_str(), error.span().and_then(|span| text.get(span))) {
            message += &format!(" `{key}`: it stands above already: write one, with the lines of both");
        }
        vec![format!("{}: {message}", at(place))]
    })?;
    let (mut all, mut mistakes) = (Vec::new(), Vec::new());
    for (name, value) in tables.get_ref() {
        let (interface, place) = (name.get_ref().as_ref(), at(name.span().start));
        let DeValue::Table(keys) = value.get_ref() else {
            mistakes
                .push(format!("{place}: key `{interface}` outside a table: write [eth0], with its interface, before"));
            continue;
        };
        let is_flag = |key: &str| ![CLASS, DEFAULT_CLASS].contains(&key);
        let flags = keys.iter().filter(|(key, _)| is_flag(key.get_ref()));
        let flags: Vec<_> = flags.map(|(key, value)| (at(key.span().start), flag(key.get_ref(), value))).collect();
        let before = mistakes.len();
        mistakes.extend(flags.iter().filter_map(|(place, flag)| Some(format!("{place}: {}", flag.as_ref().err()?))));
        let flags = flags.into_iter().filter_map(|(_, flag)| flag.ok().flatten()).collect();
        match arguments(flags, interface) {
            _ if mistakes.len() > before => {}
            Ok(args) => match classes_of(&at, interface, keys, &args) {
                Ok(classes) => all.push(Saved { interface: interface.to_string(), args, classes }),
                Err(said) => mistakes.extend(said),
            },
            Err(said) => mistakes.push(format!("{place}: {said}")),
        }
    }
    if mistakes.is_empty() { Ok(all) } else { Err(mistakes) }
}

fn classes_of(
    at: &dyn Fn(usize) -> String,
    interface: &str,
    keys: &DeTable<'_>,
    args: &Args,
) -> Result<SavedClasses, Vec<String>> {
    let rate = match args.rate {
        Some(AttachRate::Told(rate)) => Some(rate),
        _ => None,
    };
    let ports = args.ports.as_ref().map_or(&super::PORTS[..], |ports| &ports.0);
    classes::parse(at, interface, keys, &Setting { ports, rate })
}

/// Converts a key and its value to a flag, checking the value like the flag's; `None` for a flag that is off.
fn flag(key: &str, value: &Spanned<DeValue<'_>>) -> Result<Option<String>, String> {
    if !KEYS.contains(&key) {
        return Err(format!("unknown key `{key}`: expected one of {}", KEYS.join(", ")));
    }
    let flag = format!("--{}", key.replace('_', "-"));
    if [REPLACE, UPLOADS].contains(&key) {
        return match value.get_ref() {
            DeValue::Boolean(is_on) => Ok(is_on.then_some(flag)),
            _ => Err(format!("key `{key}`: expected true or false")),
        };
    }
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        _ => None,
    };
    let text = match value.get_ref() {
        DeValue::Array(items) => {
            items.iter().map(|item| one(item.get_ref())).collect::<Option<Vec<_>>>().map(|items| items.join(","))
        }
        value => one(value),
    };
    let text = text.ok_or_else(|| format!("key `{key}`: expected the words of {flag}, as a string"))?;
    if key == "cuts" && text == "learned" {
        return Err("key `cuts`: `learned` needs the responses that an attached classifier has seen: write sizes, as `weir attach --cuts learned --save` does".to_string());
    }
    let flag = format!("{flag}={text}");
    arguments(vec![flag.clone()], "eth0").map_err(|said| format!("key `{key}`: {said}"))?;
    Ok(Some(flag))
}

fn arguments(flags: Vec<String>, interface: &str) -> Result<Args, String> {
    let words = flags.into_iter().chain(["--".to_string(), interface.to_string()]);
    let args = Flags::try_parse_from(words).map(|flags| flags.args);
    let args = args.map_err(|error| cli::one_line(&error.to_string()))?;
    args.policy.map_or(Ok(()), |policy| super::check_cuts(&args, policy))?;
    Ok(args)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::attach::rate::AttachRate;

    #[test]
    fn each_mistake_has_its_line_its_value_and_a_cure() {
        for (text, said) in [
            ("[eth0]\nrate = \"9\"", "f:2: key `rate`: invalid value '9' for '--rate <RATE>'"),
            (
                "\n[eth0]\nrates = \"9mbit\"\nrate = \"9mbit\"",
                "f:3: unknown key `rates`: expected one of port, uploads, rate,",
            ),
            ("[eth0]\nport = [80, 70000]\nrate = \"9mbit\"", "f:2: key `port`: invalid value '80,70000'"),
            ("[eth0]\noverhead = \"dsl\"", "f:2: key `overhead`: invalid value 'dsl'"),
            ("[eth0]\npolicy = \"fifo\"\nrate = \"9mbit\"", "f:2: key `policy`: invalid value 'fifo'"),
            ("[eth0]\nreplace = \"yes\"\nrate = \"9mbit\"", "f:2: key `replace`: expected true or false"),
            ("[eth0]\ncuts = \"learned\"\nrate = \"9mbit\"", "f:2: key `cuts`: `learned` needs the responses"),
            ("[eth0]\nrate = 1.5", "f:2: key `rate`: expected the words of --rate"),
            ("[eth0]\nrate = { a = 1 }", "f:2: key `rate`: expected the words of --rate"),
            ("rate = \"9mbit\"", "f:1: key `rate` outside a table: write [eth0]"),
            ("[eth0]\nrate = ", "f:2: "),
            (
                "[eth0]\nrate = \"1mbit\"\n[eth0]\nrate = \"1mbit\"",
                "f:3: duplicate key `eth0`: it stands above already: write one",
            ),
            ("[eth0]\nport = 80\nport = 81", "f:3: duplicate key `port`: it stands above already"),
            (
                "[eth0]\npolicy = \"srrt\"\ncuts = \"4KiB\"",
                "f:1: --cuts 4KiB: srrt goes by microseconds: write numbers",
            ),
        ] {
            let mistakes = parse("f", text).unwrap_err();
            assert!(mistakes.len() == 1 && mistakes[0].starts_with(said), "{text}: {mistakes:?}");
            assert!(!mistakes[0].contains('\n'), "{mistakes:?}");
        }
        // All at once.
        assert_eq!(parse("f", "[a]\nrate = 9\nports = 80\n[b]\nport = 0\n").unwrap_err().len(), 3);
    }

    #[test]
    fn values_are_those_of_the_flags() {
        let text = "[\"eth0.5\"]\nport = 8080\nrate = \"9500kbit\"\ncuts = \"4KiB,64KiB\"\nreplace = true\n[-x]\nrate = \"1gbit\"\nport = [80, 443]\nreplace = false\n";
        let all = parse("f", text).unwrap();
        assert_eq!([&all[0].interface, &all[1].interface], ["eth0.5", "-x"]);
        assert_eq!(all[0].args.interface.as_deref(), Some("eth0.5"));
        assert_eq!(all[0].args.cuts.as_ref().map(|told| &told.cuts), Some(&Cuts::Given(vec![4096, 65536])));
        assert_eq!(all[0].args.rate, "9500kbit".parse().ok());
        for text in ["[eth0]\nport = 80", "[eth0]\nrate = \"auto\""] {
            assert!(matches!(parse("f", text).unwrap()[0].args.rate, None | Some(AttachRate::Auto)), "{text}");
        }
        assert_eq!([all[0].args.replace, all[1].args.replace], [true, false]);
        assert_eq!(all[1].args.ports.as_ref().unwrap().0, [80, 443]);
    }

    #[test]
    fn two_that_save_at_once_lose_nothing() {
        let folder = std::env::temp_dir().join(format!("weir-saved-{}", std::process::id()));
        let path = folder.join("attach.toml");
        let open = || File::open(&path).unwrap();
        let words = Words { keys: vec![(RATE, "\"1mbit\"".to_string())], ..Words::default() };
        // Both have read the file before one writes it.
        let (first, second) = (open(), open());
        first.put("eth0", Some(&words)).unwrap();
        second.put("eth1", Some(&words)).unwrap();
        assert_eq!(open().all.len(), 2);
        // Killed, a process leaves what it had begun to write, which the next one removes.
        let left = folder.join("attach.toml.4711.new");
        let others = ["attach.toml.new", "attach.toml.x.new", "other.toml.4711.new"].map(|name| folder.join(name));
        for file in others.iter().chain([&left]) {
            fs::write(file, "").unwrap();
        }
        first.put("eth0", Some(&words)).unwrap();
        assert!(!left.exists() && others.iter().all(|file| file.exists()));
        first.put("eth1", None).unwrap();
        assert!(open().of("eth0").is_some() && open().of("eth1").is_none());
        fs::remove_dir_all(folder).unwrap();
    }

    /// A link leads to where another program keeps the file.
    #[test]
    fn a_link_stays_one_and_the_mode_stays() {
        let folder = std::env::temp_dir().join(format!("weir-linked-{}", std::process::id()));
        fs::create_dir_all(folder.join("kept")).unwrap();
        let (path, kept) = (folder.join("attach.toml"), folder.join("kept/attach.toml"));
        fs::write(&kept, "# mine\n").unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o640)).unwrap();
        // Only root may give files away.
        let owner =
            if fchown(fs::File::open(&kept).unwrap(), Some(4242), Some(4243)).is_ok() { Some(4242) } else { None };
        std::os::unix::fs::symlink("kept/attach.toml", &path).unwrap();
        let words = Words { keys: vec![(RATE, "\"1mbit\"".to_string())], ..Words::default() };
        File::open(&path).unwrap().put("eth0", Some(&words)).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        let about = fs::metadata(&kept).unwrap();
        assert_eq!((about.mode() & 0o777, owner.is_none_or(|owner| owner == about.uid())), (0o640, true));
        assert_eq!(fs::read_to_string(&kept).unwrap(), "# mine\n\n[eth0]\nrate = \"1mbit\"\n");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_table_is_replaced_and_the_rest_stays() {
        let words = |rate: &str| Words { keys: vec![(RATE, format!("\"{rate}\""))], ..Words::default() };
        let one = table("eth0", &words("1mbit"), true);
        let first = with_table("", "eth0", Some(&one));
        assert_eq!(first, format!("{HEADING}\n[eth0]\nrate = \"1mbit\"\n"));
        let two = table("eth0.5", &words("2mbit"), true);
        let both = with_table(&first, "eth0.5", Some(&two));
        assert_eq!(both, format!("{first}\n[\"eth0.5\"]\nrate = \"2mbit\"\n"));
        let text = "# mine\n[ eth0 ] # outer\nrate = \"9mbit\"\n# of eth1\n\n[eth1]\nrate = \"8mbit\"";
        assert_eq!(
            with_table(text, "eth0", Some(&one)),
            "# mine\n[eth0]\nrate = \"1mbit\"\n# of eth1\n\n[eth1]\nrate = \"8mbit\""
        );
        assert_eq!(with_table(text, "eth1", None), "# mine\n[ eth0 ] # outer\nrate = \"9mbit\"\n# of eth1\n\n");
        assert_eq!(with_table(text, "eth2", None), text);
        assert_eq!(with_table(text, "eth2", Some(&one)), format!("{text}\n\n{one}"));
    }
}
