//! Certificates for one test.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::directory::Directory;

/// An authority made on the spot, and what it has signed: a server at 127.0.0.1 and localhost, and a client.
///
/// All are files in PEM.
#[derive(Debug)]
pub struct Certificates {
    directory: Directory,
}

impl Certificates {
    /// Makes a new authority; no other test trusts it.
    ///
    /// # Panics
    /// If the files can't be written.
    #[must_use]
    pub fn new() -> Self {
        let directory = Directory::new();
        let authority = Authority::new();
        write(directory.path(), "ca.crt", &authority.certificate);
        // Servers are each other's clients.
        for (name, purposes) in [("server", vec![ServerAuth, ClientAuth]), ("client", vec![ClientAuth])] {
            let (certificate, key) = authority.sign(purposes);
            write(directory.path(), &format!("{name}.crt"), &certificate);
            write(directory.path(), &format!("{name}.key"), &key);
        }
        Self { directory }
    }

    /// The authority's certificate.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// The client's certificate and its key.
    #[must_use]
    pub fn client(&self) -> (PathBuf, PathBuf) {
        self.pair("client")
    }

    /// The server's certificate and its key.
    #[must_use]
    pub fn server(&self) -> (PathBuf, PathBuf) {
        self.pair("server")
    }

    fn pair(&self, name: &str) -> (PathBuf, PathBuf) {
        let path = self.directory.path();
        (path.join(format!("{name}.crt")), path.join(format!("{name}.key")))
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("keys can be made");
        let mut about = CertificateParams::new([]).expect("no names are valid names");
        about.distinguished_name.push(DnType::CommonName, "the authority of a test");
        about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = about.self_signed(&key).expect("it can sign itself").pem();
        Self { issuer: Issuer::new(about, key), certificate }
    }

    /// A certificate and its key.
    fn sign(&self, purposes: Vec<ExtendedKeyUsagePurpose>) -> (String, String) {
        let key = KeyPair::generate().expect("keys can be made");
        let mut about = CertificateParams::new(["127.0.0.1".into(), "localhost".into()]).expect("they are valid names");
        // Not the authority's name: OpenSSL would take it for one that has signed itself.
        about.distinguished_name.push(DnType::CommonName, "a party of a test");
        about.extended_key_usages = purposes;
        let certificate = about.signed_by(&key, &self.issuer).expect("the authority can sign");
        (certificate.pem(), key.serialize_pem())
    }
}

fn write(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(name), text).expect("the directory is ours");
}
