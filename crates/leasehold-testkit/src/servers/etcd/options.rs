//! How an etcd member is to be started.

#[cfg(feature = "tls")]
use std::sync::Arc;

use super::Etcd;
#[cfg(feature = "tls")]
use crate::servers::Certificates;

/// How an [`Etcd`] is to be started. Without options: in the clear, open to all on 127.0.0.1.
///
/// ```no_run
/// use leasehold_testkit::servers::Etcd;
///
/// let etcd = Etcd::options().flag("quota-backend-bytes", "16777216").start();
/// ```
#[derive(Debug, Clone, Default)]
pub struct EtcdOptions {
    pub(super) flags: Vec<String>,
    #[cfg(feature = "tls")]
    pub(super) certificates: Option<Arc<Certificates>>,
}

impl EtcdOptions {
    /// A flag of etcd's, without its dashes.
    #[must_use]
    pub fn flag(mut self, name: &str, value: &str) -> Self {
        self.flags.push(format!("--{name}={value}"));
        self
    }

    /// Clients come over TLS, to the certificate of [`Etcd::certificates`].
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self) -> Self {
        let certificates = Certificates::new();
        let (certificate, key) = certificates.server();
        self.certificates = Some(Arc::new(certificates));
        self.flag("cert-file", &certificate.to_string_lossy()).flag("key-file", &key.to_string_lossy())
    }

    /// As [`tls`](Self::tls), and clients must show a certificate.
    ///
    /// # Panics
    /// Never: the certificates were made just before.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_both_ways(self) -> Self {
        let options = self.tls();
        let authority = options.certificates.as_ref().expect("they were just made").authority();
        options.flag("client-cert-auth", "true").flag("trusted-ca-file", &authority.to_string_lossy())
    }

    /// Starts it and waits until it has a leader.
    ///
    /// # Panics
    /// If there is no `etcd`, or it doesn't take the options.
    #[must_use]
    pub fn start(&self) -> Etcd {
        Etcd::with(self)
    }

    pub(super) fn scheme(&self) -> &'static str {
        #[cfg(feature = "tls")]
        if self.certificates.is_some() {
            return "https";
        }
        "http"
    }
}
