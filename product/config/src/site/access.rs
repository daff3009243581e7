//! Access rules: which clients may request certain paths of a site.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::network::Network;
use crate::pattern::Pattern;
use crate::place::{Place, Placed};
use crate::section::Section;
use crate::unreached_rules::Rule;
use crate::value_forms::{Realm, Satisfy};

use super::ForwardAuth;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub at: Place,
    pub path: Pattern,
    pub networks: Networks,
    /// The users who may log in, if a login is required.
    pub users: Option<UsersFile>,
    /// The server that decides which clients have access, if there is one.
    pub auth: Option<ForwardAuth>,
    pub satisfy: Satisfy,
    /// The place of the key for users or for the authentication server, or of the table if it has neither.
    pub login_at: Place,
}

/// The users who log in by basic authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsersFile {
    pub file: PathBuf,
    pub realm: String,
}

/// The networks whose clients are admitted or refused. The most specific network that contains the client decides, so
/// their order does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    /// The allowed networks. If there are any, clients outside all networks are refused.
    pub allow: Vec<Network>,
    pub deny: Vec<Network>,
}

impl Access {
    pub(crate) fn read(table: &Section<'_, '_>) -> Option<Access> {
        let path = table.text::<Pattern>("path");
        let networks = Networks::read(table);
        let (users, satisfy) = (UsersFile::read(table), table.text::<Satisfy>("satisfy"));
        let auth = ForwardAuth::read(table);
        if users.is_some() && auth.is_some() {
            let said = "site.access.auth_url with site.access.users: expected only auth_url, whose server knows the \
                users, or only users";
            table.book.mistake(table.place_of("auth_url"), said);
        }
        let login_at = table.place_of(if users.is_some() { "users" } else { "auth_url" });
        let (path, satisfy) = (path?.value, satisfy?.value);
        let access = Access { at: table.at, path, networks, users, auth, satisfy, login_at };
        if access.satisfy == Satisfy::Any && (access.networks.is_empty() || !access.has_login()) {
            let said =
                "site.access.satisfy `any` without both kinds of conditions: expected networks, and users or auth_url";
            table.book.mistake(table.place_of("satisfy"), said);
        }
        Some(access)
    }

    /// Returns true if only some clients are admitted, so that caches must not store the responses for others.
    pub fn is_private(&self) -> bool {
        !self.networks.allow.is_empty() || self.has_login()
    }

    /// Returns true if any clients have to log in.
    pub fn has_login(&self) -> bool {
        self.users.is_some() || self.auth.is_some()
    }

    /// Returns the decision by the client's network.
    pub fn by_network(&self, client: IpAddr) -> ByNetwork {
        match (self.networks.admits(client).0, self.satisfy) {
            (true, Satisfy::All) if self.has_login() => ByNetwork::NeedsLogin,
            (true, _) => ByNetwork::LetIn,
            (false, Satisfy::All) => ByNetwork::Refused,
            (false, Satisfy::Any) => ByNetwork::NeedsLogin,
        }
    }
}

/// The decision by the network of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByNetwork {
    LetIn,
    NeedsLogin,
    Refused,
}

impl UsersFile {
    fn read(table: &Section<'_, '_>) -> Option<UsersFile> {
        let (file, realm) = (table.text::<PathBuf>("users"), table.text::<Realm>("realm"));
        if table.is_given("realm") && !table.is_given("users") {
            let said = "site.access.realm without site.access.users: expected a file of users";
            table.book.mistake(table.place_of("realm"), said);
        }
        Some(UsersFile { file: file?.value, realm: realm?.value.0 })
    }
}

/// Reports a rule that refuses all IPv4 addresses but not all IPv6 addresses.
fn check_families(table: &Section<'_, '_>, deny: &[Placed<Network>]) {
    let of_all = |is_ipv4: bool| deny.iter().find(|own| own.value.is_all() && own.value.address().is_ipv4() == is_ipv4);
    let (all, missing) = match (of_all(true), of_all(false)) {
        (Some(all), None) => (all, "::/0"),
        (None, Some(all)) => (all, "0.0.0.0/0"),
        _ => return,
    };
    let said = format!("site.access.deny `{}` admits all other clients: expected `{missing}` with it", all.value);
    table.book.mistake(all.at, said);
}

impl Networks {
    fn read(table: &Section<'_, '_>) -> Networks {
        let [allow, deny] = ["allow", "deny"].map(|name| table.texts::<Network>(name));
        let all: Vec<(&str, &Placed<Network>)> = allow
            .iter()
            .map(|network| ("allow", network))
            .chain(deny.iter().map(|network| ("deny", network)))
            .collect();
        for (at, (name, network)) in all.iter().enumerate() {
            if let Some((first, same)) = all[..at].iter().find(|(_, other)| other.value == network.value) {
                let said = format!(
                    "site.access.{name} `{}`: expected once, site.access.{first} of line {} has it",
                    network.value, same.at.line
                );
                table.book.mistake(network.at, said);
            }
        }
        if allow.is_empty() {
            check_families(table, &deny);
        }
        let values = |networks: Vec<Placed<Network>>| networks.into_iter().map(|network| network.value).collect();
        Networks { allow: values(allow), deny: values(deny) }
    }

    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Returns whether a client is admitted, and the network that decides, if there is one.
    pub fn admits(&self, client: IpAddr) -> (bool, Option<&Network>) {
        let allowed = self.allow.iter().map(|network| (true, network));
        let of_client =
            allowed.chain(self.deny.iter().map(|network| (false, network))).filter(|(_, own)| own.contains(client));
        match of_client.max_by_key(|(_, network)| network.length()) {
            Some((is_let_in, network)) => (is_let_in, Some(network)),
            None => (self.allow.is_empty(), None),
        }
    }
}

impl Rule for Access {
    const NOUN: &'static str = "site.access";
    const IS_PROTECTION: bool = true;

    fn at(&self) -> Place {
        self.at
    }

    fn path(&self) -> Option<&Pattern> {
        Some(&self.path)
    }

    fn covers(&self, other: &Access) -> bool {
        self.path.covers(&other.path)
    }

    fn competes(&self, other: &Access) -> bool {
        let Access { at, login_at, .. } = *other;
        self.path.meets(&other.path) && Access { at, login_at, path: other.path.clone(), ..self.clone() } != *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(allow: &[&str], deny: &[&str]) -> Networks {
        let [allow, deny] = [allow, deny].map(|all| all.iter().map(|text| text.parse().unwrap()).collect());
        Networks { allow, deny }
    }

    #[test]
    fn the_longest_network_of_a_client_decides() {
        let nested = networks(&["10.0.0.0/8", "10.1.2.3", "2001:db8::/32"], &["10.1.0.0/16", "2001:db8:7::/48"]);
        for (client, is_let_in) in [
            ("10.2.0.1", true),
            ("10.1.0.1", false),
            ("10.1.2.3", true),
            ("::ffff:10.1.2.4", false),
            ("::ffff:10.9.2.4", true),
            ("192.0.2.1", false),
            ("2001:db8:1::1", true),
            ("2001:db8:7::1", false),
            ("::1", false),
        ] {
            assert_eq!(nested.admits(client.parse().unwrap()).0, is_let_in, "{client}");
        }
        let denied = networks(&[], &["192.0.2.0/24"]);
        let admits = |client: &str| denied.admits(client.parse().unwrap()).0;
        assert_eq!(
            [admits("192.0.2.9"), admits("::ffff:192.0.2.9"), admits("192.0.3.9"), admits("::")],
            [false, false, true, true]
        );
        assert_eq!(networks(&[], &[]).admits("::1".parse().unwrap()), (true, None));
        let all = networks(&["192.0.2.7"], &["0.0.0.0/0", "::/0"]);
        assert!(all.admits("192.0.2.7".parse().unwrap()).0 && !all.admits("192.0.2.8".parse().unwrap()).0);
    }
}
