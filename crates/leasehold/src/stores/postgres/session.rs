//! A session with a server: logged in, and proven to answer what it is asked.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{self, Either, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls};

use super::fault::Fault;
use super::link::Given;
use super::options::{Options, PATIENCE};
use super::tls;
use crate::error::ErrorKind;

/// The first question over each connection.
const GREETING: &str = "select $1::bigint, current_setting('transaction_read_only') = 'off'";

/// How many sessions may come with somebody else's answers before no more is tried.
const SESSIONS_OF_OTHERS: u32 = 3;

/// What to do where something else may be listening.
pub(super) const IF_IT_IS_SILENT: &str = "if it goes on so, name the port of a PostgreSQL server";

/// What the server says unasked, until the connection ends. It has to be polled for anything to be sent.
pub(super) type Unasked = BoxStream<'static, Result<AsyncMessage, tokio_postgres::Error>>;

/// A session in which the first question was answered.
pub(super) struct Session {
    pub client: Client,
    pub unasked: Unasked,
    pub takes_writes: bool,
}

impl Session {
    /// A session at one host. A pooler may give one in which somebody else's answers are still to come.
    pub async fn begin(host: &Options, what_for: &str, patience: Duration) -> Result<Self, Fault> {
        let mut others_left = SESSIONS_OF_OTHERS;
        loop {
            let (client, mut unasked) = log_in(host, what_for).await?;
            let greeted = tokio::time::timeout(patience, greet(&client, &mut unasked));
            match greeted.await.unwrap_or_else(|_| Err(silent(patience))) {
                Ok(takes_writes) => return Ok(Self { client, unasked, takes_writes }),
                Err(fault) if fault.may_be_anothers() && others_left > 0 => others_left -= 1,
                Err(fault) => return Err(fault.into_unsent()),
            }
        }
    }
}

/// Lets a connection live. It ends with its client, or with its connection.
pub(super) async fn drain(mut unasked: Unasked) {
    while unasked.next().await.is_some_and(|said| said.is_ok()) {}
}

async fn log_in(host: &Options, what_for: &str) -> Result<(Client, Unasked), Fault> {
    let told = |error| Fault::Told(Box::new(error));
    let config = host.config(what_for).map_err(told)?;
    let logged_in = async {
        match &host.tls {
            None => config.connect(NoTls).await.map(|(client, connection)| (client, unasked(connection))),
            Some(tls) => {
                let connector = tls::connector(tls).map_err(told)?;
                config.connect(connector).await.map(|(client, connection)| (client, unasked(connection)))
            }
        }
        .map_err(|error| Fault::unconnected(&error))
    };
    tokio::time::timeout(PATIENCE, logged_in).await.map_err(|_| silent(PATIENCE))?
}

/// Whether it takes writes, and answers what it is asked at all. What it says unasked meanwhile is said to nobody of ours.
async fn greet(client: &Client, unasked: &mut Unasked) -> Result<bool, Fault> {
    let question = rand::random::<i64>();
    let given: [Given<'_>; 1] = [(&question, Type::INT8)];
    let answer = pin!(client.query_typed_one(GREETING, &given));
    let ends = pin!(async {
        while let Some(said) = unasked.next().await {
            said?;
        }
        Ok(())
    });
    let row = match future::select(answer, ends).await {
        Either::Left((answer, _)) => answer?,
        // The server's last word may have come along with the end.
        Either::Right((Err(ended), answer)) => match answer.now_or_never() {
            Some(Err(said)) if said.as_db_error().is_some() => return Err(Fault::Sent(said)),
            _ => return Err(Fault::Sent(ended)),
        },
        Either::Right((Ok(()), answer)) => answer.await?,
    };
    let asked: Option<i64> = row.try_get(0).ok();
    match row.try_get(1) {
        Ok(takes_writes) if asked == Some(question) => Ok(takes_writes),
        _ => Err(Fault::AnothersAnswer),
    }
}

fn silent(limit: Duration) -> Fault {
    Fault::Unsent(ErrorKind::TimedOut, format!("it did not answer within {limit:?}; {IF_IT_IS_SILENT}"))
}

fn unasked<S, T>(mut connection: Connection<S, T>) -> Unasked
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    stream::poll_fn(move |context| connection.poll_message(context)).boxed()
}
