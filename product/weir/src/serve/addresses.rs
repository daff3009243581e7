//! Checks that no address is given twice. The kernel would refuse the second use, and its error would blame another
//! program.

use std::net::SocketAddr;

use cli::Failure;
use server::Listen;

use super::Flags;
use super::unmet::Unmet;

/// Fails if flags give an address twice, or an address that includes another one.
pub fn refuse_overlaps(flags: &Flags) -> Result<(), Failure> {
    let named = |flag: &'static str| move |address: &SocketAddr| (flag, *address);
    let listen = flags.listen.iter().map(named("--listen"));
    let all: Vec<_> = listen.chain(flags.acme.listen_http.iter().map(named("--listen-http"))).collect();
    for (at, (flag, address)) in all.iter().enumerate() {
        if let Some((other, same)) = all[..at].iter().find(|(_, before)| config::is_overlapping(*before, *address)) {
            return Err(Failure::Usage(format!(
                "{flag} {address}: {other} {same} has this address already; expected an address of its own, or one of them alone"
            )));
        }
    }
    Ok(())
}

/// Fails if the admin listener has the same address as a listener of the server.
pub fn refuse_shared_admin(admin: Option<SocketAddr>, listen: &[Listen]) -> Result<(), Unmet> {
    let Some(admin) = admin.filter(|admin| admin.port() != 0) else { return Ok(()) };
    let is_same = |address: SocketAddr| {
        address.port() == admin.port() && (address.ip() == admin.ip() || address.ip().is_unspecified())
    };
    let Some(listener) = listen.iter().map(|listen| listen.address).find(|address| is_same(*address)) else {
        return Ok(());
    };
    let said = format!("server.admin (--admin): {admin} is of the listener {listener}; expected another port");
    Err(Unmet::Key("server.admin", Failure::Failed(said)))
}
