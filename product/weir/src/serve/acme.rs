//! The flags for certificates by ACME, and the configuration that they produce.

use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acme::{ChallengeKind, ExternalAccount, Folder, LETS_ENCRYPT};
use clap::ValueEnum;
use cli::Failure;
use server::service_manager::{Account, HookProgram, PassedSocket};
use server::{AcmeConfig, Config, Listen};

use super::unmet::Unmet;
use super::{Flags, HTTPS, state_folder};

pub const HTTP_PORT: u16 = 80;
pub const HTTPS_PORT: u16 = 443;
/// The folder below the state folder.
const FOLDER: &str = "acme";
/// The user to which `weir serve --domain` switches if root starts it: the packages' user, if it exists.
const OWN_USER: &str = "weir";

/// The flags about certificates by ACME.
#[derive(Debug, Clone, clap::Args)]
pub struct AcmeFlags {
    /// Enable HTTPS with a certificate by ACME for this host, renewed in time; repeatable.
    /// Listens at ports 80 and 443, and redirects to https://
    #[arg(long = "domain", value_name = "HOST", value_parser = domain, conflicts_with_all = ["cert", "tls_self_signed"],
          help_heading = HTTPS, verbatim_doc_comment)]
    pub domains: Vec<String>,
    /// Address without TLS in addition to --listen, with --domain: for redirects and HTTP-01; repeatable
    /// [default: port 80; none with --listen]
    #[arg(hide_short_help = true, long, value_name = "ADDR", value_parser = super::address, requires = "domains",
          help_heading = HTTPS, verbatim_doc_comment)]
    pub listen_http: Vec<SocketAddr>,
    /// Directory of the authority that issues certificates [default: Let's Encrypt's]
    #[arg(hide_short_help = true, long = "acme-directory", value_name = "URL", value_parser = directory, requires = "domains",
          help_heading = HTTPS)]
    pub directory: Option<String>,
    /// Authorities that this directory's own certificate is verified against, as PEM
    /// [default: those of the system]
    #[arg(hide_short_help = true, long = "acme-ca", value_name = "FILE", requires = "domains", help_heading = HTTPS, verbatim_doc_comment)]
    pub ca: Option<PathBuf>,
    /// Mail address that the authority may write to [default: none]
    #[arg(hide_short_help = true, long = "acme-email", value_name = "ADDRESS", requires = "domains", help_heading = HTTPS)]
    pub email: Option<String>,
    /// Proof that this server has the host: a file over HTTP (port 80), a TLS handshake (port 443) or DNS
    /// [default: the first, then the second, as far as there are listeners; DNS with a hook]
    #[arg(hide_short_help = true, long = "acme-challenge", value_name = "NAME", value_enum, requires = "domains",
          help_heading = HTTPS, verbatim_doc_comment)]
    pub challenge: Option<Challenge>,
    /// Program that sets DNS records, for DNS-01: PROGRAM present|cleanup NAME VALUE; it returns
    /// once the record is visible [default: none]
    #[arg(hide_short_help = true, long = "acme-dns-hook", value_name = "PROGRAM", requires = "domains", help_heading = HTTPS,
          verbatim_doc_comment)]
    pub dns_hook: Option<PathBuf>,
    /// Folder for what is kept over a restart: certificates with their keys, the uplink's rate
    /// [default: STATE_DIRECTORY; /var/lib/weir for root, else ~/.local/state/weir]
    #[arg(hide_short_help = true, long, value_name = "DIR", verbatim_doc_comment)]
    pub state: Option<PathBuf>,
    /// The external account that the authority requires.
    #[arg(skip)]
    pub external_account: Option<ExternalAccount>,
    /// Certificates are ordered for sites of a file.
    #[arg(skip)]
    pub is_of_file: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Challenge {
    #[value(name = "http-01")]
    Http,
    #[value(name = "tls-alpn-01")]
    Tls,
    #[value(name = "dns-01")]
    Dns,
}

impl From<Challenge> for ChallengeKind {
    fn from(challenge: Challenge) -> ChallengeKind {
        match challenge {
            Challenge::Http => ChallengeKind::Http01,
            Challenge::Tls => ChallengeKind::TlsAlpn01,
            Challenge::Dns => ChallengeKind::Dns01,
        }
    }
}

fn domain(text: &str) -> Result<String, String> {
    let expected = || "expected a host name in ASCII without a port, for example example.org".to_string();
    let host = text.to_ascii_lowercase();
    let is_name = config::HostName::new(&host).is_some() && host.parse::<std::net::IpAddr>().is_err();
    if is_name && !host.starts_with('[') { Ok(host) } else { Err(expected()) }
}

fn directory(text: &str) -> Result<String, String> {
    match config::is_https_url(text) {
        true => Ok(text.to_string()),
        false => Err(format!("expected https://, for example {LETS_ENCRYPT}")),
    }
}

impl AcmeFlags {
    /// Converts the table of a file to flags. Paths are relative to this folder.
    pub fn of_file(self, table: &config::Acme, folder: &Path) -> AcmeFlags {
        let external = table.external_account.as_ref();
        AcmeFlags {
            directory: Some(table.directory.clone()),
            ca: table.ca.as_ref().map(|ca| folder.join(ca)),
            email: table.email.clone(),
            challenge: table.challenge.map(|challenge| match challenge {
                config::Challenge::Http01 => Challenge::Http,
                config::Challenge::TlsAlpn01 => Challenge::Tls,
                config::Challenge::Dns01 => Challenge::Dns,
            }),
            dns_hook: table.dns_hook.as_ref().map(|hook| folder.join(hook)),
            external_account: external.and_then(|(id, key)| ExternalAccount::of_base64(id, key.secret())),
            is_of_file: true,
            ..self
        }
    }

    /// Certificates are ordered.
    pub fn are_wanted(&self) -> bool {
        self.is_of_file || !self.domains.is_empty()
    }
}

/// The listeners of `--domain`: those with TLS, followed by those without.
pub fn listeners(flags: &Flags) -> Vec<Listen> {
    let port = |port| config::listen_address(&format!(":{port}")).into_iter().collect::<Vec<_>>();
    let secure = if flags.listen.is_empty() { port(HTTPS_PORT) } else { flags.listen.clone() };
    let is_default = flags.listen.is_empty() && flags.acme.listen_http.is_empty();
    let plain = if is_default { port(HTTP_PORT) } else { flags.acme.listen_http.clone() };
    let secure = secure.into_iter().map(|address| Listen {
        address,
        is_secure: true,
        has_http3: !flags.no_http3,
        has_proxy_header: false,
    });
    let plain = plain.into_iter().map(|address| Listen {
        address,
        is_secure: false,
        has_http3: false,
        has_proxy_header: false,
    });
    secure.chain(plain).collect()
}

/// Returns whether each listener uses TLS.
pub fn security(passed: &[PassedSocket], listen: &[Listen]) -> impl Iterator<Item = bool> {
    passed.iter().map(|socket| socket.is_secure).chain(listen.iter().map(|listen| listen.is_secure))
}

/// Returns the ACME configuration that the flags give, for listeners with and without TLS; `None` if no certificates
/// are ordered.
pub fn config(flags: &Flags, security: impl Iterator<Item = bool>) -> Result<Option<AcmeConfig>, Unmet> {
    let acme = &flags.acme;
    if !acme.are_wanted() {
        return Ok(None);
    }
    let folder = state_folder::folder(acme.state.as_deref()).ok_or_else(|| {
        Failure::Failed(
            "there is no folder for certificates: expected server.state, --state DIR, STATE_DIRECTORY or HOME".into(),
        )
    })?;
    let listeners: Vec<bool> = security.collect();
    let by_listeners = [(ChallengeKind::Http01, false), (ChallengeKind::TlsAlpn01, true)];
    let usable = by_listeners.into_iter().filter(|(_, is_secure)| listeners.contains(is_secure)).map(|(kind, _)| kind);
    let challenges = match (acme.challenge, &acme.dns_hook) {
        (Some(challenge), _) => vec![challenge.into()],
        (None, Some(_)) => vec![ChallengeKind::Dns01],
        (None, None) => usable.collect(),
    };
    Ok(Some(AcmeConfig {
        directory: acme.directory.clone().unwrap_or_else(|| LETS_ENCRYPT.into()),
        ca: acme.ca.clone(),
        email: acme.email.clone(),
        challenges,
        external_account: acme.external_account.clone(),
        hook: None,
        folder: folder.join(FOLDER),
    }))
}

/// Starts the process that runs the program for DNS records, if one is configured.
pub fn start_hook(program: Option<&Path>, config: &mut Config) -> Result<(), Unmet> {
    let (Some(program), Some(acme)) = (program, &mut config.acme) else { return Ok(()) };
    let started = HookProgram::start(program, config.privileges.account.as_ref());
    let hook = started.map_err(|error| {
        let said = format!("cannot start the process for acme.dns_hook: {error}");
        Unmet::Key("acme.dns_hook", Failure::Failed(said))
    })?;
    acme.hook = Some(Arc::new(hook));
    Ok(())
}

/// Creates the folder for the user to which the server switches. If that fails, the renewer reports why it cannot use
/// the folder.
pub fn make_folder(config: &Config) {
    let Some(acme) = &config.acme else { return };
    let account = config.privileges.account.as_ref().filter(|_| rustix::process::geteuid().is_root());
    let give = |path: &Path, account: Option<&Account>| {
        account.map_or(Ok(()), |account| chown(path, Some(account.uid()), Some(account.gid())))
    };
    let above = acme.folder.parent().map_or(Ok(()), |above| {
        let is_new = !above.exists();
        std::fs::create_dir_all(above)?;
        if is_new { give(above, account) } else { Ok(()) }
    });
    let _ = above.and_then(|()| match Folder::create(&acme.folder)? {
        true => give(&acme.folder, account),
        false => Ok(()),
    });
}

/// The user to which a server with `--domain` switches if root starts it without naming a user: weir's own user, or the
/// user who called sudo.
pub fn default_user(flags: &Flags) -> Option<String> {
    if flags.acme.domains.is_empty() || flags.user.is_some() || !rustix::process::geteuid().is_root() {
        return None;
    }
    let of_sudo = || std::env::var("SUDO_UID").ok().filter(|user| user != "0");
    let own = Account::find(OWN_USER, None).is_ok().then(|| OWN_USER.to_string());
    own.or_else(of_sudo).filter(|user| Account::find(user, None).is_ok())
}
