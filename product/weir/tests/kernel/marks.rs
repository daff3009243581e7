//! Clients that share an address, as behind a reverse proxy: `weir attach --client-by` separates them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use socket2::SockRef;

use crate::apply::Folder;
use crate::attach::attached;
use crate::floods::OnDrop;
use crate::network::Network;

const SERVER: &str = "198.18.60.1:80";
/// The connections of the client that has many.
const MANY: usize = 6;
/// The maximum quotient of clients that are known separately. With addresses of their own it was 2.4 to 3.6 in four runs,
/// with one account about the number of connections.
const MOST: f64 = 4.5;
/// The bytes that both clients have received before those of each are compared, and from then on.
const BEFORE_BYTES: usize = 1_500_000;
const BYTES: usize = 5_000_000;
const TURN: Duration = Duration::from_millis(5);

/// Returns what a proxy sends first for the client with this number.
fn header(number: u8) -> Vec<u8> {
    format!("PROXY TCP4 203.0.113.{number} 198.18.60.1 4711 80\r\n").into_bytes()
}

/// Answers each connection, which begins with a header and the client's number, with bytes until the test is over. The
/// packets to the client have that number as their mark.
fn serve(listener: &TcpListener, is_over: &AtomicBool) {
    std::thread::scope(|scope| {
        for _ in 0..=MANY {
            let mut connection = listener.accept().unwrap().0;
            let mut begin = header(1);
            begin.push(0);
            connection.read_exact(&mut begin).unwrap();
            SockRef::from(&connection).set_mark(begin[begin.len() - 1].into()).unwrap();
            scope.spawn(move || while !is_over.load(Relaxed) && connection.write_all(&[0; 16384]).is_ok() {});
        }
    });
}

fn fetch(number: u8, received: &AtomicUsize, is_over: &AtomicBool) {
    let mut connection = TcpStream::connect(SERVER).unwrap();
    connection.write_all(&[&header(number)[..], &[number]].concat()).unwrap();
    let mut bytes = [0; 16384];
    while !is_over.load(Relaxed) {
        received.fetch_add(connection.read(&mut bytes).unwrap(), Relaxed);
    }
}

/// Returns the bytes that a client with many connections has received for each byte of one with a single connection.
fn quotient(network: &Network) -> f64 {
    let (is_over, all) = (AtomicBool::new(false), [AtomicUsize::new(0), AtomicUsize::new(0)]);
    let listener = network.cable.at_server(|| TcpListener::bind(SERVER).unwrap());
    std::thread::scope(|scope| {
        let _over = OnDrop(&is_over);
        scope.spawn(|| serve(&listener, &is_over));
        let (many, one) = (&all[0], &all[1]);
        for (number, received) in std::iter::repeat_n((1, many), MANY).chain([(2, one)]) {
            let is_over = &is_over;
            scope.spawn(move || network.cable.at_client(|| fetch(number, received, is_over)));
        }
        // The start, when no client is ahead, is left out.
        let wait = |bytes| {
            while all.iter().map(|received| received.load(Relaxed)).sum::<usize>() < bytes {
                std::thread::sleep(TURN);
            }
        };
        wait(BEFORE_BYTES);
        let before = all.each_ref().map(|received| received.load(Relaxed));
        wait(BEFORE_BYTES + BYTES);
        let of = |nth: usize| (all[nth].load(Relaxed) - before[nth]) as f64;
        of(0) / of(1)
    })
}

#[test]
fn clients_behind_one_address_are_told_apart_by_mark_or_header() {
    let Some(network) = Network::new() else { return };
    if !attached(&network, "attach uplink --port 80 --rate 9mbit --policy las --client-share 100KB --no-watch") {
        return;
    }
    let by_address = quotient(&network);
    network.printed("attach uplink --client-by mark --no-watch");
    let by_mark = quotient(&network);
    assert!(by_address > 5.0 && by_mark < MOST, "{by_address}, {by_mark}");
    let output = network.weir("attach uplink --client-by proxy --no-watch");
    if !output.status.success() {
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("Linux 6.6") && network.json("attach --list")[0]["client_by"] == "mark", "{said}");
        return println!("SKIPPED: {said}");
    }
    let by_header = quotient(&network);
    assert!(by_header < MOST, "{by_header}");
    println!(
        "bytes of many for each of one: by address {by_address:.2}, by mark {by_mark:.2}, by header {by_header:.2}"
    );
}

#[test]
fn the_identity_of_clients_is_shown_saved_and_applied() {
    let (Some(network), folder) = (Network::new(), Folder::new("marks")) else { return };
    let (file, save) = (folder.file(), format!("--save={}", folder.file().display()));
    if !attached(&network, &format!("attach uplink --rate 9mbit --no-watch {save}")) {
        return;
    }
    let (text, by) =
        (|| std::fs::read_to_string(&file).unwrap(), || network.json("attach --list")[0]["client_by"].clone());
    assert!(by() == "address" && !text().contains("client_by"));
    assert!(
        network.printed(&format!("attach uplink --client-by mark --no-watch {save}")).contains("a client (by mark) ")
    );
    assert!(by() == "mark" && text().contains("\nclient_by = \"mark\"\n"), "{}", text());
    // A further attach keeps it.
    network.printed("attach uplink --rate 8mbit --no-watch");
    assert!(by() == "mark" && network.printed("attach --list").contains("a client (by mark) "));
    // The file changes it without new bands.
    let apply = format!("apply --file {}", file.display());
    assert_eq!(network.printed(&apply), "weir: uplink: changed at 9mbit\n");
    assert_eq!(network.printed(&apply), "weir: uplink: as it should be\n");
    let bands = || network.json("attach --list")[0]["bands"][0]["packets"].as_u64();
    let before = bands();
    std::fs::write(&file, text().replace("client_by = \"mark\"\n", "")).unwrap();
    assert_eq!(network.printed(&apply), "weir: uplink: changed at 9mbit\n");
    assert!(by() == "address" && bands() >= before);
    assert!(network.refusal("attach uplink --client-by port", 2).contains("invalid value 'port'"));
}
