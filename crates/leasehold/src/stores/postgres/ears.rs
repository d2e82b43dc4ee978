//! What is listened for: one connection and one channel for a process, whatever the number of names.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::StreamExt;
use tokio::sync::Notify;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client};

use super::bells::Bells;
use super::fault::Fault;
use super::link::{Link, Server};
use super::session::Unasked;
use crate::error::ErrorKind;

/// Within which a message that was sent has to be heard, or none ever is.
const TRIAL: Duration = Duration::from_millis(500);

/// How long it may take until it was tried: whoever asks then is answered by nobody else.
const PATIENCE: Duration = Duration::from_secs(5);

/// After which it is tried again, where nothing was heard twice: a pooler may be replaced.
const AFTER_SILENCE: Duration = Duration::from_secs(60);

/// After which it is tried again, where there was no connection, or nothing was heard for once: a machine that is busy may be as
/// slow as that.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The message of a trial; no name's.
const ARE_YOU_THERE: &str = "?";

/// A session that listens, once somebody waits. While it does it has a lock on a number of its own, so that a release can
/// tell whether there is anybody to be given something.
pub(super) struct Ears {
    server: Arc<Server>,
    bells: Arc<Bells>,
    state: Mutex<State>,
    opening: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    open: Option<Ear>,
    /// Whether nothing was heard at the last trial.
    is_deaf: bool,
    not_before: Option<Instant>,
}

/// A session that was heard to hear.
struct Ear {
    session: Client,
    /// The number, and part of the channel's name. Another one for each session: the server may not know yet that the last
    /// one has ended.
    id: String,
}

impl Ears {
    pub fn new(server: Arc<Server>, bells: Arc<Bells>) -> Self {
        Self { server, bells, state: Mutex::default(), opening: tokio::sync::Mutex::default() }
    }

    /// As what this process is spoken to; nothing if it doesn't hear.
    pub fn client(&self) -> String {
        self.state().heard_as().unwrap_or_default().to_owned()
    }

    /// Whether messages don't arrive here, as through a pooler. Not so until it was tried.
    pub fn are_deaf(&self) -> bool {
        self.state().is_deaf
    }

    /// Whether they should be opened (again) now.
    pub fn are_to_open(&self) -> bool {
        !self.are_open() && self.state().not_before.is_none_or(|then| then <= Instant::now())
    }

    fn are_open(&self) -> bool {
        self.state().heard_as().is_some()
    }

    /// Listens, and tries out whether it hears what is said over another connection; an error if it could not be tried.
    pub async fn open(&self, other: &Arc<Link>) -> Result<(), Fault> {
        let _one = self.opening.lock().await;
        if !self.are_to_open() {
            return Ok(());
        }
        let tried = tokio::time::timeout(PATIENCE, self.try_out(other)).await.unwrap_or_else(|_| Err(late()));
        let (open, is_deaf, pause, answer) = match tried {
            Ok(Some(ear)) => (Some(ear), false, Duration::ZERO, Ok(())),
            Ok(None) => (None, true, if self.are_deaf() { AFTER_SILENCE } else { AFTER_FAILURE }, Ok(())),
            Err(fault) => (None, self.are_deaf(), AFTER_FAILURE, Err(fault)), // Whoever waits looks by itself.
        };
        *self.state() = State { open, is_deaf, not_before: Some(Instant::now() + pause) };
        answer
    }

    /// A session that hears; none if it doesn't.
    async fn try_out(&self, other: &Arc<Link>) -> Result<Option<Ear>, Fault> {
        let number = rand::random::<u64>();
        let id = format!("{number:016x}");
        let (session, unasked) = self.server.connect("waits").await?;
        let heard = Arc::new(Notify::new());
        let is_proven = Arc::new(AtomicBool::new(false));
        let channel = format!("leasehold_{id}");
        let ear = Hearing { channel: channel.clone(), heard: Arc::clone(&heard), is_proven: Arc::clone(&is_proven) };
        tokio::spawn(hear(unasked, Arc::clone(&self.bells), ear));
        session.batch_execute(&format!("listen {channel}")).await?;
        other
            .call("select pg_notify($1, $2), $3::bigint", &[(&channel, Type::TEXT), (&ARE_YOU_THERE, Type::TEXT)])
            .await?;
        if tokio::time::timeout(TRIAL, heard.notified()).await.is_err() {
            // Somebody else's by now, if it is a pooler's; most give the same one again.
            session.batch_execute(&format!("unlisten {channel}")).await?;
            return Ok(None);
        }
        is_proven.store(true, Ordering::Release);
        // Only now: it would stay behind in a pooler's session.
        session.query_typed_one("select pg_advisory_lock($1)", &[(&number.cast_signed(), Type::INT8)]).await?;
        Ok(Some(Ear { session, id }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn heard_as(&self) -> Option<&str> {
        self.open.as_ref().filter(|ear| !ear.session.is_closed()).map(|ear| &*ear.id)
    }
}

fn late() -> Fault {
    Fault::Unsent(ErrorKind::TimedOut, format!("it could not be listened to within {PATIENCE:?}"))
}

/// What a session listens to, and what it tells of that.
struct Hearing {
    channel: String,
    heard: Arc<Notify>,
    is_proven: Arc<AtomicBool>,
}

/// Tells who is meant, until the connection ends. Then nobody knows what was missed.
async fn hear(mut unasked: Unasked, bells: Arc<Bells>, ear: Hearing) {
    while let Some(Ok(said)) = unasked.next().await {
        // A pooler gives messages to whoever has the session at that moment, others' trials as well.
        let AsyncMessage::Notification(message) = said else { continue };
        if message.channel() != ear.channel {
            continue;
        }
        if message.payload() == ARE_YOU_THERE {
            ear.heard.notify_one();
        } else {
            let _ = bells.tell(message.payload()); // Nobody may wait for it any more.
        }
    }
    if ear.is_proven.load(Ordering::Acquire) {
        bells.ring_all();
    }
}
