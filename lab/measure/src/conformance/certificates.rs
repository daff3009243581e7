//! Certificates with ECDSA P-256: a private authority, and a server certificate that it has signed. openssl creates
//! them, so that client and server do not both rely on code of Weir.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::run;

/// The validity in days, fewer than the 47 that browsers will require by 2029.
const DAYS: &str = "14";
const LIMIT: Duration = Duration::from_secs(60);

const SERVER: &str = "\
subjectAltName = DNS:localhost, IP:127.0.0.1
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
";

pub struct Certificates {
    /// The certificate of the authority.
    pub authority: PathBuf,
    /// The certificate of the server, followed by the authority's.
    pub chain: PathBuf,
    pub key: PathBuf,
    /// SHA-256 of the server's public key as DER, in base64.
    pub key_digest: String,
}

/// Creates the certificates in this folder.
pub fn make(folder: &Path, openssl: &Path) -> Result<Certificates, String> {
    let path = |name: &str| folder.join(name);
    let openssl = |words: &str| {
        let mut command = Command::new(openssl);
        command.args(words.split(' ')).current_dir(folder);
        run::well(&mut command, &path("openssl.log"), LIMIT)
    };
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::write(path("server.ext"), SERVER).map_err(failed)?;
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "req -x509 {new_key} -keyout authority.key -out authority.pem -subj /CN=weir-conformance -days {DAYS} \
         -addext keyUsage=critical,keyCertSign,cRLSign"
    ))?;
    openssl(&format!("req {new_key} -keyout server.key -out server.csr -subj /CN=localhost"))?;
    openssl(&format!(
        "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days {DAYS} -sha256 \
         -extfile server.ext -out server.pem"
    ))?;
    openssl("x509 -in server.pem -noout -pubkey -out server.public")?;
    openssl("pkey -pubin -in server.public -outform der -out server.public.der")?;
    openssl("dgst -sha256 -binary -out server.digest server.public.der")?;
    let key_digest = openssl("base64 -in server.digest")?.trim().into();
    let chain = ["server.pem", "authority.pem"].map(|name| fs::read_to_string(path(name)).map_err(failed));
    let [server, authority] = chain;
    fs::write(path("chain.pem"), server? + &authority?).map_err(failed)?;
    let [authority, chain, key] = ["authority.pem", "chain.pem", "server.key"].map(path);
    Ok(Certificates { authority, chain, key, key_digest })
}
