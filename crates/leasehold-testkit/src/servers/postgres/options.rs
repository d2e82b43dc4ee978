//! How a PostgreSQL server is to be started.

#[cfg(feature = "tls")]
use std::sync::Arc;

use super::Postgres;
#[cfg(feature = "tls")]
use crate::servers::Certificates;

/// How a [`Postgres`] is to be started. Without options: in the clear, open to all on 127.0.0.1, and nothing is synced to
/// the disk: `kill -9` loses nothing, a power failure would.
///
/// ```no_run
/// use leasehold_testkit::servers::Postgres;
///
/// let postgres = Postgres::options().config("timezone", "Asia/Seoul").start();
/// ```
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// Lines of its configuration.
    pub(super) lines: Vec<String>,
    /// Who may log in, and how: lines of `pg_hba.conf` before those that let in everybody.
    pub(super) logins: Vec<String>,
    /// Whether it is no copy of the others.
    pub(super) is_apart: bool,
    #[cfg(feature = "tls")]
    pub(super) certificates: Option<Arc<Certificates>>,
}

impl PostgresOptions {
    /// A line of its configuration, as `postgresql.conf` has it.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.lines.push(format!("{name} = '{}'", value.replace('\'', "''")));
        self
    }

    /// Commits wait for the disk, as they do outside of tests.
    #[must_use]
    pub fn durable(self) -> Self {
        self.config("fsync", "on").config("full_page_writes", "on")
    }

    /// A cluster of its own, with another `system_identifier` than the others', which are copies. Takes two seconds more.
    #[must_use]
    pub fn apart(mut self) -> Self {
        self.is_apart = true;
        self
    }

    /// A line of `pg_hba.conf`, before those that let in everybody.
    #[must_use]
    pub fn login(mut self, line: &str) -> Self {
        self.logins.push(line.to_owned());
        self
    }

    /// The port speaks TLS and nothing else, with [`Postgres::certificates`].
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(self) -> Self {
        self.with_certificates("")
    }

    /// As [`tls`](Self::tls), and clients must show a certificate.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_both_ways(self) -> Self {
        self.with_certificates(" clientcert=verify-ca")
    }

    #[cfg(feature = "tls")]
    fn with_certificates(mut self, clients: &str) -> Self {
        self.certificates = Some(Arc::new(Certificates::new()));
        self.config("ssl", "on")
            .login(&format!("hostssl all all 127.0.0.1/32 trust{clients}"))
            .login("host all all 127.0.0.1/32 reject")
    }

    /// Starts it and waits until it takes connections.
    ///
    /// # Panics
    /// If there is no PostgreSQL, or it doesn't take the options.
    #[must_use]
    pub fn start(&self) -> Postgres {
        Postgres::with(self)
    }
}
