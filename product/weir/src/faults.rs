//! Finds the keys in a configuration whose files or addresses the server could not open.

use config::{Configuration, Held, Place, Remark, Site};
use server::{Fault, Part, ShapingError, SitesError, StartError};

/// Returns true if a key of the configuration caused the fault.
pub fn is_of_key(Fault { of, error }: &Fault) -> bool {
    let is_of_server = match cause_of(error) {
        StartError::Listen(..) | StartError::Udp(..) | StartError::Privileges(_) => true,
        StartError::Sites(error) => matches!(error, SitesError::Log(..) | SitesError::Secure(_)),
        _ => false,
    };
    of.is_some() || is_of_server
}

/// Converts a fault to a remark at the key that names the file or the address.
pub fn fault_in(configuration: &Configuration, Fault { of, error }: &Fault) -> Remark {
    let said = units::plain(&error.to_string()).into_owned();
    let settings = &configuration.settings;
    if let Some((site, part)) = of {
        let site = &configuration.sites[*site];
        return Remark { at: place_in(site, *part, &said), said };
    }
    let listener = |address| settings.listeners.iter().find(|listener| listener.value.address == address);
    match cause_of(error) {
        StartError::Listen(address, _) | StartError::Udp(address, _) => {
            Remark { at: listener(*address).map_or(Place::START, |listener| listener.at), said }
        }
        StartError::Sites(SitesError::Log(..)) => wrong(&settings.held, "server.access_log", error),
        StartError::Privileges(_) => wrong(&settings.held, "server.user", error),
        StartError::Sites(SitesError::Secure(_)) => {
            if let Some(at) = place_of(&settings.held, "acme.ca").filter(|_| said.contains("acme.ca")) {
                return Remark { at, said };
            }
            let secure = settings.listeners.iter().find(|listener| listener.value.is_secure);
            Remark { at: secure.map_or(Place::START, |listener| listener.at), said }
        }
        _ => Remark { at: Place::START, said },
    }
}

/// Returns a remark about shaping that this machine does not support, at the key that requests it.
pub fn shaping_in(configuration: &Configuration, error: &ShapingError) -> Remark {
    let settings = &configuration.settings;
    let at = match error {
        ShapingError::NoInterface(ip) => {
            settings.listeners.iter().find(|listener| listener.value.address.ip() == *ip).map(|listener| listener.at)
        }
        ShapingError::Policy(_) => place_of(&settings.held, "uplink.policy"),
        _ => None,
    };
    let Remark { at: of_key, said } = wrong(&settings.held, "uplink.shaping", error);
    Remark { at: at.unwrap_or(of_key), said }
}

/// Returns the error without the mention of the sandbox.
fn cause_of(error: &StartError) -> &StartError {
    if let StartError::OutOfReach(cause) = error { cause } else { error }
}

fn place_in(site: &Site, part: Part, said: &str) -> Place {
    let is_of_key = || {
        let key = site.https.certificate.as_ref().map(|files| files.value.1.display().to_string());
        key.is_some_and(|key| said.contains(&format!("{key}`")))
    };
    let is_of_links = || site.links_into.iter().any(|folder| said.contains(&format!("{}`", folder.display())));
    let key = match part {
        Part::Folder if is_of_links() => "site.follow_symlinks_into",
        Part::Folder => "site.root",
        Part::SymlinkFolder => "site.follow_symlinks_into",
        Part::ListingPage => "site.listing_page",
        Part::ErrorPage(at) => return site.answers.error_pages.get(at).map_or(site.at, |page| page.at),
        Part::Proxy(at) => return site.answers.proxies.get(at).map_or(site.at, |proxy| proxy.at),
        Part::Access(at) => return site.answers.access.get(at).map_or(site.at, |access| access.login_at),
        Part::Certificate if is_of_key() => "site.key",
        Part::Certificate => "site.cert",
        Part::Log => "site.access_log",
    };
    place_of(&site.held, key).unwrap_or(site.at)
}

pub fn place_of(held: &[Held], key: &str) -> Option<Place> {
    held.iter().find(|held| held.key == key)?.at
}

pub fn wrong(held: &[Held], key: &str, error: &dyn std::error::Error) -> Remark {
    let said = error.to_string();
    Remark { at: place_of(held, key).unwrap_or(Place::START), said: format!("{key}: {}", units::plain(&said)) }
}
