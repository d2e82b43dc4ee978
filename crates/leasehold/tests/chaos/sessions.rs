//! Session locks. As long as nothing ends a session but silence and its client, there is one holder at a time. A session that
//! the server ends frees the lock at once, and its holder is told a moment later: then only tokens are promised
//! (`docs/guarantees.md`).

use leasehold_testkit::proxy::Proxy;

use super::{Run, silence, spoil};

/// MariaDB ends silent sessions after whole seconds: after three, for this.
const TTL: u64 = 2;

/// A server's session locks, over two networks that fail apart.
struct Sessions {
    networks: [Proxy; 2],
    stores: [String; 2],
}

impl Sessions {
    fn of(address: &str, url: &str) -> Self {
        let networks = [0, 1].map(|_| Proxy::to(address));
        let stores = networks.each_ref().map(|link| format!("{}?mode=advisory", link.url(url)));
        Self { networks, stores }
    }

    fn run(&self) -> Run<'_> {
        Run { stores: &self.stores, ttl: TTL, seconds: 5 }
    }

    fn heal(&self) {
        self.networks.iter().for_each(Proxy::heal);
    }

    /// Links fall silent and are slow, and no connection is ended but by its client.
    fn have_one_holder_at_a_time(&self) {
        self.run().has_one_holder_at_a_time(|round| match round % 16 {
            3 => silence(&self.networks[0]),
            8 => silence(&self.networks[1]),
            11 => self.networks[0].refuse(),
            6 | 12 => self.heal(),
            _ => {}
        });
    }

    /// Connections are cut as well, and the server ends sessions, by order and by its own end.
    fn have_tokens_that_grow(&self, end_sessions: impl Fn(), restart: impl Fn()) {
        self.run().has_tokens_that_grow(|round| match round % 16 {
            2 => spoil(&self.networks[0]),
            4 => self.networks[1].cut(),
            5 => self.heal(),
            7 => end_sessions(),
            11 => restart(),
            13 => self.networks.iter().for_each(Proxy::close),
            _ => {}
        });
    }
}

#[cfg(feature = "postgres")]
mod in_postgres {
    use leasehold_testkit::servers::Postgres;

    use super::Sessions;

    fn sessions(server: &Postgres) -> Sessions {
        Sessions::of(&server.address(), &server.url())
    }

    #[test]
    fn while_links_are_silent_there_is_one_holder_at_a_time() {
        let server = Postgres::start();
        sessions(&server).have_one_holder_at_a_time();
    }

    #[test]
    fn while_the_server_ends_sessions_tokens_grow() {
        let server = Postgres::start();
        sessions(&server).have_tokens_that_grow(|| server.end_sessions(), || server.restart());
    }
}

#[cfg(feature = "mysql")]
mod in_mariadb {
    use leasehold_testkit::servers::MariaDb;

    use super::Sessions;

    fn sessions(server: &MariaDb) -> Sessions {
        Sessions::of(&server.address(), &server.url())
    }

    #[test]
    fn while_links_are_silent_there_is_one_holder_at_a_time() {
        let server = MariaDb::start();
        sessions(&server).have_one_holder_at_a_time();
    }

    #[test]
    fn while_the_server_ends_sessions_tokens_grow() {
        let server = MariaDb::start();
        sessions(&server).have_tokens_that_grow(|| server.end_sessions("jobs"), || server.restart());
    }
}
