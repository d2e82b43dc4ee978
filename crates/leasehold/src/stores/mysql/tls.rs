//! TLS: whether, whom we trust, and what we show.

use std::fs;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

/// What a URL says of TLS. Files are read for each connection, so that they may change.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub mode: Mode,
    /// Who signs servers, beside the authorities that the system trusts.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key, for servers that want one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// The modes of MySQL's own clients, by the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Never.
    Disabled,
    /// If the server offers it; whoever is between the two can read along all the same.
    Preferred,
    /// Always; nobody is asked who he is.
    Required,
    /// Always, with somebody whom we trust.
    VerifyCa,
    /// Always, with somebody whom we trust and whose name is the host's.
    VerifyIdentity,
}

impl Mode {
    pub fn read(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().replace('-', "_").as_str() {
            "disabled" => Ok(Self::Disabled),
            "preferred" => Ok(Self::Preferred),
            "required" => Ok(Self::Required),
            "verify_ca" => Ok(Self::VerifyCa),
            "verify_identity" => Ok(Self::VerifyIdentity),
            _ => {
                Err(format!("has ssl-mode={text:?}; write disabled, preferred, required, verify_ca or verify_identity"))
            }
        }
    }

    pub fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyIdentity)
    }
}

impl Tls {
    /// Whether making a connection reads files.
    pub fn reads_files(&self) -> bool {
        self.mode.verifies() || self.client.is_some()
    }

    pub fn apply(&self, options: MySqlConnectOptions) -> MySqlConnectOptions {
        let mut options = options.ssl_mode(match self.mode {
            Mode::Disabled => MySqlSslMode::Disabled,
            Mode::Preferred => MySqlSslMode::Preferred,
            Mode::Required => MySqlSslMode::Required,
            Mode::VerifyCa => MySqlSslMode::VerifyCa,
            Mode::VerifyIdentity => MySqlSslMode::VerifyIdentity,
        });
        if let Some(ca) = &self.ca {
            options = options.ssl_ca(ca);
        }
        if let Some((cert, key)) = &self.client {
            options = options.ssl_client_cert(cert).ssl_client_key(key);
        }
        options
    }

    /// What is wrong with the files, and how to mend it, if they are of no use.
    pub fn check_files(&self) -> Result<(), String> {
        if let Some(ca) = &self.ca {
            certificates("ca", ca)?;
        }
        if let Some((cert, key)) = &self.client {
            certificates("cert", cert)?;
            PrivateKeyDer::from_pem_slice(&read("key", key)?)
                .map_err(|_| format!("key={} holds no private key; name a key in PEM", key.display()))?;
        }
        Ok(())
    }
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error| {
        format!("{option}={} can't be read ({error}); name a file in PEM that this user may read", path.display())
    };
    fs::read(path).map_err(failed)
}

fn certificates(option: &str, path: &Path) -> Result<(), String> {
    if CertificateDer::pem_slice_iter(&read(option, path)?).filter_map(Result::ok).next().is_none() {
        return Err(format!("{option}={} holds no certificate; name a file in PEM", path.display()));
    }
    Ok(())
}
