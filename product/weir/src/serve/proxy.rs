//! `weir proxy`: passes requests on to other servers, and sends their responses in order.

use cli::Failure;
use config::{Answers, Proxy, UpstreamAddress};
use server::{FileOptions, SiteConfig};

const AFTER_HELP: &str = "\
Upstreams speak HTTP/1.1, or HTTP/2 with h2c:// or h2://. Several share the requests. More in
a file: paths, files in addition, several sites (docs/proxy.md). --help-all lists the other
options.

Examples:
  weir proxy :3000
  weir proxy :3000 --uplink 10mbit --listen [::]:80
  weir proxy h2c://:50051
  weir proxy :3000 --domain app.example.org
  weir proxy unix:/run/app.sock --listen [::]:443 --cert fullchain.pem --key privkey.pem";

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = AFTER_HELP, after_long_help = AFTER_HELP)]
pub struct Args {
    /// Server that answers: a port, a host and a port, https:// and a host, or unix: and the
    /// path of a socket; HTTP/2 with h2c:// before a host and a port, h2:// for TLS
    #[arg(required = true, value_name = "UPSTREAM", value_parser = upstream, verbatim_doc_comment)]
    to: Vec<UpstreamAddress>,
    #[command(flatten)]
    flags: super::Flags,
}

fn upstream(text: &str) -> Result<UpstreamAddress, String> {
    UpstreamAddress::new(text)
        .ok_or_else(|| "expected a port, a host and a port, https://HOST, h2c://HOST:PORT, h2://HOST or unix:/PATH, for example :3000".to_string())
}

pub fn main(args: Args) -> Result<(), Failure> {
    let answers = Answers { proxies: vec![Proxy::of_all(args.to)], ..Answers::default() };
    let site = SiteConfig { dir: None, answers, ..SiteConfig::alone(".".into(), FileOptions::default()) };
    super::serve_site(site, args.flags)
}
