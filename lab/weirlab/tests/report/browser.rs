//! Pages looked at by a real browser, headless: what its scripts made of them, and whether it complained.

use std::path::Path;
use std::process::Command;

use crate::text;

/// What a browser is called by those who package it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Time for the page's scripts, by the browser's own clock, which does not wait for a slow machine.
const BUDGET_MS: u32 = 10_000;

/// A browser that hangs is ended, so that no test waits for ever.
const HANGS_AFTER_S: &str = "300";

/// The first browser there is; says if there is none, and fails where one has to be.
pub fn find() -> Option<&'static str> {
    let is_there =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    let found = NAMES.into_iter().find(|name| is_there(name));
    if found.is_none() {
        let why = "needs a browser to look at the page: install chromium";
        assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
        println!("SKIPPED: {why}");
    }
    found
}

/// The document as it is when its scripts have run; panics with what the console says if it says anything.
pub fn open(browser: &str, page: &Path, fragment: &str) -> String {
    let (document, console) = dump(browser, page, fragment);
    assert!(console.is_empty(), "the console of {} says: {console:?}", page.display());
    document
}

/// The document, and the lines of the console.
pub fn dump(browser: &str, page: &Path, fragment: &str) -> (String, Vec<String>) {
    let profile = page.with_extension("profile");
    let output = Command::new("timeout")
        .args(["--kill-after=10", HANGS_AFTER_S, browser, "--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--dump-dom", "--enable-logging=stderr", "--no-first-run"])
        .arg(format!("--virtual-time-budget={BUDGET_MS}"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}{fragment}", page.display()))
        .output()
        .expect("timeout can be started");
    assert!(output.status.success(), "{browser} failed: {}", text(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let console = said.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_string).collect();
    (text(&output.stdout), console)
}
