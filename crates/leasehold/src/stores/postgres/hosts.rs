//! Several hosts: the servers of one cluster, of which one takes writes. Or a mistake.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_postgres::Client;

use super::fault::Fault;
use super::link::Server;
use super::options::Options;
use super::session::drain;
use crate::error::{Error, ErrorKind};

/// How long the others may take to say who they are, before anything is asked of one. Who doesn't is not counted.
const BRIEFLY: Duration = Duration::from_millis(500);

const WHO: &str = "select pg_is_in_recovery(), pg_postmaster_start_time()::text, \
                   (select system_identifier::text from pg_control_system())";

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// The same for all that were copied from one another.
    pub cluster: String,
    pub is_standby: bool,
    /// Tells it from its copies.
    pub started: String,
}

impl Identity {
    /// None if this role may not ask.
    pub async fn of(client: &Client) -> Option<Self> {
        let row = client.query_typed_one(WHO, &[]).await.ok()?;
        Some(Self { is_standby: row.try_get(0).ok()?, started: row.try_get(1).ok()?, cluster: row.try_get(2).ok()? })
    }
}

/// Each host, and who it is, as far as it says so in time.
pub(super) async fn all(options: &Options, within: Duration) -> Vec<(String, Option<Identity>)> {
    join_all(options.by_host().into_iter().map(|(host, options)| async move {
        let asked = async {
            let (client, unasked) = Server::new(options).connect("hosts").await.ok()?;
            tokio::spawn(drain(unasked));
            Identity::of(&client).await
        };
        (host, tokio::time::timeout(within, asked).await.ok().flatten())
    }))
    .await
}

/// The cluster of which the server at the other end is one, if none of the others is one of another.
pub(super) async fn agreed(options: &Options, own: &Identity) -> Result<Arc<str>, Fault> {
    let hosts = all(options, BRIEFLY).await;
    let is_other = |who: &Option<Identity>| who.as_ref().is_some_and(|who| who.cluster != own.cluster);
    if hosts.iter().any(|(_, who)| is_other(who)) {
        return Err(of_several(options));
    }
    Ok(own.cluster.as_str().into())
}

/// The error of hosts that are not copies of one another.
pub(super) fn of_several(options: &Options) -> Fault {
    let message = format!(
        "{} names servers that are no copies of one another (their system_identifier differs): each would grant the same locks; \
         name one, and its own standbys",
        options.shown
    );
    Fault::Told(Error::new(ErrorKind::Misconfigured, message).into())
}
