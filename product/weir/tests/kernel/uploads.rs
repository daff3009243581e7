//! `weir attach --uploads`: orders traffic to the ports, as on a router whose hosts upload.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::apply::Folder;
use crate::attach::attached;
use crate::cable::ip;
use crate::floods::OnDrop;
use crate::network::Network;

/// A remote server, at the other end of the cable.
const WORLD: &str = "198.18.60.2:80";
const LARGE_BYTES: usize = 1_000_000;
const SMALL_BYTES: usize = 2000;
/// The interval of small requests; a client counts as waiting for a tenth of a second.
const SMALL_EVERY: Duration = Duration::from_millis(40);

/// Uploads from this address, and waits until everything has arrived.
fn upload(network: &Network, from: &str, bytes: usize) {
    let from: std::net::SocketAddr = format!("{from}:0").parse().unwrap();
    let mut connection: TcpStream = network.cable.at_server(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::from(from)).unwrap();
        socket.connect(&WORLD.parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
        socket.into()
    });
    connection.write_all(&(bytes as u64).to_ne_bytes()).unwrap();
    connection.write_all(&vec![b'x'; bytes]).unwrap();
    assert_eq!(connection.read(&mut [0]).unwrap(), 1);
}

/// Accepts an upload on each connection, one after another.
fn take(listener: &TcpListener) {
    let take = |mut connection: TcpStream| {
        let mut length = [0; 8];
        connection.read_exact(&mut length).unwrap();
        let mut body = vec![0; u64::from_ne_bytes(length) as usize];
        connection.read_exact(&mut body).unwrap();
        connection.write_all(b"k").unwrap();
    };
    std::thread::scope(|scope| {
        // A connection that ends immediately ends the loop.
        while let Ok((connection, _)) = listener.accept() {
            if connection.peek(&mut [0]).is_ok_and(|bytes| bytes == 0) {
                break;
            }
            scope.spawn(move || take(connection));
        }
    });
}

/// Runs `action` with a server that accepts uploads.
fn with_world(network: &Network, action: impl FnOnce()) {
    let listener = network.cable.at_client(|| TcpListener::bind(WORLD).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| take(&listener));
        action();
        drop(network.cable.at_client(|| TcpStream::connect(WORLD).unwrap()));
    });
}

#[test]
fn what_goes_to_the_ports_is_ordered_where_it_is_wanted() {
    let (Some(network), folder) = (Network::new(), Folder::new("uploads")) else { return };
    let save = format!("--save={}", folder.file().display());
    if !attached(&network, "attach uplink --port 80 --rate 9mbit --no-watch") {
        return;
    }
    let ordered = || network.json("attach --list")[0]["ordered_packets"].as_u64().unwrap();
    with_world(&network, || {
        upload(&network, "198.18.60.1", 100_000);
        assert_eq!(ordered(), 0);
        network.printed(&format!("attach uplink --uploads --no-watch {save}"));
        let packets = || network.json("attach --list")[0]["bands"][1]["packets"].as_u64().unwrap();
        let before = packets();
        upload(&network, "198.18.60.1", 100_000);
        assert!(ordered() >= 100_000 / 1460, "{}", ordered());
        assert!(packets() - before < 10, "they are no other traffic");
    });
    assert!(network.printed("attach --list").contains("for port 80 and uploads to it"));
    assert!(std::fs::read_to_string(folder.file()).unwrap().contains("\nuploads = true\n"));
    let apply = format!("apply --file {}", folder.file().display());
    assert_eq!(network.printed(&apply), "weir: uplink: as it should be\n");
    // A further attach keeps the setting, unless it is told otherwise.
    network.printed("attach uplink --rate 8mbit --no-watch");
    assert_eq!(network.json("attach --list")[0]["uploads"], true);
    network.printed("attach uplink --uploads=off --no-watch");
    assert_eq!(network.json("attach --list")[0]["uploads"], false);
    assert!(network.refusal("attach uplink --uploads=yes", 2).contains("expected on or off"));
}

/// The client of an upload is the host that sends it.
#[test]
fn hosts_that_upload_share_the_link() {
    let Some(network) = Network::new() else { return };
    if !attached(&network, "attach uplink --port 80 --rate 9mbit --uploads --client-share 100KB --no-watch") {
        return;
    }
    network.cable.at_server(|| ip("addr add 198.18.60.3/24 dev uplink"));
    with_world(&network, || {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _over = OnDrop(&is_over);
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    upload(&network, "198.18.60.3", SMALL_BYTES);
                    std::thread::sleep(SMALL_EVERY);
                }
            });
            upload(&network, "198.18.60.1", LARGE_BYTES);
        });
    });
    // The last band is for hosts that are ahead of their share.
    let list = network.json("attach --list")[0].clone();
    let behind = list["bands"][14]["bytes"].as_u64().unwrap();
    assert!(behind > 200_000 && list["behind"].as_u64() > Some(100), "{list}");
}
