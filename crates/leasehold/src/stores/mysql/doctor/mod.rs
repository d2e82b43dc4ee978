//! What an operator should know about the server.

mod replication;
mod rights;
mod settings;
mod shedlock;
mod tables;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Connection, Row, raw_sql};

use super::fault::Fault;
use super::options::Options;
use super::{TIME, session};
use crate::error::ErrorKind;
use crate::finding::Finding;
use crate::stores::sql::{self, clock};

/// How long the examination may take: the store's answer has a limit, too.
const PATIENCE: Duration = Duration::from_secs(4);

/// A server under examination, over a connection of its own: one that can't be used can be examined all the same.
struct Patient<'a> {
    db: MySqlConnection,
    options: &'a Options,
    variables: HashMap<String, String>,
}

impl Patient<'_> {
    /// What a question is answered; the error's number, if this user may not ask it.
    async fn ask(&mut self, statement: &str) -> Result<Vec<MySqlRow>, u16> {
        let answer = raw_sql(AssertSqlSafe(statement)).fetch_all(&mut self.db).await;
        answer.map_err(|error| Fault::Sent(error).number().unwrap_or_default())
    }

    /// The first column of the first row, as a number.
    async fn number(&mut self, statement: &str) -> Option<i64> {
        self.ask(statement).await.ok()?.first()?.try_get(0).ok()
    }

    /// One of the server's variables, in lower case; empty if it hasn't got it.
    fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        matches!(self.variable(name), "on" | "1")
    }

    async fn read_variables(&mut self) {
        // Else it would be the limits that are examined.
        let _ = self.ask(session::UNLIMITED).await;
        let rows = self.ask("show variables").await.unwrap_or_default();
        let read = |row: &MySqlRow| Some((row.try_get::<String, _>(0).ok()?, row.try_get::<String, _>(1).ok()?));
        self.variables =
            rows.iter().filter_map(read).map(|(name, value)| (name.to_lowercase(), value.to_lowercase())).collect();
    }
}

/// What there is to say; an error only if it can't be asked.
pub(super) async fn diagnose(options: &Options) -> Result<Vec<Finding>, Fault> {
    let silent = session::IF_IT_IS_SILENT;
    let late = |_| Fault::Unsent(ErrorKind::TimedOut, format!("it did not answer within {PATIENCE:?}; {silent}"));
    tokio::time::timeout(PATIENCE, examine(options)).await.map_err(late)?
}

async fn examine(options: &Options) -> Result<Vec<Finding>, Fault> {
    let db = session::connect(options).await?;
    let mut patient = Patient { db, options, variables: HashMap::new() };
    patient.read_variables().await;
    let mut findings = vec![Finding::fine("server", options.shown.clone()), settings::version(&patient)];
    findings.push(settings::way(&mut patient).await);
    if let Some(role) = settings::role(&patient) {
        // What it has is another's.
        findings.push(role);
        return Ok(findings);
    }
    match &options.shedlock {
        None => {
            findings.extend(tables::findings(&mut patient).await);
            findings.extend(rights::findings(&mut patient).await);
        }
        Some(table) => findings.extend(shedlock::findings(&mut patient, table).await),
    }
    findings.extend(settings::findings(&mut patient).await);
    findings.extend(replication::findings(&mut patient).await);
    findings.extend(times(&mut patient).await);
    // What was found is found.
    let _ = patient.db.close().await;
    Ok(findings)
}

/// The server's clock, and how far away it is.
async fn times(patient: &mut Patient<'_>) -> Vec<Finding> {
    let (mut trips, mut shown) = (Vec::new(), 0);
    for _ in 0..clock::TRIPS {
        let began = Instant::now();
        let Some(micros) = patient.number(TIME).await else { return Vec::new() };
        trips.push(began.elapsed());
        shown = micros;
    }
    clock::findings(sql::span(shown), trips).into()
}
