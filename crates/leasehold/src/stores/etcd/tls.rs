//! TLS: whom we trust, and what we show.

use std::fs;
use std::path::{Path, PathBuf};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// The files that a URL names. They are read for each connection, so that they may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    /// Who signs servers; without, the authorities that the system trusts.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key, for servers that want one.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// What the client library is told of a server; what is wrong with the files, and how to mend it, if they are no
    /// use.
    pub fn config(&self, host: &str) -> Result<ClientTlsConfig, String> {
        let config = ClientTlsConfig::new().domain_name(host);
        let config = match &self.ca {
            Some(ca) => {
                let pem = read("ca", ca)?;
                certificates("ca", ca, &pem)?;
                config.ca_certificate(Certificate::from_pem(pem))
            }
            None => config.with_native_roots(),
        };
        Ok(match &self.client {
            Some((cert, key)) => config.identity(identity(cert, key)?),
            None => config,
        })
    }
}

fn identity(cert: &Path, key: &Path) -> Result<Identity, String> {
    let (cert_pem, key_pem) = (read("cert", cert)?, read("key", key)?);
    let chain = certificates("cert", cert, &cert_pem)?;
    let secret = PrivateKeyDer::from_pem_slice(&key_pem)
        .map_err(|_| format!("key={} holds no private key; name a key in PEM", key.display()))?;
    let config = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS can't be set up ({error})"))?
        .with_root_certificates(RootCertStore::empty());
    if config.with_client_auth_cert(chain, secret).is_err() {
        return Err(format!("cert={} and key={} don't belong together; name a pair", cert.display(), key.display()));
    }
    Ok(Identity::from_pem(cert_pem, key_pem))
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
