//! What is asked of the server.

use sqlx::Arguments;
use sqlx::mysql::{MySqlArguments, MySqlConnection, MySqlRow};

use super::fault::Fault;

/// The rows of all results, in order.
pub(super) type Rows = Vec<MySqlRow>;

/// A statement and its arguments.
#[derive(Clone)]
pub(super) struct Call {
    sql: &'static str,
    arguments: MySqlArguments,
}

impl Call {
    pub fn new(sql: &'static str) -> Self {
        Self { sql, arguments: MySqlArguments::default() }
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
        Ok(sqlx::query_with(self.sql, self.arguments).fetch_all(db).await?)
    }
}
