//! The files of TLS: whom we trust, and what we show.

use std::fs;
use std::path::{Path, PathBuf};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// The files that a URL names. They are read for each connection, so that they may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    /// Who signs servers; without, the authorities that the system trusts.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key, for servers that want one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// What the files hold.
pub(super) struct Certificates {
    /// Who signs servers; without, the authorities that the system trusts.
    pub authorities: Option<Chain>,
    /// What we show servers that want it.
    pub client: Option<Identity>,
}

/// Certificates, as they stand in a file and as they are read.
pub(super) struct Chain {
    pub pem: Vec<u8>,
    pub certificates: Vec<CertificateDer<'static>>,
}

/// A certificate and its key, which belong together.
pub(super) struct Identity {
    pub chain: Chain,
    pub key_pem: Vec<u8>,
    pub key: PrivateKeyDer<'static>,
}

impl Tls {
    /// Makes sure that there is a provider of cryptography: without one client libraries panic. What the program has
    /// chosen stays.
    pub fn provide() {
        if CryptoProvider::get_default().is_none() {
            let _ = ring::default_provider().install_default(); // Somebody else may have been quicker.
        }
    }

    /// What the files hold; what is wrong with them, and how to mend it, if it is no use.
    pub fn read(&self) -> Result<Certificates, String> {
        let authorities = self.ca.as_deref().map(|ca| Chain::read("ca", ca)).transpose()?;
        let client = self.client.as_ref().map(|(cert, key)| Identity::read(cert, key)).transpose()?;
        Ok(Certificates { authorities, client })
    }
}

impl Chain {
    fn read(option: &str, path: &Path) -> Result<Self, String> {
        let pem = file(option, path)?;
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect();
        if certificates.is_empty() {
            return Err(format!("{option}={} holds no certificate; name a file in PEM", path.display()));
        }
        Ok(Self { pem, certificates })
    }
}

impl Identity {
    fn read(cert: &Path, key: &Path) -> Result<Self, String> {
        let (chain, key_pem) = (Chain::read("cert", cert)?, file("key", key)?);
        let secret = PrivateKeyDer::from_pem_slice(&key_pem)
            .map_err(|_| format!("key={} holds no private key; name a key in PEM", key.display()))?;
        let config = ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS can't be set up ({error})"))?
            .with_root_certificates(RootCertStore::empty());
        if config.with_client_auth_cert(chain.certificates.clone(), secret.clone_key()).is_err() {
            return Err(format!(
                "cert={} and key={} don't belong together; name a pair",
                cert.display(),
                key.display()
            ));
        }
        Ok(Self { chain, key_pem, key: secret })
    }
}

fn file(option: &str, path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error| {
        format!("{option}={} can't be read ({error}); name a file in PEM that this user may read", path.display())
    };
    fs::read(path).map_err(failed)
}
