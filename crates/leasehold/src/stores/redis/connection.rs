//! The link to a server: made when it is needed, given up when it breaks, and nothing waits in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind as Kind, ProtocolVersion, PushInfo, PushKind, RedisResult, ServerErrorKind,
    Value,
};

use super::address::Address;
use super::answer;
use super::bells::Bells;
use super::dial::Dial;
use super::fault::Fault;
use super::node::{Node, Role};
use super::script::{Script, Scripts};
use super::sentinel::Sentinels;
use crate::error::ErrorKind;

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(2);

/// For how long a server may leave calls unanswered before somebody else is asked whether it is still the right one.
const SILENCE: Duration = Duration::from_millis(500);

/// An answer to each command, in order.
pub(super) type Answers = Vec<Result<Value, Fault>>;

/// One connection at a time, for all that a handle asks of a server. Commands go out in the order in which they were
/// asked.
pub(super) struct Link {
    place: Place,
    terms: Arc<Terms>,
    live: Mutex<Option<Live>>,
    connecting: tokio::sync::Mutex<()>,
}

/// Where the server is.
pub(super) enum Place {
    Fixed(Address),
    /// Where the sentinels say.
    Said(Sentinels),
}

/// What all links of a handle have in common.
pub(super) struct Terms {
    pub dial: Dial,
    pub scripts: Arc<Scripts>,
    /// On which channel the server wakes us, if it is to.
    pub channel: Option<String>,
    pub bells: Arc<Bells>,
}

/// A connection, and what is known of it.
#[derive(Clone)]
struct Live {
    connection: MultiplexedConnection,
    address: Address,
    node: Arc<Node>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Set once it has broken: what is asked after that goes over another one. Which one it is, too: a broken one must
    /// not take its successor along.
    broken: AtomicBool,
    /// Since when calls have been given up unanswered, and none has been answered.
    silent_since: Mutex<Option<Instant>>,
}

impl Link {
    /// A link that connects when it is first used.
    pub fn new(place: Place, terms: Arc<Terms>) -> Self {
        Self { place, terms, live: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    /// Runs a script, once for each call. A server that doesn't know it is told it and asked again: it has done
    /// nothing. `asking` is what a member of a cluster must be told that is taking over a slot.
    pub async fn call(&self, script: &Script, calls: &[&Cmd], asking: bool) -> Answers {
        let mut answers = self.send(calls, asking).await;
        let unknown: Vec<_> = (0..calls.len()).filter(|&nth| is_no_script(&answers[nth])).collect();
        if unknown.is_empty() {
            return answers;
        }
        let again: Vec<_> = unknown.iter().map(|&nth| calls[nth]).collect();
        let told = match self.ask(&script.load()).await {
            Ok(_) => self.send(&again, asking).await,
            Err(fault) => again.iter().map(|_| Err(fault.clone())).collect(),
        };
        for (nth, answer) in unknown.into_iter().zip(told) {
            answers[nth] = answer;
        }
        answers
    }

    /// Asks one thing.
    pub async fn ask(&self, command: &Cmd) -> Result<Value, Fault> {
        self.send(&[command], false).await.swap_remove(0)
    }

    /// Sends commands behind one another, once. What breaks here is not sent again: whoever asked knows whether it may
    /// be.
    async fn send(&self, commands: &[&Cmd], asking: bool) -> Answers {
        match self.live().await {
            Ok(live) => live.send(commands, asking).await,
            Err(fault) => commands.iter().map(|_| Err(fault.clone())).collect(),
        }
    }

    /// Whether it leaves calls unanswered. Told once for each time that it is silent for so long.
    pub fn is_silent(&self) -> bool {
        self.current().is_some_and(|live| live.state.is_silent())
    }

    /// Others say that it is the right server still: it may be silent for as long again.
    pub fn trust(&self) {
        if let Some(live) = self.current() {
            live.state.trust();
        }
    }

    /// Whether there is a connection that works, for all that is known.
    pub fn is_up(&self) -> bool {
        self.current().is_some()
    }

    /// Where the server is, if that is fixed.
    pub fn address(&self) -> Option<&Address> {
        match &self.place {
            Place::Fixed(address) => Some(address),
            Place::Said(_) => None,
        }
    }

    /// What the server said of itself when we connected; none while we are not.
    #[allow(dead_code, reason = "the restart guard asks")]
    pub fn node(&self) -> Option<Arc<Node>> {
        self.current().map(|live| live.node)
    }

    async fn live(&self) -> Result<Live, Fault> {
        if let Some(live) = self.current().filter(|live| !self.is_in_doubt(live)) {
            return Ok(live);
        }
        let _first = self.connecting.lock().await;
        if let Some(live) = self.current()
            && (!self.is_in_doubt(&live) || self.is_still_right(&live).await)
        {
            return Ok(live);
        }
        let address = self.place.find().await?;
        let late = |_| Fault::Unsent(ErrorKind::TimedOut, format!("{address} did not answer within {PATIENCE:?}"));
        let live = tokio::time::timeout(PATIENCE, self.terms.connect(&address)).await.map_err(late)??;
        *self.held() = Some(live.clone());
        Ok(live)
    }

    fn held(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Option<Live> {
        self.held().as_ref().filter(|live| !live.state.broken.load(Ordering::Acquire)).cloned()
    }

    /// Only sentinels can say that a server which is silent is the wrong one.
    fn is_in_doubt(&self, live: &Live) -> bool {
        matches!(self.place, Place::Said(_)) && live.state.is_silent()
    }

    /// A connection to the right server is never given up for being slow: what is sent after a call that was dropped
    /// must not overtake it.
    async fn is_still_right(&self, live: &Live) -> bool {
        let elsewhere = self.place.find().await.is_ok_and(|address| address != live.address);
        live.state.trust();
        !elsewhere
    }
}

impl Place {
    async fn find(&self) -> Result<Address, Fault> {
        match self {
            Self::Fixed(address) => Ok(address.clone()),
            Self::Said(sentinels) => sentinels.master().await,
        }
    }
}

impl Terms {
    /// A new connection to a master that knows the scripts, and on whose channel we listen.
    async fn connect(&self, address: &Address) -> Result<Live, Fault> {
        let (bells, state) = (Arc::clone(&self.bells), Arc::<State>::default());
        let breaks = Arc::clone(&state);
        let hear = move |said: PushInfo| {
            if said.kind == PushKind::Disconnection {
                breaks.broken.store(true, Ordering::Release);
            }
            bells.hear(&said);
            Ok::<(), redis::aio::SendError>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(None) // each call has a limit of its own
            .set_push_sender(hear);
        // RESP3: wake-ups come over the connection that the commands go over.
        let connection = self.dial.connect(address, ProtocolVersion::RESP3, &config).await?;
        let (node, ()) = tokio::join!(self.introduce(connection.clone()), self.listen(connection.clone()));
        let node = Arc::new(node.map_err(|error| Fault::unconnected(&error, address))?);
        match &node.role {
            Some(Role::Replica(master)) => {
                let message = format!("{address} is a replica of {master}, and takes no writes; name its master");
                Err(Fault::Unsent(ErrorKind::Unavailable, message))
            }
            _ => Ok(Live { connection, address: address.clone(), node, state }),
        }
    }

    /// Asks who it is, and tells it the scripts.
    async fn introduce(&self, mut connection: MultiplexedConnection) -> RedisResult<Node> {
        let mut first = redis::pipe();
        for section in ["server", "replication"] {
            first.cmd("INFO").arg(section);
        }
        for script in self.scripts.all() {
            first.add_command(script.load());
        }
        let mut answers = connection.send_packed_commands(&first, 0, first.len()).await?;
        for loaded in answers.split_off(2) {
            loaded.extract_error()?;
        }
        // Without the right to ask who it is one takes it as it is.
        let said: String = answers.iter().filter_map(answer::text).collect::<Vec<_>>().join("\n");
        Ok(Node::read(&said))
    }

    async fn listen(&self, mut connection: MultiplexedConnection) {
        if let Some(channel) = &self.channel {
            // Without the right to listen one looks by oneself.
            let _ = connection.subscribe(channel).await;
        }
    }
}

impl Live {
    async fn send(mut self, commands: &[&Cmd], asking: bool) -> Answers {
        let unanswered = Unanswered { state: &self.state, since: Instant::now() };
        let sent = match commands {
            [one] if !asking => self.connection.send_packed_command(one).await.map(|answer| vec![answer]),
            many => {
                self.connection.send_packed_commands(&pipeline(many, asking), 0, many.len() << u8::from(asking)).await
            }
        };
        unanswered.answered(sent.is_ok());
        let answers: Answers = match sent {
            // Every other one is to ASKING.
            Ok(answers) => {
                let step = 1 + usize::from(asking);
                let answers = answers.into_iter().skip(step - 1).step_by(step);
                answers.map(|answer| answer.extract_error().map_err(Fault::Sent)).collect()
            }
            Err(error) => commands.iter().map(|_| Err(Fault::Sent(error.clone()))).collect(),
        };
        if answers.iter().any(|answer| answer.as_ref().is_err_and(Fault::breaks)) {
            self.state.broken.store(true, Ordering::Release);
        }
        answers
    }
}

fn pipeline(commands: &[&Cmd], asking: bool) -> redis::Pipeline {
    let mut pipeline = redis::pipe();
    for &command in commands {
        if asking {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(command.clone());
    }
    pipeline
}

fn is_no_script(answer: &Result<Value, Fault>) -> bool {
    matches!(answer, Err(Fault::Sent(error)) if error.kind() == Kind::Server(ServerErrorKind::NoScript))
}

impl State {
    fn silent_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.silent_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_silent(&self) -> bool {
        self.silent_since().is_some_and(|since| since.elapsed() >= SILENCE)
    }

    /// It was asked about: not again before it has been silent for as long once more.
    fn trust(&self) {
        if let Some(since) = &mut *self.silent_since() {
            *since = Instant::now();
        }
    }
}

/// A call under way. Dropped before its answer has come, it says since when the server has been silent.
struct Unanswered<'a> {
    state: &'a State,
    since: Instant,
}

impl Unanswered<'_> {
    fn answered(self, really: bool) {
        if really {
            *self.state.silent_since() = None;
        }
        std::mem::forget(self);
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.state.silent_since().get_or_insert(self.since);
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("channel", &self.terms.channel).finish_non_exhaustive()
    }
}
