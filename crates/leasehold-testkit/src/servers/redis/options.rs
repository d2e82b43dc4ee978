//! How a Redis server is to be started.

#[cfg(feature = "tls")]
use std::sync::Arc;

use super::Redis;
#[cfg(feature = "tls")]
use crate::servers::Certificates;

/// How a [`Redis`] is to be started. Without options: in the clear, open to all on 127.0.0.1, nothing kept on disk.
///
/// ```no_run
/// use leasehold_testkit::servers::Redis;
///
/// let redis = Redis::options().password("secret").append_only().start();
/// ```
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    pub(super) password: Option<String>,
    pub(super) no_port: bool,
    pub(super) sentinel: bool,
    pub(super) cluster: bool,
    pub(super) own_clock: bool,
    /// Lines of its configuration.
    pub(super) lines: Vec<String>,
    #[cfg(feature = "tls")]
    pub(super) certificates: Option<Arc<Certificates>>,
}

impl RedisOptions {
    /// Clients need a password. It is in the server's [`url`](Redis::url).
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.config("requirepass", &quoted(password))
    }

    /// Users, a line each as in an ACL file: `user worker on >secret ~lease:* +@all`.
    ///
    /// They are part of the configuration: `ACL SETUSER` changes them, `ACL LOAD` doesn't. There is one user more, of
    /// the testkit's own.
    #[must_use]
    pub fn acl(mut self, lines: &[&str]) -> Self {
        self.lines.extend(lines.iter().map(|&line| line.to_owned()));
        self
    }

    /// No port at all: clients come by the Unix socket, which every server has. The [`url`](Redis::url) names it.
    #[must_use]
    pub fn unix_socket(mut self) -> Self {
        self.no_port = true;
        self
    }

    /// The port speaks TLS and nothing else, with [`Redis::certificates`]; so do the others of its group or cluster.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(self) -> Self {
        self.with_certificates("no")
    }

    /// As [`tls`](Self::tls), and clients must show a certificate.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_both_ways(self) -> Self {
        self.with_certificates("yes")
    }

    #[cfg(feature = "tls")]
    fn with_certificates(mut self, clients_need_one: &str) -> Self {
        let certificates = Certificates::new();
        let (certificate, key) = certificates.server();
        let authority = certificates.authority();
        let files = [("tls-cert-file", certificate), ("tls-key-file", key), ("tls-ca-cert-file", authority)];
        for (name, file) in files {
            self = self.config(name, &quoted(&file.to_string_lossy()));
        }
        self.certificates = Some(Arc::new(certificates));
        // Among themselves servers do as clients do.
        self.config("tls-auth-clients", clients_need_one).config("tls-replication", "yes").config("tls-cluster", "yes")
    }

    /// Every write is on the disk before it is answered: a server that is killed and restarted still knows it.
    ///
    /// That is `appendfsync always`. With Redis's default, `everysec`, even `kill -9` of the server alone loses answered
    /// writes: while an fsync runs, what comes then waits in its memory. A later `config("appendfsync", "everysec")` is
    /// for tests of that.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.config("appendonly", "yes").config("appendfsync", "always")
    }

    /// No more memory than that; `policy` is Redis's `maxmemory-policy`. An empty server needs about a megabyte.
    #[must_use]
    pub fn max_memory(self, bytes: u64, policy: &str) -> Self {
        self.config("maxmemory", &bytes.to_string()).config("maxmemory-policy", policy)
    }

    /// It goes by a clock of its own: [`Redis::set_clock`] sets it. Takes a C compiler.
    #[must_use]
    pub fn own_clock(self) -> Self {
        Self { own_clock: true, ..self }
    }

    /// A line of its configuration, as it stands in `redis.conf`: a value with spaces needs its quotes.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.lines.push(format!("{name} {value}"));
        self
    }

    /// It follows `master`, from its start on. Where that speaks TLS, start both from a clone of the same options.
    ///
    /// A follower through a [proxy](crate::proxy), whose replication can be held, is `config("replicaof", "127.0.0.1
    /// PORT")`.
    #[must_use]
    pub fn replica_of(mut self, master: &Redis) -> Self {
        if let Some(password) = master.password() {
            self = self.config("masterauth", &quoted(password));
        }
        self.config("replicaof", &format!("127.0.0.1 {}", master.port()))
    }

    /// Starts it and waits until it answers; a replica, until it has all that its master has.
    ///
    /// # Panics
    /// If there is no `redis-server`, or it doesn't take the options.
    #[must_use]
    pub fn start(&self) -> Redis {
        Redis::with(self)
    }

    pub(super) fn is_replica(&self) -> bool {
        self.lines.iter().any(|line| line.starts_with("replicaof "))
    }

    /// What of them is TLS: for sentinels, who are no servers for data.
    pub(super) fn tls_alone(&self) -> Self {
        let is_tls = |line: &&String| line.starts_with("tls-");
        Self {
            lines: self.lines.iter().filter(is_tls).cloned().collect(),
            #[cfg(feature = "tls")]
            certificates: self.certificates.clone(),
            ..Self::default()
        }
    }

    pub(super) fn has_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.certificates.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// A value for `redis.conf` that may hold anything but control characters.
pub(super) fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
