//! The link to a server: made when it is needed, given up when it breaks, and nothing waits in it.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::slice;
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
use super::restart_guard::{RestartGuard, Standing};
use super::script::{Promise, Script, Scripts};
use super::sentinel::Sentinels;
use crate::error::ErrorKind;
use crate::span::Span;

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(2);

/// For how long a server that could not be reached is left alone: who calls meanwhile is told what was found. A dead member of
/// a quorum would be tried three times for each lock else.
const LEFT_ALONE: Duration = Duration::from_millis(20);

/// So many calls, and so many bytes of them, go out in one write where many are made at once: the client library's own
/// limits (50 calls, 8 KiB) make ten writes of it.
const AT_ONCE: usize = 1000;
const WRITTEN_AT_ONCE: usize = 256 << 10;

/// For how long a server may leave calls unanswered before somebody else is asked whether it is still the right one.
const SILENCE: Duration = Duration::from_millis(500);

/// How soon a server that has a restart guard is asked again who it is: one that was replaced and is master again would
/// not be noticed otherwise, if nobody asked it anything meanwhile.
const WHO_IS_IT: Duration = Duration::from_secs(1);

/// How soon sentinels are asked again whether it is still the right server. One that they have replaced serves on for ten
/// seconds and more, until they tell it, and whoever is connected to it would not notice.
const STILL_RIGHT: Duration = Duration::from_secs(3);

/// How long after a promotion a claim may reach the server that was replaced: until most sentinels know, and we ask.
pub(super) const LEFT_WITHIN: Duration = Duration::from_secs(5);

/// How long they may take for that, while it answers.
const SENTINELS_SAY: Duration = Duration::from_millis(200);

/// For how long replicas are waited for, at the most: it holds up the claims behind it.
const REPLICAS_HAVE_IT: Duration = Duration::from_secs(1);

/// An answer to each command, in order.
pub(super) type Answers = Vec<Result<Value, Fault>>;

/// A command, made once it is known to whom it goes.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    /// Where it belongs.
    pub key: &'a str,
    pub make: &'a (dyn Fn(Session<'_>) -> Cmd + Send + Sync),
    /// After which time whoever asks gives up.
    pub limit: Duration,
}

/// What a command has to know of the connection that it goes over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Session<'a> {
    /// Whether the server understands the first line of a script (Redis 7).
    pub knows_flags: bool,
    /// Whether a release may grant the lock to who waits for it.
    pub hands_over: bool,
    /// What the server is as far as we know: another one after each start and each promotion.
    pub life: &'a str,
}

/// One connection at a time, for all that a handle asks of a server. Commands go out in the order in which they were
/// asked.
pub(super) struct Link {
    place: Place,
    terms: Arc<Terms>,
    live: Mutex<Option<Arc<Live>>>,
    /// Held while a connection is made; in it, how the last try failed.
    connecting: Arc<tokio::sync::Mutex<Option<Failed>>>,
}

/// A connection that could not be made.
struct Failed {
    at: Instant,
    why: Fault,
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
    /// Whether the servers were named as a cluster.
    pub is_of_a_cluster: bool,
    pub guard: Option<RestartGuard>,
    /// How many replicas must have what was promised.
    pub replicas: Option<NonZeroU32>,
    /// Whether a release may grant the lock to who waits for it.
    pub hands_over: bool,
}

/// How many replicas must have what was promised, and for how long they are waited for.
#[derive(Debug, Clone, Copy)]
struct Replicas {
    count: NonZeroU32,
    patience: Duration,
}

impl Replicas {
    /// Half of what whoever asks has is left for the rest of the way: it has to hear that they don't have it, and not that
    /// nobody answered.
    fn awaited(count: NonZeroU32, calls: &[Call<'_>]) -> Self {
        let limit = calls.iter().map(|call| call.limit).min().unwrap_or_default();
        // To a server 0 is for ever.
        Self { count, patience: (limit / 2).clamp(Duration::from_millis(1), REPLICAS_HAVE_IT) }
    }
}

/// A connection, and what is known of it.
struct Live {
    connection: MultiplexedConnection,
    address: Address,
    node: Arc<Node>,
    /// What it is, if that is known.
    life: Arc<str>,
    knows_flags: bool,
    /// From when on it may be asked for what, if it has a restart guard.
    standing: Option<Standing>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Set once it has broken: what is asked after that goes over another one. Which one it is, too: a broken one must
    /// not take its successor along.
    broken: AtomicBool,
    /// Since when calls have been given up unanswered, and none has been answered.
    silent_since: Mutex<Option<Instant>>,
    /// When it last said who it is.
    introduced: Mutex<Option<Instant>>,
    /// When others last said that it is the right server.
    confirmed: Mutex<Option<Instant>>,
}

impl Link {
    /// A link that connects when it is first used.
    pub fn new(place: Place, terms: Arc<Terms>) -> Self {
        Self { place, terms, live: Mutex::default(), connecting: Arc::default() }
    }

    /// Runs a script, once for each call. `asking` is what a member of a cluster must be told that is taking over a
    /// slot.
    pub async fn call(self: &Arc<Self>, script: &Script, calls: &[Call<'_>], asking: bool) -> Answers {
        let fault = match self.live().await {
            Ok(live) => match live.withholds(script) {
                None => return live.run(&self.terms, script, calls, asking).await,
                Some(fault) => fault,
            },
            Err(fault) => fault,
        };
        calls.iter().map(|_| Err(fault.clone())).collect()
    }

    /// Asks one thing.
    pub async fn ask(self: &Arc<Self>, command: &Cmd) -> Result<Value, Fault> {
        self.live().await?.send(slice::from_ref(command), false).await.swap_remove(0)
    }

    /// Listens to one more channel, if the server allows it.
    pub async fn listen_to(self: &Arc<Self>, channel: &str) {
        if let Ok(live) = self.live().await {
            let _ = live.connection.clone().subscribe(channel).await;
        }
    }

    pub async fn listen_no_more_to(&self, channel: &str) {
        if let Some(live) = self.current() {
            let _ = live.connection.clone().unsubscribe(channel).await;
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

    /// What the server is, if there is a connection and that is known.
    pub fn life(&self) -> Option<Arc<str>> {
        self.current().map(|live| Arc::clone(&live.life)).filter(|life| !life.is_empty())
    }

    /// Where the server is, if that is fixed.
    pub fn address(&self) -> Option<&Address> {
        match &self.place {
            Place::Fixed(address) => Some(address),
            Place::Said(_) => None,
        }
    }

    /// Where the server is, or who says so.
    pub fn place(&self) -> &Place {
        &self.place
    }

    async fn live(self: &Arc<Self>) -> Result<Arc<Live>, Fault> {
        match self.trusted() {
            Some(live) => Ok(live),
            None => Box::pin(self.make_sure()).await,
        }
    }

    /// In a task of its own: a call that is given up meanwhile, as those of short leases are soon, leaves a connection to
    /// the next one.
    async fn make_sure(self: &Arc<Self>) -> Result<Arc<Live>, Fault> {
        let mut failed = Arc::clone(&self.connecting).lock_owned().await;
        if let Some(live) = self.trusted() {
            return Ok(live);
        }
        if let Some(failed) = failed.as_ref().filter(|failed| failed.at.elapsed() < LEFT_ALONE) {
            return Err(failed.why.clone());
        }
        let link = Arc::clone(self);
        let made = tokio::spawn(async move {
            let made = link.confirmed_or_new().await;
            *failed = made.as_ref().err().map(|why| Failed { at: Instant::now(), why: why.clone() });
            made
        });
        made.await.unwrap_or_else(|error| Err(Fault::Unsent(ErrorKind::Internal, error.to_string())))
    }

    /// The connection that there is, if it is to the right server, or one to that.
    async fn confirmed_or_new(&self) -> Result<Arc<Live>, Fault> {
        if let Some(live) = self.current()
            && self.is_still_right(&live).await
        {
            return Ok(live);
        }
        let address = self.place.find().await?;
        let late = |_| self.terms.dial.silence(&address, PATIENCE);
        let live = tokio::time::timeout(PATIENCE, self.terms.connect(&address)).await.map_err(late)??;
        let live = Arc::new(live);
        *self.held() = Some(Arc::clone(&live));
        Ok(live)
    }

    fn trusted(&self) -> Option<Arc<Live>> {
        self.current().filter(|live| !self.is_in_doubt(live))
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Option<Arc<Live>> {
        self.held().as_ref().filter(|live| !live.state.broken.load(Ordering::Acquire)).cloned()
    }

    /// Only sentinels can say that a server which is silent is the wrong one.
    fn is_in_doubt(&self, live: &Live) -> bool {
        matches!(self.place, Place::Said(_)) && (live.state.is_silent() || live.state.is_unconfirmed())
    }

    /// A connection to the right server is never given up for being slow: what is sent after a call that was dropped
    /// must not overtake it.
    async fn is_still_right(&self, live: &Live) -> bool {
        // One that answers is not held up for long by sentinels that don't.
        let limit = if live.state.is_silent() { PATIENCE } else { SENTINELS_SAY };
        let said = tokio::time::timeout(limit, self.place.find()).await;
        if said.is_ok_and(|said| said.is_ok_and(|address| address != live.address)) {
            return false; // And stays in doubt, should the other one not be reached: nothing goes to this one again.
        }
        live.state.trust();
        live.state.confirm();
        true
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
                // Nobody relies on one that has never been made: who waits need not be woken for that.
                if breaks.introduced().is_none() {
                    return Ok(());
                }
            }
            bells.hear(&said);
            Ok::<(), redis::aio::SendError>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_pipeline_buffer_size(AT_ONCE)
            .set_write_backpressure_boundary(WRITTEN_AT_ONCE)
            .set_push_sender(hear);
        // RESP3: wake-ups come over the connection that the commands go over.
        let connection = self.dial.connect(address, ProtocolVersion::RESP3, config, PATIENCE).await?;
        let (introduced, ()) = tokio::join!(self.introduce(connection.clone()), self.listen(connection.clone()));
        let (node, knows_flags) = introduced.map_err(|error| self.dial.unconnected(&error, address))?;
        if let Some(Role::Replica(master)) = &node.role {
            let message = format!("{address} is a replica of {master}, and takes no writes; name its master");
            return Err(Fault::Unsent(ErrorKind::Unavailable, message));
        }
        if node.is_a_sentinel() {
            let scheme = self.dial.scheme();
            let message = format!(
                "{address} is a sentinel and keeps no locks; write {scheme}+sentinel://{address}/NAME, with the name of the \
                 master that it watches"
            );
            return Err(Fault::Unsent(ErrorKind::Misconfigured, message));
        }
        if node.is_in_a_cluster() && !self.is_of_a_cluster {
            let scheme = self.dial.scheme();
            let message = format!(
                "{address} is a node of a cluster, and has only some of the names; write {scheme}+cluster://{address}"
            );
            return Err(Fault::Unsent(ErrorKind::Misconfigured, message));
        }
        let standing = match &self.guard {
            Some(guard) => Some(guard.examine(&mut connection.clone(), &node).await?),
            None => None,
        };
        *state.introduced() = Some(Instant::now());
        state.confirm();
        let (address, life) = (address.clone(), node.identity().unwrap_or_default().into());
        Ok(Live { connection, address, node: Arc::new(node), life, knows_flags, standing, state })
    }

    /// Asks who it is, and tells it the scripts; whether it knows their flags.
    async fn introduce(&self, mut connection: MultiplexedConnection) -> RedisResult<(Node, bool)> {
        let mut first = redis::pipe();
        for section in ["server", "replication"] {
            first.cmd("INFO").arg(section);
        }
        first.cmd("HELLO");
        for script in self.scripts.common() {
            first.add_command(script.load(true));
        }
        let mut answers = connection.send_packed_commands(&first, 0, first.len()).await?;
        let loaded = answers.split_off(3);
        let greeting = answers.pop();
        let knows_flags = loaded.into_iter().all(|answer| answer.extract_error().is_ok());
        // Without the right to ask who it is one takes it as it is.
        let said: String = answers.iter().filter_map(answer::text).collect::<Vec<_>>().join("\n");
        // A greeting is answered whatever this user may: what the server is one knows in any case.
        let node = Node::read(&said).greeted_with(greeting.as_ref().and_then(answer::mode));
        if !knows_flags && !node.is_a_sentinel() {
            for script in self.scripts.common() {
                connection.send_packed_command(&script.load(false)).await?.extract_error()?;
            }
        }
        Ok((node, knows_flags))
    }

    async fn listen(&self, mut connection: MultiplexedConnection) {
        if let Some(channel) = &self.channel {
            // Without the right to listen one looks by oneself.
            let _ = connection.subscribe(channel).await;
        }
        let names = self.bells.channels();
        if !names.is_empty() {
            let _ = connection.subscribe(names).await;
        }
    }
}

impl Live {
    /// Why a script is not to be run yet, if it isn't.
    fn withholds(&self, script: &Script) -> Option<Fault> {
        let standing = self.standing.as_ref()?;
        let address = &self.address;
        match script.promise {
            Promise::Grant => standing.grants_in().map(|left| {
                let message = format!(
                    "{address} was started or promoted lately and grants nothing for {} more; by then all is over \
                     that it may have forgotten (max_ttl, restart_guard)",
                    Span(left)
                );
                Fault::Guarded(message)
            }),
            Promise::Renewal => standing.renews_in().map(|left| {
                let message = format!("{address} was promoted lately and renews nothing for {} more", Span(left));
                Fault::Unsent(ErrorKind::Unavailable, message)
            }),
            Promise::Routed | Promise::Memory | Promise::None => None,
        }
    }

    /// Runs a script, once for each call. A server that doesn't know it is told it and asked again: it has done nothing.
    async fn run(&self, terms: &Terms, script: &Script, calls: &[Call<'_>], asking: bool) -> Answers {
        let session = Session {
            knows_flags: self.knows_flags,
            hands_over: terms.hands_over && self.may_grant_by_the_way(),
            life: &self.life,
        };
        let commands: Vec<_> = calls.iter().map(|call| (call.make)(session)).collect();
        let replicas = terms.replicas.filter(|_| script.promise.waits_for_replicas());
        let replicas = replicas.map(|count| Replicas::awaited(count, calls));
        let mut answers = self.promise(replicas, script, &commands, asking).await;
        let unknown: Vec<_> = (0..commands.len()).filter(|&nth| is_no_script(&answers[nth])).collect();
        if !unknown.is_empty() {
            let again: Vec<_> = unknown.iter().map(|&nth| commands[nth].clone()).collect();
            let told = Box::pin(self.tell(replicas, script, &again, asking)).await;
            unknown.into_iter().zip(told).for_each(|(nth, answer)| answers[nth] = answer);
        }
        answers.into_iter().map(|answer| answer.map_err(|fault| self.naming_the_command(script, fault))).collect()
    }

    /// A server says only in which line of a script there is a command that this user may not run. We know what stands there.
    fn naming_the_command(&self, script: &Script, fault: Fault) -> Fault {
        let command = fault.forbidden_line().and_then(|line| script.commands_in(line, self.knows_flags));
        match (command, fault) {
            (Some(command), Fault::Sent(error)) => Fault::Forbidden(command, error),
            (_, fault) => fault,
        }
    }

    /// Tells the server a script that it doesn't know, and asks again.
    async fn tell(&self, replicas: Option<Replicas>, script: &Script, again: &[Cmd], asking: bool) -> Answers {
        match self.send(&[script.load(self.knows_flags)], false).await.swap_remove(0) {
            Ok(_) => self.promise(replicas, script, again, asking).await,
            Err(fault) => again.iter().map(|_| Err(fault.clone())).collect(),
        }
    }

    /// Sends commands, and what makes sure of their answers: before them the question who this is by now, behind them
    /// that so many replicas have it.
    async fn promise(&self, replicas: Option<Replicas>, script: &Script, commands: &[Cmd], asking: bool) -> Answers {
        let who = (script.promise.asks_who_it_is() && self.is_to_introduce_itself()).then(|| {
            let mut who = redis::cmd("INFO");
            who.arg("replication");
            who
        });
        let wait = replicas.map(|replicas| {
            let mut wait = redis::cmd("WAIT");
            wait.arg(replicas.count.get()).arg(u64::try_from(replicas.patience.as_millis()).unwrap_or(u64::MAX));
            wait
        });
        let all: Cow<'_, [Cmd]> = match (&who, &wait) {
            (None, None) => commands.into(),
            _ => who.iter().chain(commands).chain(&wait).cloned().collect(),
        };
        let asked = Instant::now();
        let mut answers = self.send(&all, asking).await;
        let who = who.map(|_| answers.remove(0));
        let acknowledged = wait.and_then(|_| answers.pop());
        if let Some(Ok(said)) = &who
            && !self.is_still(said, asked)
        {
            self.state.broken.store(true, Ordering::Release);
            let changed = format!("{} is not the master any more that it was", self.address);
            return answers.iter().map(|_| Err(Fault::Doubtful(changed.clone()))).collect();
        }
        if let (Some(replicas), Some(acknowledged)) = (replicas, acknowledged) {
            make_sure(&mut answers, script.promise, replicas, &acknowledged);
        }
        answers
    }

    /// Whether a release may grant something: nobody asks the server then who it is by now.
    fn may_grant_by_the_way(&self) -> bool {
        self.standing.is_none_or(|standing| standing.grants_in().is_none() && !self.is_to_introduce_itself())
    }

    fn is_to_introduce_itself(&self) -> bool {
        self.standing.is_some() && self.state.introduced().is_none_or(|then| then.elapsed() > WHO_IS_IT)
    }

    /// Whether it is the master still that it was when we connected.
    fn is_still(&self, said: &Value, asked: Instant) -> bool {
        *self.state.introduced() = Some(asked);
        let now = Node::read(&answer::text(said).unwrap_or_default());
        now.replid == self.node.replid && now.role == self.node.role
    }

    /// Sends commands behind one another, once. What breaks here is not sent again: whoever asked knows whether it may
    /// be.
    async fn send(&self, commands: &[Cmd], asking: bool) -> Answers {
        let unanswered = Unanswered { state: &self.state, since: Instant::now() };
        let mut connection = self.connection.clone();
        let answers = match commands {
            [one] if !asking => {
                let answer = connection.send_packed_command(one).await;
                unanswered.answered(answer.is_ok());
                vec![answer.and_then(Value::extract_error).map_err(Fault::Sent)]
            }
            many => {
                let step = 1 + usize::from(asking);
                let sent = connection.send_packed_commands(&pipeline(many, asking), 0, many.len() * step).await;
                unanswered.answered(sent.is_ok());
                match sent {
                    // Every other one is to ASKING.
                    Ok(answers) => {
                        let answers = answers.into_iter().skip(step - 1).step_by(step);
                        answers.map(|answer| answer.extract_error().map_err(Fault::Sent)).collect()
                    }
                    Err(error) => many.iter().map(|_| Err(Fault::Sent(error.clone()))).collect(),
                }
            }
        };
        if answers.iter().any(|answer| answer.as_ref().is_err_and(Fault::breaks)) {
            self.state.broken.store(true, Ordering::Release);
        }
        answers
    }
}

/// Takes back the promises that too few replicas have: they may be lost with this server.
fn make_sure(answers: &mut Answers, promise: Promise, replicas: Replicas, acknowledged: &Result<Value, Fault>) {
    let fault = match acknowledged {
        Ok(Value::Int(count)) if *count >= i64::from(replicas.count.get()) => return,
        Ok(Value::Int(count)) => {
            let wanted = replicas.count;
            Fault::Doubtful(format!("{count} of the {wanted} replicas that wait_replicas asks for had it in time"))
        }
        // Whatever is wrong with that, what it was asked about has been done.
        other => Fault::Doubtful(format!("nobody knows whether the replicas have it (WAIT was answered by {other:?})")),
    };
    for answer in answers.iter_mut().filter(|answer| answer.as_ref().is_ok_and(|said| promise.is_in(said))) {
        *answer = Err(fault.clone());
    }
}

fn pipeline(commands: &[Cmd], asking: bool) -> redis::Pipeline {
    let mut pipeline = redis::pipe();
    for command in commands {
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
    fn introduced(&self) -> MutexGuard<'_, Option<Instant>> {
        self.introduced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.silent_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn confirm(&self) {
        *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_unconfirmed(&self) -> bool {
        let confirmed = *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        confirmed.is_none_or(|then| then.elapsed() > STILL_RIGHT)
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
