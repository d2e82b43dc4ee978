//! The link to the server: made when it is needed, given up when it breaks, and nothing waits in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind as Kind, PushInfo, PushKind, RedisError, RedisResult,
    ServerErrorKind, Value,
};

use super::bells::Bells;
use super::script::{Script, Scripts};

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(2);

/// One connection at a time, for all that a handle asks. Commands go out in the order in which they were asked.
pub(super) struct Link {
    client: Client,
    scripts: Arc<Scripts>,
    /// On which channel the server wakes us, if it is to.
    channel: Option<String>,
    bells: Arc<Bells>,
    live: Mutex<Option<Live>>,
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Live {
    connection: MultiplexedConnection,
    /// Set once it has broken: what is asked after that goes over another one. Which one it is, too: a broken one must
    /// not take its successor along.
    broken: Arc<AtomicBool>,
}

impl Link {
    /// A link that connects when it is first used.
    pub fn new(client: Client, scripts: Arc<Scripts>, channel: Option<String>, bells: Arc<Bells>) -> Self {
        Self { client, scripts, channel, bells, live: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    /// Runs a script. A server that doesn't know it is told it and asked again: it has done nothing.
    pub async fn call(&self, script: &Script, command: Cmd) -> RedisResult<Value> {
        match self.ask(&command).await {
            Err(error) if error.kind() == Kind::Server(ServerErrorKind::NoScript) => {
                self.ask(&script.load()).await?;
                self.ask(&command).await
            }
            answer => answer,
        }
    }

    /// Sends a command once. What breaks here is not sent again: whoever asked knows whether it may be.
    pub async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        let mut live = self.live().await?;
        let answer = live.connection.send_packed_command(command).await.and_then(Value::extract_error);
        if answer.as_ref().is_err_and(breaks) {
            live.broken.store(true, Ordering::Release);
        }
        answer
    }

    async fn live(&self) -> RedisResult<Live> {
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let _first = self.connecting.lock().await;
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let live = self.connect().await?;
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(live.clone());
        Ok(live)
    }

    fn current(&self) -> Option<Live> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.as_ref().filter(|live| !live.broken.load(Ordering::Acquire)).cloned()
    }

    /// A new connection whose server knows the scripts, and on whose channel we listen.
    async fn connect(&self) -> RedisResult<Live> {
        let (bells, broken) = (Arc::clone(&self.bells), Arc::<AtomicBool>::default());
        let breaks = Arc::clone(&broken);
        let hear = move |said: PushInfo| {
            if said.kind == PushKind::Disconnection {
                breaks.store(true, Ordering::Release);
            }
            bells.hear(&said);
            Ok::<(), redis::aio::SendError>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(None) // each call has a limit of its own
            .set_push_sender(hear);
        let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut first = redis::pipe();
        for script in self.scripts.all() {
            first.add_command(script.load()).ignore();
        }
        first.query_async::<()>(&mut connection).await?;
        if let Some(channel) = &self.channel {
            // Without the right to listen one looks by oneself.
            let _ = connection.subscribe(channel).await;
        }
        Ok(Live { connection, broken })
    }
}

/// Whether a connection that gave this answer is of no use any more.
fn breaks(error: &RedisError) -> bool {
    error.is_unrecoverable_error()
        || error.is_io_error()
        || matches!(error.kind(), Kind::Parse | Kind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("channel", &self.channel).finish_non_exhaustive()
    }
}
