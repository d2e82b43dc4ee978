//! What an operator should know about the server.

mod clock;
mod replication;
mod rights;
mod settings;
mod tables;

use std::time::Duration;

use futures_util::stream::StreamExt;
use tokio_postgres::types::{FromSqlOwned, Type};
use tokio_postgres::{Client, Row};

use super::ears::Ears;
use super::fault::Fault;
use super::link::{Given, Link, Server};
use super::options::Options;
use crate::error::ErrorKind;
use crate::finding::Finding;

/// How long the examination may take: the store's answer has a limit, too.
const PATIENCE: Duration = Duration::from_secs(4);

/// A server under examination, over a connection of its own: one that can't be used can be examined all the same.
struct Patient<'a> {
    client: Client,
    options: &'a Options,
}

impl Patient<'_> {
    /// What a question is answered first; nothing if this role may not ask it.
    async fn ask(&self, statement: &str, given: &[Given<'_>]) -> Option<Row> {
        self.client.query_typed(statement, given).await.ok()?.into_iter().next()
    }

    /// The same, of one column.
    async fn ask_for<T: FromSqlOwned>(&self, statement: &str) -> Option<T> {
        self.ask(statement, &[]).await?.try_get(0).ok()
    }

    /// A table of ours, with its schema.
    fn table(&self, name: &str) -> String {
        format!("{}.leasehold_{name}", self.options.schema)
    }

    async fn has(&self, table: &str) -> bool {
        let there = "select to_regclass($1) is not null";
        let row = self.ask(there, &[(&self.table(table), Type::TEXT)]).await;
        row.is_some_and(|row| row.try_get(0).unwrap_or(false))
    }
}

/// What there is to say; an error only if it can't be asked.
pub(super) async fn diagnose(server: &Server, ears: &Ears, link: &Link) -> Result<Vec<Finding>, Fault> {
    let late = |_| Fault::Unsent(ErrorKind::TimedOut, format!("it did not answer within {PATIENCE:?}"));
    tokio::time::timeout(PATIENCE, examine(server, ears, link)).await.map_err(late)?
}

async fn examine(server: &Server, ears: &Ears, link: &Link) -> Result<Vec<Finding>, Fault> {
    let (client, mut unasked) = server.connect("doctor").await?;
    tokio::spawn(async move { while unasked.next().await.is_some_and(|said| said.is_ok()) {} });
    let patient = Patient { client, options: &server.options };
    let mut findings = vec![Finding::fine("server", server.options.shown.clone())];
    findings.extend(settings::version(&patient).await);
    findings.extend(settings::way(&patient));
    if let Some(standby) = replication::is_standby(&patient).await {
        findings.push(standby);
        return Ok(findings);
    }
    findings.extend(rights::findings(&patient).await);
    findings.extend(tables::findings(&patient).await);
    if tables::are_usable(&findings) {
        ears.open(link).await;
        findings.push(wake_ups(ears));
    }
    findings.extend(settings::findings(&patient).await);
    findings.extend(replication::findings(&patient).await);
    findings.extend(clock::findings(&patient).await);
    Ok(findings)
}

fn wake_ups(ears: &Ears) -> Finding {
    if !ears.client().is_empty() {
        return Finding::fine("wake-ups", "messages are heard: a release reaches who waits at once");
    }
    let message = if ears.are_deaf() {
        "messages are not heard: a pooler stands in between, in transaction mode. Locks work; who waits looks a few times a \
         second, and releases are not handed over"
    } else {
        "there is no connection to listen on: who waits looks by itself"
    };
    Finding::warning(
        "wake-ups",
        message,
        "give Leasehold a way to the server past the pooler, or a pool in session mode",
    )
}
