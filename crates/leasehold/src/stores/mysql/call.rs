//! What is asked of the server.

use std::borrow::Cow;
use std::ops::Deref;

use futures_util::TryStreamExt;
use sqlx::mysql::{MySqlArguments, MySqlConnection, MySqlRow};

use sqlx::{Arguments, AssertSqlSafe, Either, Executor};

use super::fault::Fault;

/// The rows of all results, in order.
#[derive(Default)]
pub(super) struct Rows {
    rows: Vec<MySqlRow>,
    /// How many rows of a table a statement found to be written, or wrote.
    pub affected: u64,
}

impl Deref for Rows {
    type Target = [MySqlRow];

    fn deref(&self) -> &[MySqlRow] {
        &self.rows
    }
}

/// A statement and its arguments.
#[derive(Clone)]
pub(super) struct Call {
    sql: Cow<'static, str>,
    arguments: MySqlArguments,
}

impl Call {
    /// A statement of ours: what others say goes into its arguments.
    pub fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        Self { sql: sql.into(), arguments: MySqlArguments::default() }
    }

    /// Bytes that are compared as they are.
    pub fn bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        self.with(bytes.as_ref())
    }

    pub fn maybe_bytes(self, bytes: Option<&[u8]>) -> Self {
        self.with(bytes)
    }

    pub fn text(self, text: &str) -> Self {
        self.with(text)
    }

    pub fn number(self, number: impl Into<Option<i64>>) -> Self {
        self.with(number.into())
    }

    fn with<'a, T: sqlx::Encode<'a, sqlx::MySql> + sqlx::Type<sqlx::MySql>>(mut self, argument: T) -> Self {
        self.arguments.add(argument).expect("numbers and bytes can be encoded");
        self
    }

    /// Asks, over a connection that nothing else is asked over meanwhile. Must not be dropped half-way: the next one
    /// would read this one's answer.
    pub async fn run(self, db: &mut MySqlConnection) -> Result<Rows, Fault> {
        let mut answer = Rows::default();
        let mut parts = db.fetch_many(sqlx::query_with(AssertSqlSafe(self.sql), self.arguments));
        while let Some(part) = parts.try_next().await? {
            match part {
                Either::Left(done) => answer.affected += done.rows_affected(),
                Either::Right(row) => answer.rows.push(row),
            }
        }
        Ok(answer)
    }
}
