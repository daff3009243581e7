//! Stores measured rates of lines across restarts, one for each interface and gateway, in a file of the service's state
//! folder.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use units::Rate;

use crate::clock;
use crate::objectives::Found;
use crate::service_manager::Account;

const FILE: &str = "uplink";
const NEW_FILE: &str = "uplink.new";
const HEAD: &str = "# Rates that weir has found: interface, gateway or address, bits per second, Unix time.\n";
/// The maximum number of lines stored, the newest first. A stationary machine has few lines, one that travels has many.
const LINES_MAX: usize = 64;
const FILE_BYTES_MAX: u64 = 16 << 10;
/// The maximum age of a usable rate.
const FRESH_FOR: Duration = Duration::from_secs(24 * 3600);

/// A line, with its rate and the time at which that was last confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLine {
    /// The interface, and its gateway or the server's own address.
    pub place: String,
    pub rate: Rate,
    unix_s: u64,
}

/// The state folder (by path, without a descriptor), and the lines stored there at the start.
pub struct Keeper {
    path: PathBuf,
    lines: Vec<KeptLine>,
}

impl Keeper {
    /// Opens the folder, creating it if it does not exist. A new folder belongs to the account to which the server
    /// switches.
    pub fn open(path: &Path, account: Option<&Account>) -> io::Result<Keeper> {
        let is_new = !path.exists();
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
        if let Some(account) = account.filter(|_| is_new && rustix::process::geteuid().is_root()) {
            chown(path, Some(account.uid()), Some(account.gid()))?;
        }
        let keeper = Keeper { path: path.into(), lines: Vec::new() };
        let lines = keeper.read()?;
        Ok(Keeper { lines, ..keeper })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lines stored at the start.
    pub fn lines(&self) -> &[KeptLine] {
        &self.lines
    }

    /// Stores the rate of a line that was confirmed `age` ago.
    pub fn keep(&self, place: &str, rate: Rate, age: Duration) -> io::Result<()> {
        let unix_s = unix_now().saturating_sub(age.as_secs());
        let mut lines = self.read()?;
        lines.retain(|line| line.place != place);
        lines.push(KeptLine { place: place.into(), rate, unix_s });
        lines.sort_by_key(|line| std::cmp::Reverse(line.unix_s));
        lines.truncate(LINES_MAX);
        self.write(&lines)
    }

    fn read(&self) -> io::Result<Vec<KeptLine>> {
        let file = match File::open(self.path.join(FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        // Lines that another program has written are skipped.
        Ok(String::from_utf8_lossy(&bytes).lines().filter_map(KeptLine::of).take(LINES_MAX).collect())
    }

    /// Replaces the file atomically.
    fn write(&self, lines: &[KeptLine]) -> io::Result<()> {
        let text: String = lines.iter().map(KeptLine::text).collect();
        let new = self.path.join(NEW_FILE);
        std::fs::write(&new, format!("{HEAD}{text}"))?;
        std::fs::rename(new, self.path.join(FILE))
    }
}

/// Stores the measured rate of a running server.
pub struct Keeping {
    /// The keeper, and the key of this server's line.
    keeper: Option<(Keeper, String)>,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    kept: Option<Found>,
    has_failed: bool,
}

impl Keeping {
    pub fn new(keeper: Option<Keeper>, place: Option<String>) -> Keeping {
        Keeping { keeper: keeper.zip(place), last: Mutex::default() }
    }

    pub fn is_on(&self) -> bool {
        self.keeper.is_some()
    }

    /// Stores `found` if it has changed. A failure is reported once.
    pub fn keep(&self, found: Option<Found>, tell: impl FnOnce(&str)) {
        let Some((keeper, place)) = &self.keeper else { return };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = found.filter(|found| last.kept != Some(*found)) else { return };
        last.kept = Some(found);
        let age = Duration::from(clock::now() - found.at);
        if let Err(error) = keeper.keep(place, found.rate, age)
            && !std::mem::replace(&mut last.has_failed, true)
        {
            tell(&unkept(keeper.path(), &error));
        }
    }
}

/// Returns a line that explains why the rate is not stored.
pub fn unkept(folder: &Path, error: &io::Error) -> String {
    let folder = folder.display();
    format!(
        "the uplink's rate cannot be stored in `{folder}`: {error}; expected a folder that weir's user can write \
            (STATE_DIRECTORY): until then it is searched again after each start"
    )
}

impl KeptLine {
    fn of(line: &str) -> Option<KeptLine> {
        let mut words = line.split_ascii_whitespace();
        let (interface, gateway) = (words.next()?, words.next()?);
        let rate = Rate::from_bits_per_s(words.next()?.parse().ok()?)?;
        let unix_s = words.next()?.parse().ok()?;
        let is_whole = words.next().is_none();
        is_whole.then(|| KeptLine { place: format!("{interface} {gateway}"), rate, unix_s })
    }

    fn text(&self) -> String {
        format!("{} {} {}\n", self.place, self.rate.bits_per_s(), self.unix_s)
    }

    /// Returns the time since the rate was last confirmed; `None` if that is too long ago, or in the future.
    pub fn age(&self) -> Option<Duration> {
        unix_now().checked_sub(self.unix_s).map(Duration::from_secs).filter(|age| *age < FRESH_FOR)
    }
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::temporary::Folder;

    const HOUR: Duration = Duration::from_secs(3600);

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    fn open(folder: &Folder) -> Keeper {
        Keeper::open(&folder.path("state/weir"), None).unwrap()
    }

    #[test]
    fn what_is_kept_is_there_after_a_restart() {
        let folder = Folder::new();
        let keeper = open(&folder);
        assert_eq!(keeper.lines(), []);
        keeper.keep("eth0 192.0.2.1", rate("9.42mbit"), HOUR).unwrap();
        keeper.keep("wlan0 192.0.2.1", rate("2mbit"), 30 * HOUR).unwrap();
        keeper.keep("eth0 192.0.2.1", rate("9.5mbit"), 2 * HOUR).unwrap();
        let kept = open(&folder);
        let [eth, wlan] = kept.lines() else { panic!("{:?}", kept.lines()) };
        assert_eq!((eth.place.as_str(), eth.rate), ("eth0 192.0.2.1", rate("9.5mbit")));
        assert!(eth.age().is_some_and(|age| age >= 2 * HOUR));
        assert_eq!((wlan.rate, wlan.age()), (rate("2mbit"), None), "too old");
    }

    #[test]
    fn what_somebody_else_wrote_is_left_out() {
        let folder = Folder::new();
        let long = "x".repeat(100_000);
        let text =
            format!("eth0 - 10 20\n\u{0}\n# a\neth0\neth0 - 0 5\neth0 - 10 20 30\nlo ::1 -7 5\nwlan0 ::1 7 9\n{long}");
        folder.put("state/weir/uplink", &text);
        let places: Vec<String> = open(&folder).lines().iter().map(|line| line.place.clone()).collect();
        assert_eq!(places, ["eth0 -", "wlan0 ::1"]);
        for place in 0..2 * LINES_MAX {
            open(&folder).keep(&format!("eth{place} -"), rate("1mbit"), Duration::ZERO).unwrap();
        }
        assert_eq!(open(&folder).lines().len(), LINES_MAX);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told_once() {
        let folder = Folder::new();
        let keeping = Keeping::new(Some(open(&folder)), Some("lo ::1".into()));
        let found =
            |mbit: u64| Some(Found { rate: Rate::from_bits_per_s(mbit * 1_000_000).unwrap(), at: clock::now() });
        assert!(keeping.is_on());
        keeping.keep(None, |_| panic!("nothing is wrong"));
        keeping.keep(found(1), |_| panic!("nothing is wrong"));
        assert_eq!(open(&folder).lines()[0].rate, rate("1mbit"));
        std::fs::remove_dir_all(folder.path("state")).unwrap();
        let mut said = Vec::new();
        for mbit in 2..5 {
            keeping.keep(found(mbit), |line| said.push(line.to_string()));
        }
        assert!(
            said.len() == 1 && said[0].contains("state/weir`: No such file") && said[0].contains("STATE_DIRECTORY")
        );
        assert!(!Keeping::new(None, Some("lo ::1".into())).is_on());
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_young() {
        let line = KeptLine { place: "a b".into(), rate: rate("1mbit"), unix_s: unix_now() + 3600 };
        assert_eq!(line.age(), None);
    }
}
