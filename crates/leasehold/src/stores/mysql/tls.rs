//! TLS: whether, and with whom.

use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::stores::tls::Tls as Files;

/// What a URL says of TLS.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub mode: Mode,
    pub files: Files,
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
    /// Whether making a connection reads files: those of the system, too.
    pub fn reads_files(&self) -> bool {
        self.mode.verifies() || self.files.client.is_some()
    }

    pub fn apply(&self, options: MySqlConnectOptions) -> MySqlConnectOptions {
        let mut options = options.ssl_mode(match self.mode {
            Mode::Disabled => MySqlSslMode::Disabled,
            Mode::Preferred => MySqlSslMode::Preferred,
            Mode::Required => MySqlSslMode::Required,
            Mode::VerifyCa => MySqlSslMode::VerifyCa,
            Mode::VerifyIdentity => MySqlSslMode::VerifyIdentity,
        });
        if let Some(ca) = &self.files.ca {
            options = options.ssl_ca(ca);
        }
        if let Some((cert, key)) = &self.files.client {
            options = options.ssl_client_cert(cert).ssl_client_key(key);
        }
        options
    }
}
