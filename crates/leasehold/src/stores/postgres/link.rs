//! The link to a server: made when it is needed, given up when it breaks, and nothing waits in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesOrdered, StreamExt};
use tokio::sync::OnceCell;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::fault::Fault;
use super::hosts::{self, Identity};
use super::options::{Options, PATIENCE};
use super::schema::Making;
use super::session::{Session, Unasked, drain};
use super::statements::Statements;
use super::{TIME, advisory, schema, shedlock};
use crate::error::ErrorKind;
use crate::stores::sql;
use crate::stores::tls::Tls;

/// A session that is silent for longer is given up, though the network takes what is sent: the server lets nothing wait
/// so long (`lock_timeout` in `schema/begin.sql`).
const SILENCE: Duration = Duration::from_millis(3500);

/// How long tables may take to be made. All who come first wait for one of them to do it.
const UNTIL_READY: Duration = Duration::from_secs(10);

/// What a statement is given.
pub(super) type Given<'a> = (&'a (dyn ToSql + Sync), Type);

/// What all links of a store have in common.
pub(super) struct Server {
    pub options: Options,
    pub statements: Statements,
    /// Whether the tables were seen to be as this build knows them.
    prepared: AtomicBool,
    /// Whether some of it has turned out to be missing, whatever its version says.
    lacks: AtomicBool,
    /// Which tables they are.
    home: Mutex<Option<String>>,
    /// Of which cluster the server was that was found first among several hosts.
    cluster: OnceCell<Arc<str>>,
}

/// One connection at a time. Statements go out in the order in which they were asked, behind one another: nobody waits for
/// an answer before the next one is sent.
pub(super) struct Link {
    server: Arc<Server>,
    /// What for, as the server is told.
    what_for: &'static str,
    live: Mutex<Option<Arc<Live>>>,
    connecting: Arc<tokio::sync::Mutex<()>>,
}

struct Live {
    client: Client,
    /// Set once it is of no use any more: what is asked after that goes over another one.
    broken: AtomicBool,
    /// Something is asked over it that no lock waits for.
    is_lent: AtomicBool,
    silence: Mutex<Silence>,
}

impl Server {
    pub fn new(options: Options) -> Self {
        if options.tls.is_some() {
            Tls::provide();
        }
        let statements = Statements::of(&options.schema);
        Self {
            options,
            statements,
            prepared: AtomicBool::default(),
            lacks: AtomicBool::default(),
            home: Mutex::default(),
            cluster: OnceCell::default(),
        }
    }

    /// Which tables these are, once that is known.
    pub fn home(&self) -> Option<String> {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A new connection, over which it has answered what it was asked. Of several hosts to the first one that takes writes; all
    /// of them are tried at once, so that a machine that is gone takes none of the others' time.
    pub async fn connect(&self, what_for: &str) -> Result<(Client, Unasked), Fault> {
        let (hosts, has_several) = (self.options.by_host(), self.options.has_several_hosts());
        let patience = if has_several { PATIENCE } else { SILENCE };
        let mut tried: FuturesOrdered<_> =
            hosts.iter().map(|(_, host)| Session::begin(host, what_for, patience)).collect();
        let mut unmet = None;
        while let Some(met) = tried.next().await {
            match met {
                Ok(Session { takes_writes: false, .. }) if has_several => {}
                Ok(Session { client, unasked, .. }) => return Ok((client, unasked)),
                Err(fault) => unmet = Some(fault),
            }
        }
        Err(unmet.unwrap_or_else(|| Fault::Unsent(ErrorKind::Unavailable, "none of them takes writes".to_owned())))
    }

    /// Some of them are not there: the next session makes them.
    pub fn has_lost_tables(&self) {
        self.lacks.store(true, Ordering::Release);
        self.prepared.store(false, Ordering::Release);
    }

    /// Whether that has turned out, and no session has tried to make them since.
    pub fn lacks_tables(&self) -> bool {
        self.lacks.load(Ordering::Acquire)
    }

    /// Sees to it that the tables are there, and that this kind of lock is the namespace's.
    pub async fn prepare(&self, client: &Client) -> Result<(), Fault> {
        if self.options.has_several_hosts() {
            self.is_of_one_cluster(client).await?;
        }
        if self.prepared.load(Ordering::Acquire) {
            return Ok(());
        }
        let home = match &self.options.shedlock {
            None => self.agreed(client).await.map(Some),
            Some(table) => shedlock::check(client, table).await.map(|()| None),
        };
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = home.map_err(Fault::into_unsent)?;
        self.prepared.store(true, Ordering::Release);
        Ok(())
    }

    /// Of several hosts each that takes writes would do; so they have to be copies of one another.
    async fn is_of_one_cluster(&self, client: &Client) -> Result<(), Fault> {
        let Some(own) = Identity::of(client).await else { return Ok(()) };
        let known = self.cluster.get_or_try_init(|| hosts::agreed(&self.options, &own)).await?;
        if **known == own.cluster { Ok(()) } else { Err(hosts::of_several(&self.options)) }
    }

    /// Which tables they are. What can't be made is an error to who misses it, and not to all who come after that.
    async fn agreed(&self, client: &Client) -> Result<String, Fault> {
        if !self.lacks.swap(false, Ordering::AcqRel) {
            match self.made(client, Making::Newer).await {
                Err(fault) if fault.is_of_missing_tables() => {}
                made => return made,
            }
        }
        self.made(client, Making::Missing).await
    }

    async fn made(&self, client: &Client, making: Making) -> Result<String, Fault> {
        let home = schema::prepare(client, &self.options, making).await?;
        advisory::agree(client, &self.options).await.map(|()| home)
    }

    /// Makes all that is missing, the schema as well.
    pub async fn migrate(&self) -> Result<(), Fault> {
        let (client, unasked) = self.connect("migrate").await?;
        tokio::spawn(drain(unasked));
        let made = async {
            if self.options.has_several_hosts() {
                self.is_of_one_cluster(&client).await?;
            }
            match &self.options.shedlock {
                None => schema::prepare(&client, &self.options, Making::All).await.map(drop),
                Some(table) => shedlock::check(&client, table).await,
            }
        };
        tokio::time::timeout(UNTIL_READY, made).await.map_err(|_| unready())?
    }
}

fn unready() -> Fault {
    Fault::Unsent(ErrorKind::TimedOut, format!("its tables were not ready within {UNTIL_READY:?}"))
}

/// For how long a session has been asked without an answer. Answers come in the order of what was asked, so each says
/// that of the earlier ones, too, which somebody may have given up.
#[derive(Default)]
struct Silence {
    asked: u64,
    answered: u64,
    since: Option<Instant>,
}

impl Silence {
    fn asked(&mut self) -> u64 {
        self.asked += 1;
        self.since.get_or_insert_with(Instant::now);
        self.asked
    }

    fn answered(&mut self, nth: u64) {
        self.answered = self.answered.max(nth);
        self.since = (self.answered < self.asked).then(Instant::now);
    }

    fn is_none(&self) -> bool {
        self.since.is_none()
    }

    fn is_too_long(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= SILENCE)
    }
}

/// Whether an answer is to this question.
fn is_to(question: i64, rows: &[Row]) -> bool {
    let last = |row: &Row| row.try_get(row.len().checked_sub(1)?).ok();
    rows.first().and_then(last) == Some(question)
}

impl Link {
    /// A link that connects when it is first used.
    pub fn new(server: Arc<Server>, what_for: &'static str) -> Self {
        Self { server, what_for, live: Mutex::default(), connecting: Arc::default() }
    }

    /// Runs a statement, and reads all its rows. Once more where it is certain that nothing was done.
    ///
    /// The last parameter of the statement is a number of ours, which is to be in the last column of what it answers, and that
    /// has a row: a pooler may give this question the answer to somebody's who is gone, and it might say of a lock that it was
    /// granted.
    pub async fn call(self: &Arc<Self>, statement: &str, given: &[Given<'_>]) -> Result<Vec<Row>, Fault> {
        match self.once(statement, given).await {
            Err(fault) if fault.is_worth_another_try() => self.once(statement, given).await,
            answer => answer,
        }
    }

    /// The same, where there is one row.
    pub async fn call_for_one(self: &Arc<Self>, statement: &str, given: &[Given<'_>]) -> Result<Row, Fault> {
        let rows = self.call(statement, given).await?;
        rows.into_iter().next().ok_or_else(|| Fault::Unsent(ErrorKind::Internal, "it answered nothing".to_owned()))
    }

    /// What the server's clock shows. A standby's doesn't count, and the link to it is given up: another host may be the
    /// primary by now.
    pub async fn time(self: &Arc<Self>) -> Result<Duration, Fault> {
        let row = self.call_for_one(&format!("{TIME}, $1::bigint"), &[]).await?;
        if row.try_get(1)? {
            if let Some(live) = self.current() {
                live.broken.store(true, Ordering::Release);
            }
            return Err(Fault::of_a_standby());
        }
        Ok(sql::span(row.try_get(0)?))
    }

    /// Asks what decides nothing over the connection, if that is there and nobody waits for an answer. Who asks for a lock meanwhile
    /// doesn't wait for it, but gets another connection.
    pub async fn call_while_it_rests(&self, statement: &str, given: &[Given<'_>]) -> Option<Result<Vec<Row>, Fault>> {
        let (live, nth) = {
            let held = self.held();
            let live = held.as_ref().filter(|live| live.is_good() && live.silence().is_none())?;
            live.is_lent.store(true, Ordering::Release);
            (Arc::clone(live), live.silence().asked())
        };
        let answer = self.asked(&live, nth, statement, given).await;
        live.is_lent.store(false, Ordering::Release);
        Some(answer)
    }

    async fn once(self: &Arc<Self>, statement: &str, given: &[Given<'_>]) -> Result<Vec<Row>, Fault> {
        let (live, nth) = self.live().await?;
        self.asked(&live, nth, statement, given).await
    }

    async fn asked(&self, live: &Live, nth: u64, statement: &str, given: &[Given<'_>]) -> Result<Vec<Row>, Fault> {
        let question = rand::random::<i64>();
        let given: Vec<Given<'_>> = given.iter().cloned().chain([(&question as _, Type::INT8)]).collect();
        // Unnamed: behind a pooler the next statement may go to a server that knows no other.
        let answer = live.client.query_typed(statement, &given).await.map_err(Fault::Sent);
        live.silence().answered(nth);
        let answer = answer.and_then(|rows| if is_to(question, &rows) { Ok(rows) } else { Err(Fault::AnothersAnswer) });
        if let Err(fault) = &answer
            && fault.breaks()
        {
            live.broken.store(true, Ordering::Release);
            if fault.is_of_missing_tables() {
                self.server.has_lost_tables();
            }
        }
        answer
    }

    /// One that is there, and which question of it comes next. A new one is made in a task of its own: a call that is given up
    /// meanwhile, as those of short leases are soon, leaves a connection to the next one.
    async fn live(self: &Arc<Self>) -> Result<(Arc<Live>, u64), Fault> {
        loop {
            if let Some(turn) = self.turn() {
                return Ok(turn);
            }
            let first = Arc::clone(&self.connecting).lock_owned().await;
            if let Some(turn) = self.turn() {
                return Ok(turn);
            }
            let link = Arc::clone(self);
            let made = tokio::spawn(async move {
                let _first = first;
                link.connect().await
            });
            made.await.unwrap_or_else(|error| Err(Fault::Unsent(ErrorKind::Internal, error.to_string())))?;
        }
    }

    async fn connect(&self) -> Result<(), Fault> {
        let (client, unasked) = self.server.connect(self.what_for).await?;
        tokio::spawn(drain(unasked));
        tokio::time::timeout(UNTIL_READY, self.server.prepare(&client)).await.map_err(|_| unready())??;
        *self.held() = Some(Arc::new(Live::new(client)));
        Ok(())
    }

    /// The next turn, if the connection is of use. Nobody can lend it in between.
    fn turn(&self) -> Option<(Arc<Live>, u64)> {
        let held = self.held();
        let live = held.as_ref().filter(|live| live.is_good() && !live.is_lent.load(Ordering::Acquire))?;
        Some((Arc::clone(live), live.silence().asked()))
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Option<Arc<Live>> {
        self.held().as_ref().filter(|live| live.is_good()).cloned()
    }
}

impl Live {
    fn new(client: Client) -> Self {
        Self { client, broken: AtomicBool::default(), is_lent: AtomicBool::default(), silence: Mutex::default() }
    }

    fn is_good(&self) -> bool {
        !self.broken.load(Ordering::Acquire) && !self.client.is_closed() && !self.silence().is_too_long()
    }

    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
