//! Repeats tests in a machine in virtual time, where nothing is late however busy the host is, and waiting takes no
//! time.
//!
//! A test program has one machine, which runs all of its tests one after another: `crate::VIRTUAL_TESTS` names them.

use std::sync::OnceLock;

use testbed::Interrupt;

/// The variable that is set to `real` if tests run by the clock of the host, as on a machine dedicated to them.
const CLOCK: &str = "WEIR_TEST_CLOCK";
/// The virtual seconds after which the tests count as hung, because a program that only waits is never ended for
/// spinning.
const HUNG_AFTER_S: &str = "3600";

/// Runs a test in virtual time if there is a kernel for that. Returns true if the test has passed there; otherwise the
/// test continues by the host's clock.
///
/// `test` is the test itself, whose name is used. A test begins with `if in_virtual_time(the_test) { return; }`.
pub fn in_virtual_time<T>(test: T) -> bool {
    if testbed::is_virtual() || std::env::var(CLOCK).as_deref() == Ok("real") {
        return false;
    }
    if let Err(why) = testbed::find_kernel() {
        assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "{why}");
        println!("by the host's clock: {why}");
        return false;
    }
    let name = name_of(&test);
    assert!(crate::VIRTUAL_TESTS.contains(&name), "{name} is not among VIRTUAL_TESTS of its program");
    let said = if is_filtered() { done(&[name]) } else { done_all() };
    assert!(said.contains(&format!("test {name} ... ok\n")), "{name}, in virtual time: {said}");
    true
}

/// Called by whichever test comes first.
fn done_all() -> String {
    static SAID: OnceLock<String> = OnceLock::new();
    SAID.get_or_init(|| done(crate::VIRTUAL_TESTS)).clone()
}

/// Runs these tests in a machine and returns the output of their program.
fn done(names: &[&str]) -> String {
    let program = std::env::current_exe().unwrap().display().to_string();
    let alone = ["--test-threads", "1", "--show-output", "--exact"];
    let before = ["timeout", HUNG_AFTER_S, "env", "WEIR_REQUIRE_PRIVILEGED=1", &program];
    let words: Vec<String> = before.iter().chain(&alone).chain(names).map(ToString::to_string).collect();
    match testbed::run_command(&words, &Interrupt::default()) {
        Ok(said) => {
            print!("{}", said.out);
            format!("status {}\n{}\n{}", said.status, said.out, said.err)
        }
        Err(error) => error.to_string(),
    }
}

/// Returns whether tests were named on the command line; then not all are needed.
fn is_filtered() -> bool {
    std::env::args().skip(1).any(|word| !word.starts_with('-') && word.parse::<u32>().is_err())
}

/// `module::test`, the name in the test program, without the crate.
fn name_of<T>(_: &T) -> &'static str {
    let path = std::any::type_name::<T>();
    path.split_once("::").map_or(path, |(_, name)| name)
}
