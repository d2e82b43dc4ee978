//! Who asks the server: a task that owns a connection, so that no answer is ever left half-read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::call::{Call, Rows};
use super::fault::Fault;
use super::options::Options;
use super::schema::Making;
use super::session::{Identity, Session};

/// What is not used for so long is closed, before the server does it.
const IDLE: Duration = Duration::from_secs(300);

/// One connection, made when it is needed, over which one call goes after the other.
pub(super) struct Lane {
    site: Arc<Site>,
    owner: Mutex<Option<Orders>>,
}

/// The way to the task that owns a connection.
struct Orders {
    to: UnboundedSender<Order>,
    /// Has a session, and waits.
    rests: Arc<AtomicBool>,
    /// Each order that is not done has its part of it.
    under_way: Arc<()>,
}

/// Where the server is, for all lanes of a store.
pub(super) struct Site {
    pub options: Options,
    /// Which tables were there when they were last looked at.
    pub home: Mutex<Option<String>>,
    /// Whether it was seen to take writes.
    pub has_led: AtomicBool,
}

impl Site {
    pub fn of(options: Options) -> Self {
        Self { options, home: Mutex::default(), has_led: AtomicBool::default() }
    }
}

struct Order {
    call: Call,
    answer: oneshot::Sender<Result<Rows, Fault>>,
    _under_way: Arc<()>,
}

impl Orders {
    fn to_a_new_owner(site: &Arc<Site>) -> Self {
        let (to, taken) = unbounded_channel();
        let rests = Arc::<AtomicBool>::default();
        tokio::spawn(Owner::new(Arc::clone(site), Arc::clone(&rests)).serve(taken));
        Self { to, rests, under_way: Arc::default() }
    }

    /// Whether there is a connection, and nothing was asked that is not answered.
    fn rest(&self) -> bool {
        self.rests.load(Ordering::Relaxed) && Arc::strong_count(&self.under_way) == 1
    }

    /// Where the answer will be; the call itself if the runtime has ended on which its owner lived.
    fn give(&self, call: Call) -> Result<oneshot::Receiver<Result<Rows, Fault>>, Call> {
        let (answer, answered) = oneshot::channel();
        let order = Order { call, answer, _under_way: Arc::clone(&self.under_way) };
        self.to.send(order).map(|()| answered).map_err(|refused| refused.0.call)
    }
}

impl Lane {
    pub fn new(site: Arc<Site>) -> Self {
        Self { site, owner: Mutex::default() }
    }

    /// Asks what decides nothing over the connection, if that rests; else the call comes back. Who asks for a lock meanwhile doesn't
    /// wait for it, but gets another connection.
    pub async fn ask_while_it_rests(&self, call: Call) -> Result<Result<Rows, Fault>, Call> {
        let lent = self.owner().take_if(|orders| orders.rest());
        let Some(orders) = lent else { return Err(call) };
        let answer = orders.give(call)?.await.unwrap_or(Err(Fault::Abandoned));
        self.owner().get_or_insert(orders); // Given back, unless there is another by now: then this one is closed.
        Ok(answer)
    }

    /// Asks, behind all that was asked before. Dropped before it was sent it isn't; later it is, and what is asked next
    /// comes after it.
    pub async fn ask(&self, call: Call) -> Result<Rows, Fault> {
        self.give(call).await.unwrap_or(Err(Fault::Abandoned))
    }

    fn give(&self, call: Call) -> oneshot::Receiver<Result<Rows, Fault>> {
        let mut owner = self.owner();
        let given = owner.get_or_insert_with(|| Orders::to_a_new_owner(&self.site)).give(call);
        given.unwrap_or_else(|refused| {
            let orders = owner.insert(Orders::to_a_new_owner(&self.site));
            orders.give(refused).unwrap_or_else(|_| oneshot::channel().1) // Its receiver was just moved into the task.
        })
    }

    fn owner(&self) -> MutexGuard<'_, Option<Orders>> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Owner {
    site: Arc<Site>,
    session: Option<Session>,
    /// A session that was asked something and did not answer: it may still be at it.
    given_up: Option<Identity>,
    /// Tables or procedures are missing, whatever their version says.
    lacks: bool,
    /// Has a session, and nothing to ask.
    rests: Arc<AtomicBool>,
}

impl Owner {
    fn new(site: Arc<Site>, rests: Arc<AtomicBool>) -> Self {
        Self { site, session: None, given_up: None, lacks: false, rests }
    }

    async fn serve(mut self, mut orders: UnboundedReceiver<Order>) {
        while let Some(order) = self.next(&mut orders).await {
            if order.answer.is_closed() {
                continue; // Who asked has gone, and nothing was sent.
            }
            let session = match self.session().await {
                Ok(session) => session,
                Err(fault) => {
                    // Whoever waits behind it would only wait for the same.
                    while let Ok(order) = orders.try_recv() {
                        let _ = order.answer.send(Err(fault.again()));
                    }
                    let _ = order.answer.send(Err(fault));
                    continue;
                }
            };
            if order.answer.is_closed() {
                self.session = Some(session); // Who could not wait for the login finds it done the next time.
                continue;
            }
            let mut answer = self.asked(session, order.call.clone()).await;
            if self.lacks && answer.as_ref().is_err_and(Fault::is_of_missing_tables) {
                // A new session makes what is missing.
                answer = match self.session().await {
                    Ok(session) => self.asked(session, order.call).await,
                    Err(fault) => Err(fault),
                };
            }
            let _ = order.answer.send(answer); // Who asked may have gone.
        }
        if let Some(session) = self.session {
            session.close().await;
        }
    }

    /// Asks over a session, and keeps it if it is of use.
    async fn asked(&mut self, mut session: Session, call: Call) -> Result<Rows, Fault> {
        let mut answer = session.run(call.clone()).await;
        if answer.as_ref().is_err_and(Fault::is_collision) {
            answer = session.run(call).await; // It was taken back as a whole.
        }
        match &answer {
            Err(fault) if fault.breaks() => {
                self.given_up = fault.leaves_it_open().then(|| session.identity());
                self.lacks = fault.is_of_missing_tables();
            }
            _ => self.session = Some(session),
        }
        answer
    }

    async fn next(&mut self, orders: &mut UnboundedReceiver<Order>) -> Option<Order> {
        if self.session.is_some() {
            self.rests.store(true, Ordering::Relaxed);
            let order = tokio::time::timeout(IDLE, orders.recv()).await;
            self.rests.store(false, Ordering::Relaxed);
            match order {
                Ok(order) => return order,
                Err(_) => {
                    if let Some(session) = self.session.take() {
                        session.close().await;
                    }
                }
            }
        }
        orders.recv().await
    }

    /// One that is there, as far as can be known.
    async fn session(&mut self) -> Result<Session, Fault> {
        if let Some(mut session) = self.session.take()
            && session.is_fit().await
        {
            return Ok(session);
        }
        // What can't be made is an error to who misses it, and not to all who come after that.
        let making = if std::mem::take(&mut self.lacks) { Making::Missing } else { Making::Newer };
        let session = Session::open(&self.site, self.given_up.as_ref(), making).await?;
        *self.site.home.lock().unwrap_or_else(PoisonError::into_inner) = session.home.clone();
        self.given_up = None;
        Ok(session)
    }
}
