//! How a MariaDB server is to be started.

#[cfg(feature = "tls")]
use std::sync::Arc;

use super::MariaDb;
#[cfg(feature = "tls")]
use crate::servers::Certificates;

/// How a [`MariaDb`] is to be started. Without options: small, and nothing is synced to the disk: `kill -9`
/// loses nothing, a power failure would.
///
/// ```no_run
/// use leasehold_testkit::servers::MariaDb;
///
/// let server = MariaDb::options().set("default-time-zone", "+09:00").start();
/// ```
#[derive(Debug, Clone, Default)]
pub struct MariaDbOptions {
    pub(super) arguments: Vec<String>,
    pub(super) durable: bool,
    #[cfg(feature = "tls")]
    pub(super) certificates: Option<Arc<Certificates>>,
}

impl MariaDbOptions {
    /// Sets one of the server's options, as on its command line.
    #[must_use]
    pub fn set(mut self, option: &str, value: &str) -> Self {
        self.arguments.push(format!("--{option}={value}"));
        self
    }

    /// Commits wait for the disk, as they do outside of tests.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// It offers TLS, with [`MariaDb::certificates`].
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.certificates = Some(Arc::new(Certificates::new()));
        self
    }

    /// Starts it and waits until it answers.
    ///
    /// # Panics
    /// If there is no `mariadbd`.
    #[must_use]
    pub fn start(self) -> MariaDb {
        MariaDb::with(self)
    }
}
