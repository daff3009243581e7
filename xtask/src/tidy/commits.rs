//! Subjects of commits are short: a list of commits shows the first 60 characters of each.
//!
//! Only commits since the one in `[commits] since` are read, which came in with this check; older subjects stay as they are.

use std::path::Path;
use std::process::Command;

const CHARACTERS_MAX: usize = 60;

const RATCHET: &str = "xtask/tidy.toml";

/// Variables by which git would take another repository than the one of this folder; hooks of git set them.
const OTHER_REPOSITORY: [&str; 2] = ["GIT_DIR", "GIT_WORK_TREE"];

#[derive(Debug, PartialEq, Eq)]
pub enum History {
    Known(Vec<Commit>),
    /// There is none to read, for this reason: a tarball, or a clone without the older commits.
    Absent(String),
    /// The whole history is here, and the commit to begin at is not in it.
    NotIn,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Commit {
    /// Shortened.
    id: String,
    subject: String,
}

/// The full id of the commit after which subjects are checked; the error is a problem.
pub fn since(ratchet: &str) -> Result<String, String> {
    // The check of sizes reports a ratchet that is no table.
    let table: toml::Table = ratchet.parse().unwrap_or_default();
    let since = table.get("commits").and_then(|commits| commits.get("since")).and_then(toml::Value::as_str);
    let is_id = |id: &&str| id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    since.filter(is_id).map(str::to_owned).ok_or_else(|| {
        format!("{RATCHET}: [commits] since = \"...\" is missing or no commit's id of 40 digits; write the first commit whose successors are checked")
    })
}

/// The commits after `since` in the repository at `root`, merges left out.
pub fn read(root: &Path, since: &str) -> History {
    if !root.join(".git").exists() {
        return History::Absent("this folder is no git repository".into());
    }
    let is_shallow = match git(root, &["rev-parse", "--is-shallow-repository"]) {
        Ok(answer) => answer.trim() == "true",
        Err(reason) => return History::Absent(reason),
    };
    let commits = git(root, &["merge-base", "--is-ancestor", since, "HEAD"]).and_then(|_| {
        let range = format!("{since}..HEAD");
        git(root, &["log", "--no-merges", "--no-show-signature", "--format=%h %s", &range, "--"])
    });
    match commits {
        Ok(lines) => History::Known(lines.lines().filter_map(commit).collect()),
        Err(_) if is_shallow => History::Absent(format!("a shallow clone, without {since}")),
        Err(_) => History::NotIn,
    }
}

fn commit(line: &str) -> Option<Commit> {
    let (id, subject) = line.split_once(' ')?;
    Some(Commit { id: id.into(), subject: subject.into() })
}

/// The output of a git command; an error is its first line, or why it did not run.
fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    for variable in OTHER_REPOSITORY {
        command.env_remove(variable);
    }
    let output = command.arg("-C").arg(root).args(arguments).output().map_err(|e| format!("cannot run git: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().next().map_or_else(|| format!("git failed ({})", output.status), str::to_owned))
}

pub fn check(since: &str, history: &History) -> Vec<String> {
    let commits = match history {
        History::Known(commits) => commits,
        History::Absent(reason) => {
            println!("SKIPPED: subjects of commits: {reason}");
            return Vec::new();
        }
        History::NotIn => {
            return vec![format!(
                "{RATCHET}: [commits] since: {since} is no ancestor of HEAD; write the id it has now"
            )];
        }
    };
    let too_long = commits.iter().map(|commit| (commit, commit.subject.chars().count()));
    too_long
        .filter(|(_, count)| *count > CHARACTERS_MAX)
        .map(|(Commit { id, subject }, count)| {
            format!(
                "commit {id}: a subject of {count} characters, at most {CHARACTERS_MAX}: \"{subject}\"; reword it (git commit --amend, git rebase -i), the rest goes into the body"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn sixty_characters_are_allowed() {
        let said = |subject: String| check(SINCE, &History::Known(vec![Commit { id: "1a2b3c".into(), subject }]));
        assert_eq!(said("x".repeat(60)), [""; 0]);
        assert_eq!(said("ö".repeat(60)), [""; 0], "characters, not bytes");
        let problems = said("x".repeat(61));
        assert!(problems.len() == 1 && problems[0].starts_with("commit 1a2b3c: a subject of 61 char"), "{problems:?}");
    }

    #[test]
    fn no_history_is_no_problem_and_a_wrong_beginning_is() {
        assert_eq!(check(SINCE, &History::Absent("a tarball".into())), [""; 0]);
        assert!(check(SINCE, &History::NotIn)[0].contains("is no ancestor of HEAD"));
    }

    #[test]
    fn the_beginning_is_a_full_id() {
        assert_eq!(since(&format!("[commits]\nsince = \"{SINCE}\"\n")), Ok(SINCE.into()));
        for wrong in ["", "[commits]\n", "[commits]\nsince = 5\n", "[commits]\nsince = \"HEAD\"\n"] {
            assert!(since(wrong).is_err_and(|problem| problem.contains("[commits] since")), "{wrong}");
        }
    }

    /// Makes a repository of commits with these subjects in an empty folder, and returns the first one's id.
    fn make(folder: &Path, subjects: &[&str]) -> String {
        git(folder, &["init", "--quiet"]).unwrap();
        let names = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
        for subject in subjects {
            let commit = ["commit", "--quiet", "--no-verify", "--allow-empty", "--message", subject];
            git(folder, &[&names[..], &commit[..]].concat()).unwrap();
        }
        git(folder, &["rev-list", "--max-parents=0", "HEAD"]).unwrap().trim().into()
    }

    #[test]
    fn commits_after_the_beginning_are_read() {
        if git(Path::new("."), &["--version"]).is_err() {
            println!("SKIPPED: no git");
            return;
        }
        let top = std::env::temp_dir().join(format!("xtask-commits-{}", std::process::id()));
        let (whole, shallow, tarball) = (top.join("whole"), top.join("shallow"), top.join("tarball"));
        [&whole, &tarball].iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        let first = make(&whole, &["first", "area: second", "area: third\n\nbody"]);
        let url = format!("file://{}", whole.display());
        git(&top, &["clone", "--quiet", "--depth", "1", &url, "shallow"]).unwrap();
        let histories = [(&whole, &*first), (&whole, SINCE), (&shallow, &first), (&tarball, &first)]
            .map(|(folder, since)| read(folder, since));
        std::fs::remove_dir_all(&top).unwrap();
        let [History::Known(commits), wrong, cut, none] = histories else { panic!("{histories:?}") };
        let subjects: Vec<&str> = commits.iter().map(|commit| commit.subject.as_str()).collect();
        assert_eq!(subjects, ["area: third", "area: second"]);
        assert_eq!(wrong, History::NotIn);
        assert!(matches!(&cut, History::Absent(reason) if reason.contains("shallow")), "{cut:?}");
        assert!(matches!(&none, History::Absent(reason) if reason.contains("no git repository")), "{none:?}");
    }
}
