//! TLS: whom we trust, and what we show.

use std::fs;
use std::path::{Path, PathBuf};

use redis::{ClientTlsConfig, TlsCertificates};
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

impl Tls {
    /// Makes sure that there is a provider of cryptography: without one the client library panics. What the program
    /// has chosen stays.
    pub fn provide() {
        if CryptoProvider::get_default().is_none() {
            let _ = ring::default_provider().install_default(); // Somebody else may have been quicker.
        }
    }

    /// What the files hold; what is wrong with them, and how to mend it, if it is no use.
    pub fn certificates(&self) -> Result<TlsCertificates, String> {
        let root_cert = self.ca.as_deref().map(|ca| read("ca", ca)).transpose()?;
        if let (Some(ca), Some(pem)) = (&self.ca, &root_cert) {
            certificates("ca", ca, pem)?;
        }
        let client_tls = self.client.as_ref().map(|(cert, key)| client(cert, key)).transpose()?;
        Ok(TlsCertificates { client_tls, root_cert })
    }
}

fn client(cert: &Path, key: &Path) -> Result<ClientTlsConfig, String> {
    let (client_cert, client_key) = (read("cert", cert)?, read("key", key)?);
    let chain = certificates("cert", cert, &client_cert)?;
    let secret = PrivateKeyDer::from_pem_slice(&client_key)
        .map_err(|_| format!("key={} holds no private key; name a key in PEM", key.display()))?;
    Tls::provide();
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    if config.with_client_auth_cert(chain, secret).is_err() {
        return Err(format!("cert={} and key={} don't belong together; name a pair", cert.display(), key.display()));
    }
    Ok(ClientTlsConfig { client_cert, client_key })
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error| {
        format!("{option}={} can't be read ({error}); name a file in PEM that this user may read", path.display())
    };
    fs::read(path).map_err(failed)
}

fn certificates(option: &str, path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
    if found.is_empty() {
        return Err(format!("{option}={} holds no certificate; name a file in PEM", path.display()));
    }
    Ok(found)
}
