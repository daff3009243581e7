//! Valid and invalid files of certificates and keys.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::{Identity, IdentityError, Validity};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("weir-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a certificate and its key as PEM.
fn made(names: &[&str]) -> (String, String) {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn a_chain_and_its_key_are_read() {
    let (folder, (own, key), (above, _)) =
        (Folder::new("right"), made(&["a.test", "*.b.test", "127.0.0.1", "::1"]), made(&["ca"]));
    let (cert, key) = (folder.write("c", own + &above), folder.write("k", key));
    let identity = Identity::read(&cert, &key).unwrap();
    assert_eq!(identity.key().cert.len(), 2);
    let covered = ["a.test", "x.b.test", "*.b.test", "127.0.0.1", "[::1]"];
    assert!(covered.iter().all(|host| identity.covers(host)));
    assert!(["b.test", "y.x.b.test", "c.test", "10.0.0.1"].iter().all(|host| !identity.covers(host)));
}

#[test]
fn every_fault_is_named_with_its_file() {
    let (folder, (cert, key), (_, other)) = (Folder::new("wrong"), made(&["a"]), made(&["b"]));
    let half = &cert[..cert.len() / 2];
    let broken = cert.replacen("MII", "AAA", 1);
    let (right, own) = (folder.write("right", &cert), folder.write("own", &key));
    let said = |cert: &PathBuf, key: &PathBuf| Identity::read(cert, key).unwrap_err().to_string();
    for (text, expected) in [
        ("", "has no certificate; expected PEM that begins with -----BEGIN CERTIFICATE-----"),
        (key.as_str(), "has no certificate"),
        (half, "ends within its PEM: it is incomplete"),
        (&broken, "cannot be read"),
        ("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n", "is not valid PEM"),
        (VERSION_1, "has version 1 of X.509"),
    ] {
        let path = folder.write("c", text);
        let said = said(&path, &own);
        assert!(said.contains(expected) && said.contains(path.to_str().unwrap()), "{said}");
    }
    for (text, expected) in [
        ("", "has no private key"),
        (
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "is locked by a passphrase",
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAA==\n-----END RSA PRIVATE KEY-----\n",
            "openssl pkey",
        ),
        (cert.as_str(), "has no private key"),
        (&key[..key.len() / 2], "it is incomplete"),
        (&other, "does not belong to the first certificate"),
    ] {
        let path = folder.write("k", text);
        let said = said(&right, &path);
        assert!(said.contains(expected) && said.contains(path.to_str().unwrap()), "{said}");
    }
    let missing = folder.0.join("missing");
    assert!(said(&missing, &own).contains("cannot read") && said(&right, &missing).contains("a private key"));
}

#[test]
fn a_large_file_is_not_read() {
    let folder = Folder::new("large");
    let large = folder.write("large", vec![b'a'; (1 << 20) + 1]);
    assert!(matches!(Identity::read(&large, &large), Err(IdentityError::Unreadable(..))));
}

/// A certificate that `openssl x509 -req -signkey` made without extensions.
const VERSION_1: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBIzCBywIUOA9UtVAb9H9AxsmHS+lUrvEbakMwCgYIKoZIzj0EAwIwFDESMBAG\n\
A1UEAwwJYS5leGFtcGxlMCAXDTI2MTEyOTExMjcxOFoYDzIxMjYxMTA1MTEyNzE4\n\
WjAUMRIwEAYDVQQDDAlhLmV4YW1wbGUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n\
AAQUF2Q5vKA0I/knyyvvGV3UBCwlF+a/IwQQPIOz5l9lGIZ35pd+yIxqgyhr/aRe\n\
ZFGkMFAKWzK90pIhvCYt88+9MAoGCCqGSM49BAMCA0cAMEQCIBRnLRNwiL1ED1fp\n\
6NvaWemRRJxbNmDeu2y4QHL6NS+6AiAys5medcfVzMFHTTbe32057v9LlE5Ab3pK\n\
xi66kg0nSQ==\n\
-----END CERTIFICATE-----\n\n";

#[test]
fn a_certificate_is_good_for_a_time() {
    let mut params = rcgen::CertificateParams::new(vec!["a".to_string()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2024, 1, 1);
    params.not_after = rcgen::date_time_ymd(2025, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let folder = Folder::new("dates");
    let cert = folder.write("c", params.self_signed(&key).unwrap().pem());
    let identity = Identity::read(&cert, &folder.write("k", key.serialize_pem())).unwrap();
    let at = |unix_s| identity.validity(SystemTime::UNIX_EPOCH + Duration::from_secs(unix_s));
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(at(1_704_067_200 - 24 * 3600), Validity::NotYet(day));
    assert_eq!(at(1_720_000_000), Validity::Good);
    assert_eq!(at(1_735_689_600 + 24 * 3600), Validity::Expired(day));
}
