//! A test done again in a machine in virtual time, where nothing is late however busy the host is.

use testbed::Interrupt;

/// Set to `real` where tests are to be done by the clock of the host: where that is a machine made for them.
const CLOCK: &str = "WEIR_TEST_CLOCK";
/// Virtual seconds after which a test counts as hung: what only waits is never ended for spinning.
const HUNG_AFTER_S: &str = "3600";

/// Does a test in virtual time, if there is a kernel for that: then it is done when this says so, having passed; otherwise the test
/// goes on by the host's clock.
///
/// `test` is the test itself, for its name: `if in_virtual_time(the_test) { return; }` is how it begins.
pub fn in_virtual_time<T>(test: T) -> bool {
    if testbed::is_virtual() || std::env::var(CLOCK).as_deref() == Ok("real") {
        return false;
    }
    if let Err(why) = testbed::find_kernel() {
        assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "{why}");
        println!("by the host's clock: {why}");
        return false;
    }
    let program = std::env::current_exe().unwrap().display().to_string();
    let name = name_of(&test);
    let test = [&program, "--exact", name, "--nocapture"];
    let words = [&["timeout", HUNG_AFTER_S, "env", "WEIR_REQUIRE_PRIVILEGED=1"][..], &test].concat();
    let words: Vec<String> = words.into_iter().map(String::from).collect();
    let said = testbed::run_command(&words, &Interrupt::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    print!("{}", said.out);
    assert!(said.status == 0, "{name}, in virtual time, status {}: {}", said.status, said.err);
    assert!(said.out.contains("test result: ok. 1 passed"), "{name} is not the name of one test: {}", said.out);
    true
}

/// `module::test`, as the test program calls it: without the crate.
fn name_of<T>(_: &T) -> &'static str {
    let path = std::any::type_name::<T>();
    path.split_once("::").map_or(path, |(_, name)| name)
}
