//! Who asks the server: a task that owns a connection, so that no answer is ever left half-read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    owner: Mutex<Option<UnboundedSender<Order>>>,
    rests: Arc<AtomicBool>,
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
}

impl Lane {
    pub fn new(site: Arc<Site>) -> Self {
        Self { site, owner: Mutex::default(), rests: Arc::default() }
    }

    /// Whether it is connected, and nothing was asked that is not answered.
    pub fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }

    /// Asks, behind all that was asked before. Dropped before it was sent it isn't; later it is, and what is asked next
    /// comes after it.
    pub async fn ask(&self, call: Call) -> Result<Rows, Fault> {
        let (answer, answered) = oneshot::channel();
        self.give(Order { call, answer });
        answered.await.unwrap_or(Err(Fault::Abandoned))
    }

    fn give(&self, order: Order) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = match owner.as_ref() {
            Some(orders) => match orders.send(order) {
                Ok(()) => return,
                // The runtime that it lived on has ended.
                Err(refused) => refused.0,
            },
            None => order,
        };
        let (orders, taken) = unbounded_channel();
        tokio::spawn(Owner::new(Arc::clone(&self.site), Arc::clone(&self.rests)).serve(taken));
        let _ = orders.send(refused); // Its receiver was just moved into the task.
        *owner = Some(orders);
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
