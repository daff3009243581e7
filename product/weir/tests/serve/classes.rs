//! The classes of a file: their order, their slots, and changes while responses are in flight.

use rustix::process::Signal;

use crate::common::{Client, Hosted, Server, Site, content, in_virtual_time, read_log, wait_until, whole};

const LARGE: usize = 256 << 10;
const SMALL: usize = 64 << 10;
/// A size beyond the buffers of two sockets.
const HUGE: usize = 16 << 20;

impl Hosted {
    /// Returns when the response has begun.
    fn ask_first(&self, size: usize) -> Client {
        let mut client = self.ask(size);
        client.wait_for_first_byte();
        client
    }

    /// Replaces the file and reloads it. Returns the lines about that.
    fn hang_up(&self, text: &str) -> String {
        self.rewrite(text);
        let before = self.server.stderr().len();
        self.server.signal(Signal::HUP);
        let is_end = |line: &&String| line.contains("configuration read again");
        wait_until("the file is read again", || self.server.stderr()[before..].iter().any(|line| is_end(&line)));
        self.server.stderr()[before..].join("\n")
    }
}

fn slots(count: u32) -> String {
    format!(
        "[uplink]\nshaping = \"off\"\n[[class]]\nname = \"a\"\nmax_concurrent_requests = {count}\n[[class.rule]]\npath = \"*\"\n"
    )
}

#[test]
fn a_large_response_of_the_first_class_goes_before_a_small_one() {
    if in_virtual_time(a_large_response_of_the_first_class_goes_before_a_small_one) {
        return;
    }
    let classes = "\
[uplink]
rate = \"4mbit\"
[[class]]
name = \"paid\"
[[class.rule]]
path = \"/size-262144\"
[[class]]
name = \"free\"
priority = 1
[[class.rule]]
path = \"*\"
";
    let hosted = Hosted::new(&[SMALL, LARGE], classes);
    let mut small = hosted.ask_first(SMALL);
    let mut large = hosted.ask(LARGE);
    assert!(large.response().body == content(LARGE));
    assert!(small.waiting_bytes() < SMALL, "the free response ended beside the paid one");
    assert!(small.response().body == content(SMALL));
}

/// On both write paths: at the pace of the link, and as fast as sockets accept bytes.
#[test]
fn the_second_of_a_class_of_one_sleeps_until_the_first_is_gone() {
    let paced = slots(1).replace("shaping = \"off\"", "rate = \"500mbit\"");
    for text in [slots(1), paced] {
        let hosted = Hosted::new(&[HUGE, SMALL], &text);
        assert!(hosted.server.stdout()[0].contains(" 1 class"), "{:?}", hosted.server.stdout());
        // A reader that stops, with more to come than sockets can hold.
        let first = hosted.ask_first(HUGE);
        let (mut second, mut third) = (hosted.ask(SMALL), hosted.ask(SMALL));
        second.assert_silent();
        third.assert_silent();
        // A client's reset in the middle of its response gives its slot to the next.
        first.reset();
        assert!(second.response().body == content(SMALL) && third.response().body == content(SMALL));
        hosted.server.assert_alive();
    }
}

/// A client that holds all slots of a class makes room for another; its response sleeps for that time and then
/// continues.
#[test]
fn a_client_does_not_keep_all_slots_of_a_class() {
    let paced = slots(2).replace("shaping = \"off\"", "rate = \"500mbit\"");
    for text in [slots(2), paced] {
        let hosted = Hosted::new(&[HUGE, SMALL], &text);
        let (mut first, mut second) = (hosted.ask_first(HUGE), hosted.ask_first(HUGE));
        let mut other = Client::connect_from("127.0.0.2:0", hosted.server.address);
        assert!(other.get(&format!("/size-{SMALL}")).body == content(SMALL), "{text}");
        assert!(first.response().body == content(HUGE) && second.response().body == content(HUGE), "{text}");
    }
}

#[test]
fn a_sleeper_that_leaves_is_passed_over() {
    let hosted = Hosted::new(&[HUGE, SMALL], &slots(1));
    let mut first = hosted.ask_first(HUGE);
    let (second, mut third) = (hosted.ask(SMALL), hosted.ask(SMALL));
    third.assert_silent();
    second.reset();
    assert!(first.response().body == content(HUGE));
    assert!(third.response().body == content(SMALL));
}

#[test]
fn more_slots_wake_at_once_and_a_removed_class_keeps_nobody() {
    for after in [
        slots(2),
        slots(1).replace("name = \"a\"", "name = \"b\""),
        slots(1).replace("max_concurrent_requests = 1\n", ""),
    ] {
        let hosted = Hosted::new(&[HUGE, SMALL], &slots(1));
        let mut first = hosted.ask_first(HUGE);
        let mut second = hosted.ask(SMALL);
        second.assert_silent();
        let said = hosted.hang_up(&after);
        assert!(said.contains("in force"), "{said}");
        assert!(second.response().body == content(SMALL), "asleep after: {after}");
        assert!(first.response().body == content(HUGE), "cut by: {after}");
    }
}

#[test]
fn classes_that_need_a_restart_say_so_and_change_nothing() {
    let hosted = Hosted::new(&[HUGE, SMALL], &slots(1));
    for (after, why) in [
        ("[uplink]\nshaping = \"off\"\n".to_string(), "the last has gone: run `weir upgrade`"),
        (
            slots(1).replace("[uplink]", "[uplink]\nconcurrency_sharing = \"any\""),
            "uplink.concurrency_sharing own → any (",
        ),
    ] {
        let said = hosted.hang_up(&after);
        assert!(said.contains(why) && said.contains("stays in force"), "{said}");
    }
    let _first = hosted.ask_first(HUGE);
    hosted.ask(SMALL).assert_silent();
}

/// Ends the server; returns the class of each response in its log.
fn logged(hosted: &Hosted) -> Vec<String> {
    hosted.server.signal(Signal::TERM);
    assert_eq!(hosted.server.exit_status().code(), Some(0), "{:?}", hosted.server.stderr());
    let lines = read_log(&hosted.site.outside("log.json")).unwrap();
    lines.into_iter().map(|line| line.class.unwrap()).collect()
}

fn log_of(site: &Site) -> String {
    format!("[server]\naccess_log = \"{}\"\nlog_format = \"json\"\n", site.outside("log.json").display())
}

#[test]
fn the_log_names_the_class_of_each_response() {
    let site = Site::of_sizes(&[SMALL, LARGE]);
    let class =
        format!("[uplink]\nshaping = \"off\"\n[[class]]\nname = \"large\"\n[[class.rule]]\npath = \"/size-{LARGE}\"\n");
    std::fs::write(site.outside("weir.toml"), whole(&site, &(log_of(&site) + &class))).unwrap();
    let server = Server::run(&site.outside("weir.toml"));
    let hosted = Hosted { site, server };
    for size in [SMALL, LARGE, SMALL] {
        assert!(hosted.ask(size).response().body == content(size));
    }
    // A request that could not be parsed has only the class of unassigned requests.
    let mut client = hosted.server.connect();
    client.send("no request\r\n\r\n");
    client.rest();
    assert_eq!(logged(&hosted), ["others", "large", "others", "others"]);
}

#[test]
fn a_class_that_came_by_a_reload_has_its_name_in_the_log() {
    let with =
        |site: &Site, name: &str| log_of(site) + &slots(1).replace("name = \"a\"", &format!("name = \"{name}\""));
    let site = Site::of_sizes(&[SMALL]);
    std::fs::write(site.outside("weir.toml"), whole(&site, &with(&site, "a"))).unwrap();
    let server = Server::run(&site.outside("weir.toml"));
    let hosted = Hosted { site, server };
    let said = hosted.hang_up(&with(&hosted.site, "new"));
    assert!(said.contains("in force"), "{said}");
    assert!(hosted.ask(SMALL).response().body == content(SMALL));
    assert_eq!(logged(&hosted), ["new"]);
}

#[test]
fn kernel_queues_know_no_classes() {
    let site = Site::of_sizes(&[SMALL]);
    std::fs::write(site.outside("weir.toml"), whole(&site, &slots(1).replace("off", "bands"))).unwrap();
    let output = crate::common::run_to_end(&["run", &site.outside("weir.toml").display().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let place = format!("{}:2:11: uplink.shaping `bands` with [[class]]", site.outside("weir.toml").display());
    assert_eq!((output.status.code(), said.contains(&place)), (Some(1), true), "{said}");
}
