//! A server whose configuration file is replaced.

use super::{Client, Server, Site, get};

pub struct Hosted {
    pub site: Site,
    pub server: Server,
}

impl Hosted {
    /// Starts a server of a site with files of these sizes. The text is the configuration without an address and the
    /// site's folder.
    pub fn new(sizes: &[usize], text: &str) -> Hosted {
        let site = Site::of_sizes(sizes);
        write(&site, text);
        let server = Server::run(&site.outside("weir.toml"));
        Hosted { site, server }
    }

    pub fn rewrite(&self, text: &str) {
        write(&self.site, text);
    }

    pub fn ask(&self, size: usize) -> Client {
        let mut client = self.server.connect();
        client.send(get(&format!("/size-{size}")));
        client
    }
}

/// The complete configuration of a site, with an address.
pub fn whole(site: &Site, text: &str) -> String {
    let root = site.served();
    format!("{text}\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\n", root.display())
}

fn write(site: &Site, text: &str) {
    std::fs::write(site.outside("weir.toml"), whole(site, text)).unwrap();
}
