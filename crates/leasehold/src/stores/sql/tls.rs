//! TLS: whom we trust, and what we show.

use std::fs;
use std::path::{Path, PathBuf};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The files that a URL names. They are read for each connection, so that they may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    /// Who signs servers; without, the authorities that the system trusts.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key, for servers that want one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// What the files hold.
pub(crate) struct Certificates {
    /// Who signs servers; without, the authorities that the system trusts.
    pub authorities: Option<Vec<CertificateDer<'static>>>,
    /// What we show servers that want it.
    pub client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

impl Tls {
    /// Makes sure that there is a provider of cryptography. What the program has chosen stays.
    pub fn provide() {
        if CryptoProvider::get_default().is_none() {
            let _ = ring::default_provider().install_default(); // Somebody else may have been quicker.
        }
    }

    /// What the files hold; what is wrong with them, and how to mend it, if it is no use.
    pub fn read(&self) -> Result<Certificates, String> {
        let authorities = self.ca.as_deref().map(|ca| certificates("ca", ca)).transpose()?;
        let client = self.client.as_ref().map(|(cert, key)| {
            let secret = PrivateKeyDer::from_pem_slice(&file("key", key)?)
                .map_err(|_| format!("key={} holds no private key; name a key in PEM", key.display()))?;
            Ok::<_, String>((certificates("cert", cert)?, secret))
        });
        Ok(Certificates { authorities, client: client.transpose()? })
    }
}

fn file(option: &str, path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error| {
        format!("{option}={} can't be read ({error}); name a file in PEM that this user may read", path.display())
    };
    fs::read(path).map_err(failed)
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(&file(option, path)?).filter_map(Result::ok).collect();
    if found.is_empty() {
        return Err(format!("{option}={} holds no certificate; name a file in PEM", path.display()));
    }
    Ok(found)
}
