//! What an operator should know about the server.

mod clock;
mod hosts;
mod replication;
mod rights;
mod settings;
mod shedlock;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join3;
use tokio_postgres::types::{FromSqlOwned, Type};
use tokio_postgres::{Client, Row};

use super::ears::Ears;
use super::fault::{self, Fault};
use super::link::{Given, Link, Server};
use super::options::Options;
use super::session::{IF_IT_IS_SILENT, drain};
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
    /// What a question is answered; nothing if this role may not ask it. Whatever time-outs it has, which are what is examined:
    /// they are put aside for a transaction, since what is set for a session stays behind in a pooler's. All of it goes out at
    /// once.
    async fn rows(&self, statement: &str, given: &[Given<'_>]) -> Vec<Row> {
        let begin = "begin; set local statement_timeout = 0; set local lock_timeout = 0";
        let (_, rows, _) = join3(
            self.client.batch_execute(begin),
            self.client.query_typed(statement, given),
            self.client.batch_execute("rollback"),
        )
        .await;
        rows.unwrap_or_default()
    }

    /// The first of them.
    async fn ask(&self, statement: &str, given: &[Given<'_>]) -> Option<Row> {
        self.rows(statement, given).await.into_iter().next()
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

/// Who uses the server.
pub(super) enum User<'a> {
    /// Leases in tables of ours.
    Leases(&'a Ears, &'a Arc<Link>),
    /// Session locks.
    Sessions,
    /// Rows of ShedLock's table.
    ShedLock,
}

/// What there is to say; an error only if it can't be asked.
pub(super) async fn diagnose(server: &Server, user: User<'_>) -> Result<Vec<Finding>, Fault> {
    let late =
        |_| Fault::Unsent(ErrorKind::TimedOut, format!("it did not answer within {PATIENCE:?}; {IF_IT_IS_SILENT}"));
    tokio::time::timeout(PATIENCE, examine(server, user)).await.map_err(late)?
}

async fn examine(server: &Server, user: User<'_>) -> Result<Vec<Finding>, Fault> {
    let (client, unasked) = server.connect("doctor").await?;
    tokio::spawn(drain(unasked));
    let patient = Patient { client, options: &server.options };
    let mut findings = vec![Finding::fine("server", server.options.shown.clone())];
    findings.extend(settings::version(&patient).await);
    findings.extend(settings::way(&patient));
    findings.extend(hosts::findings(&patient).await);
    if let Some(standby) = replication::is_standby(&patient).await {
        findings.push(standby);
        return Ok(findings);
    }
    findings.extend(match user {
        User::Leases(ears, link) => of_leases(&patient, ears, link).await,
        User::Sessions => of_ours(&patient).await,
        User::ShedLock => shedlock::findings(&patient).await,
    });
    findings.extend(settings::findings(&patient).await);
    findings.extend(replication::findings(&patient).await);
    findings.extend(clock::findings(&patient).await);
    Ok(findings)
}

/// The tables of ours, and what this role may do with them.
async fn of_ours(patient: &Patient<'_>) -> Vec<Finding> {
    let mut findings = rights::findings(patient).await;
    findings.extend(tables::findings(patient).await);
    findings
}

/// And who hears of them.
async fn of_leases(patient: &Patient<'_>, ears: &Ears, link: &Arc<Link>) -> Vec<Finding> {
    let mut findings = of_ours(patient).await;
    if tables::are_usable(&findings) {
        let tried = ears.open(link).await;
        findings.push(wake_ups(ears, tried, &patient.options.shown));
    }
    findings
}

fn wake_ups(ears: &Ears, tried: Result<(), Fault>, shown: &str) -> Finding {
    if !ears.client().is_empty() {
        return Finding::fine("wake-ups", "messages are heard: a release reaches who waits at once");
    }
    if let Err(fault) = tried {
        let why = fault::told(fault, shown);
        let message =
            format!("whether messages are heard could not be tried; until then who waits looks by itself ({why})");
        return Finding::warning("wake-ups", message, "put right what is said above or here, and ask again");
    }
    Finding::warning(
        "wake-ups",
        "messages are not heard: a pooler stands in between, in transaction mode. Locks work; who waits looks a few times a \
         second, and releases are not handed over",
        "give Leasehold a way to the server past the pooler, or a pool in session mode",
    )
}
