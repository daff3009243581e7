//! The folder that keeps certificates: full, owned by another user, shared, or with many certificates.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::{said, serve, serve_under, site, state};
use crate::common::pebble::{Pebble, Settings};
use crate::common::{Client, Server, get, run_to_end, weir_under};
use crate::user::{is_root, of_threads};

/// A certificate could not be stored, so weir orders none, serves, and continues once there is room.
#[test]
fn a_full_folder_costs_no_order() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    if !is_root() {
        return println!("SKIPPED: a full disk: mounting one needs root");
    }
    let state = state(&site);
    std::fs::create_dir(&state).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64k none '{0}' && head -c 60k /dev/zero >'{0}/filler' && exec \"$0\" \"$@\"",
        state.display()
    );
    let under = ["unshare", "--mount", "sh", "-c", &script];
    let server = serve_under(&under, &site, &pebble, (&state, &["a.test"]), &[]);
    said(&server, "no certificate for a.test yet: cannot write `");
    said(&server, "No space left on device; make room on its disk");
    let mut plain = Client::connect(pebble.http);
    plain.send(get("/a.txt"));
    assert_eq!(plain.response().status, 200);
    let filler = format!("/proc/{}/root{}/filler", server.pid(), state.display());
    std::fs::remove_file(filler).unwrap();
    said(&server, "a certificate for a.test is in force");
}

#[test]
fn a_folder_that_is_read_only_or_of_somebody_else_is_named_with_the_cure() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    if !is_root() {
        return println!("SKIPPED: folders of other users need root");
    }
    let state = state(&site);
    std::fs::create_dir_all(state.join("acme")).unwrap();
    std::fs::set_permissions(state.join("acme"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let server = serve(&site, &pebble, &state, &["a.test"], &["--user", "nobody"]);
    said(&server, "no certificate for a.test yet: cannot open `");
    said(&server, "Permission denied; expected a folder of weir's own user with mode 0700: chown it");
    drop(server);
    let script = format!("mount -t tmpfs -o ro none '{}' && exec \"$0\" \"$@\"", state.display());
    let under = ["unshare", "--mount", "sh", "-c", &script];
    let server = serve_under(&under, &site, &pebble, (&state, &["a.test"]), &[]);
    said(&server, "no certificate for a.test yet: cannot open `");
    server.assert_alive();
}

/// From root to a user in the sandbox: both ports are bound, the folder is created for that user, and names are looked
/// up.
#[test]
fn a_server_that_root_starts_orders_as_its_user() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    if !is_root() {
        return;
    }
    let state = state(&site);
    let flags = ["--user", "nobody"];
    let mut command = weir_under(&[]);
    command.arg("serve").arg(site.served()).args(flags).arg("--state").arg(&state).args(["--domain", "a.test"]);
    let [http, tls] = [pebble.http, pebble.tls].map(|address| address.to_string());
    let directory = pebble.directory().replace("127.0.0.1", "localhost");
    command.args(["--listen", &tls, "--listen-http", &http, "--acme-ca", pebble.ca(), "--acme-directory", &directory]);
    let server = Server::spawn(command);
    said(&server, "a certificate for a.test is in force");
    assert_eq!(of_threads(&server, "CapEff:"), ["0000000000000000"]);
    let own = std::fs::metadata(&state).unwrap().uid();
    for folder in [state.join("acme"), state.join("acme/a.test.pem"), state.join("acme/lock")] {
        assert_eq!(std::fs::metadata(&folder).unwrap().uid(), own, "{}", folder.display());
    }
    assert_ne!(own, 0);
    // Another start finds the files that the user has stored.
    drop(server);
    let server = serve(&site, &pebble, &state, &["a.test"], &flags);
    assert!(pebble.trust().accepts(pebble.tls, "a.test"));
    assert_eq!(server.stderr(), Vec::<String>::new());
}

#[test]
fn a_second_process_reads_and_takes_over_when_the_first_one_ends() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let state = state(&site);
    let first = serve(&site, &pebble, &state, &["a.test"], &[]);
    said(&first, "a certificate for a.test is in force");
    drop(first);
    // The first server has other ports, so that the authority queries the second.
    let mut command = weir_under(&[]);
    command.arg("serve").arg(site.served()).arg("--state").arg(&state).args([
        "--domain",
        "a.test",
        "--acme-ca",
        pebble.ca(),
    ]);
    command.args(["--listen", "127.0.0.1:0", "--acme-directory", &pebble.directory()]);
    let first = Server::spawn(command);
    assert!(pebble.trust().accepts(first.address, "a.test"));
    let second = serve(&site, &pebble, &state, &["a.test", "b.test"], &[]);
    assert!(pebble.trust().accepts(pebble.tls, "a.test") && !pebble.trust().accepts(pebble.tls, "b.test"));
    drop(first);
    said(&second, "a certificate for b.test is in force");
    assert!(pebble.trust().accepts(pebble.tls, "b.test"));
}

/// All are in force from the start, and none is ordered.
#[test]
fn a_thousand_certificates_are_in_force_at_once() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let folder = state(&site).join("acme");
    std::fs::create_dir_all(&folder).unwrap();
    let hosts: Vec<String> = (0..1000).map(|number| format!("host-{number}.test")).collect();
    for host in &hosts {
        let made = rcgen::generate_simple_self_signed([host.clone()]).unwrap();
        let head = format!("# The authority: {}\n", pebble.directory());
        let text = format!("{head}{}{}", made.signing_key.serialize_pem(), made.cert.pem());
        std::fs::write(folder.join(format!("{host}.pem")), text).unwrap();
    }
    let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let since = std::time::Instant::now();
    let server = serve(&site, &pebble, &state(&site), &names, &["--admin", "127.0.0.1:0"]);
    println!("started after {:?}", since.elapsed());
    for host in [&hosts[0], &hosts[999]] {
        let pem = std::fs::read_to_string(folder.join(format!("{host}.pem"))).unwrap();
        assert!(crate::common::tls::Trust::of_pem(&[&pem]).accepts(pebble.tls, host), "{host}");
    }
    let line = server.stderr().concat();
    let admin = line.split_once("http://").and_then(|(_, rest)| rest.split_once('/')).unwrap().0.parse().unwrap();
    let mut client = Client::connect(admin);
    client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let metrics = String::from_utf8(client.response().body).unwrap();
    assert_eq!(metrics.matches("weir_certificate_not_after_timestamp_seconds{site=\"host-").count(), 1000);
}

#[test]
fn a_check_names_a_folder_that_cannot_be_written() {
    let site = site();
    let state = site.outside("file");
    std::fs::write(&state, "no folder").unwrap();
    let text =
        "[[listener]]\naddress = '127.0.0.1:0'\ntls = true\n[acme]\n[[site]]\nroot = 'site'\nhosts = ['example.org']\n";
    std::fs::write(site.outside("weir.toml"), text).unwrap();
    let mut command = weir_under(&[]);
    command.env("STATE_DIRECTORY", &state).arg("check").arg(site.outside("weir.toml"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("acme: no listener has port 80, and none with TLS has 443"), "{said}");
    assert!(said.contains("no certificate is ordered: `"), "{said}");
    let usage = run_to_end(&["serve", "--domain", "exa mple"]);
    assert_eq!(usage.status.code(), Some(2));
}
