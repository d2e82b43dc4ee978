//! How a run has ended whose job completed its tick in a transaction, and then did something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use leasehold::stores::sqlite::Sqlite;
use leasehold::{Locks, LossReason, Revoke};
use leasehold_schedule::{Event, Failure, How, Job, Ledger, Record, Retries, Run, State};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::{Faulty, Operation};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use crate::sqlite::File;
use crate::stage::{Act, CUSTOMERS, SOON, Stage, block_on};

const RETRIES: Retries = Retries { most: 3, first: Duration::from_millis(1), longest: Duration::from_millis(1) };

/// A file, a job in it, and how often that was done.
struct Scene {
    file: File,
    act: Act,
    done: Arc<AtomicUsize>,
}

impl Scene {
    async fn new() -> Self {
        Self { file: File::made().await, act: Act::new("billing"), done: Arc::default() }
    }

    async fn locks(&self) -> Locks {
        Locks::connect(&self.file.url()).await.unwrap()
    }

    /// Writes invoices and completes its tick, and then does this, the number of the attempt known.
    fn job<F>(&self, ends: F) -> Job
    where
        F: Fn(Transaction<'_>, usize) -> Result<(), Failure> + Clone + Send + Sync + 'static,
    {
        let (file, done) = (self.file.path(), Arc::clone(&self.done));
        Job::new(&self.act.name, self.act.schedule(), move |run| {
            let (file, nth, ends) = (file.clone(), done.fetch_add(1, SeqCst) + 1, ends.clone());
            Box::pin(async move { bill(run, &file, |tx| ends(tx, nth)) })
        })
    }

    /// How the job ends, and what stands in the ledger.
    async fn ends(&self, job: Job) -> (How, Record) {
        self.act.make_known(&self.file.url(), job.clone()).await;
        let how = self.act.ends(self.locks().await, job).await;
        (how, self.record().await)
    }

    async fn record(&self) -> Record {
        let locks = self.locks().await;
        let newest = Ledger::of(&locks, &self.act.name).unwrap().newest(1).await.unwrap();
        newest.into_iter().next().expect("it was run")
    }

    fn done(&self) -> usize {
        self.done.load(SeqCst)
    }

    fn invoices(&self) -> Vec<String> {
        self.file.invoices(&self.act.name)
    }
}

fn bill(run: &Run, file: &str, ends: impl FnOnce(Transaction<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut database = Connection::open(file)?;
    let tx = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for customer in CUSTOMERS {
        tx.execute("insert into invoice(job, customer) values(?1, ?2)", [run.job(), customer])?;
    }
    // The fence keeps the guard only.
    drop(run.complete_in(&tx)?);
    ends(tx)
}

#[tokio::test]
async fn a_run_that_has_committed_is_done_although_it_fails_then() {
    for (at_least_once, panics) in [(true, false), (false, false), (true, true)] {
        let scene = Scene::new().await;
        let job = scene.job(move |tx, _| {
            tx.commit()?;
            assert!(!panics, "after the commit");
            Err("the mail could not be sent".into())
        });
        let (how, record) = scene.ends(job.at_least_once(at_least_once).retries(RETRIES)).await;
        assert_eq!((how, record.state, record.reason), (How::Done, State::Done, None));
        assert_eq!((scene.done(), scene.invoices()), (1, CUSTOMERS.map(str::to_owned).to_vec()));
        assert!(scene.act.is_over(&scene.locks().await).await);
    }
}

#[tokio::test]
async fn a_run_that_was_rolled_back_is_tried_again() {
    let scene = Scene::new().await;
    let job = scene.job(|tx, nth| match nth {
        1 => Err("nothing was committed".into()),
        _ => Ok(tx.commit()?),
    });
    let (how, record) = scene.ends(job.at_least_once(true).retries(RETRIES)).await;
    assert_eq!((how, record.state, record.attempts), (How::Done, State::Done, 2));
    assert_eq!((scene.done(), scene.invoices()), (2, CUSTOMERS.map(str::to_owned).to_vec()));
}

#[tokio::test]
async fn a_run_that_fails_for_good_has_failed_if_it_was_rolled_back() {
    for at_least_once in [true, false] {
        let scene = Scene::new().await;
        let job = scene.job(|_, _| Err("nothing was committed".into()));
        let (how, record) = scene.ends(job.at_least_once(at_least_once)).await;
        assert_eq!((how, record.state), (How::Failed("nothing was committed".into()), State::Failed));
        assert_eq!((scene.done(), scene.invoices()), (1, Vec::new()));
        assert!(scene.act.is_over(&scene.locks().await).await, "and nobody does it again");
    }
}

#[tokio::test]
async fn a_run_that_loses_its_lock_after_the_commit_is_done_and_before_it_is_lost() {
    for commits in [true, false] {
        let scene = Scene::new().await;
        let (file, done) = (scene.file.path(), Arc::clone(&scene.done));
        let job = Job::new(&scene.act.name, scene.act.schedule(), move |run| {
            let (file, done) = (file.clone(), Arc::clone(&done));
            Box::pin(async move {
                bill(run, &file, |tx| if commits { Ok(tx.commit()?) } else { Ok(tx.rollback()?) })?;
                done.fetch_add(1, SeqCst);
                std::future::pending().await
            })
        });
        let locks = scene.locks().await;
        let cut = async {
            eventually_async("it hangs", SOON, async || scene.done() == 1).await;
            locks.revoke(&scene.act.name, Revoke::Now).await.unwrap();
        };
        let (_, (how, record)) = tokio::join!(cut, scene.ends(job.at_least_once(true).ttl(Duration::from_secs(6))));
        let (expected, state) =
            if commits { (How::Done, State::Done) } else { (How::Lost(LossReason::Gone), State::Lost) };
        assert_eq!((how, record.state), (expected, state));
        assert_eq!(scene.act.is_over(&locks).await, commits, "what is lost another node begins again");
    }
}

/// The other node finds the tick closed and its lock held: no other end of a run leaves it so.
#[test]
fn a_run_whose_node_dies_after_the_commit_is_recorded_as_done_by_another() {
    let scene = block_on(Scene::new());
    let job = scene.job(|tx, _| Ok(tx.commit()?)).at_least_once(true);
    let (url, file) = (scene.file.url(), scene.file.path());
    let stage = Stage { store: url.clone(), job: &|_, _| job.clone(), invoices: &|name| scene.file.invoices(name) };
    // It holds the lock until it is killed.
    let ttl = Duration::from_secs(6);
    let mut worker = stage.begin_for(ttl, &scene.act, "sqlite", &[("DATABASE", &file), ("STOP", "7")]);
    worker.hear("stopped", SOON);
    block_on(async {
        let faulty = Faulty::over(Arc::new(Sqlite::open(&url).unwrap()));
        let faults = faulty.faults();
        let (stop, stopped) = oneshot::channel::<()>();
        let ignore = |_: &Event<'_>| ();
        let node = scene.act.node(Locks::over(Arc::new(faulty)), job.clone(), ignore, async { drop(stopped.await) });
        let wait = async {
            eventually_async("it looks who holds it", SOON, async || faults.calls(Operation::Inspect) > 1).await;
            assert_eq!(scene.record().await.state, State::Running);
            worker.kill();
            eventually_async("it is written down", SOON, async || scene.record().await.state == State::Done).await;
            drop(stop);
        };
        tokio::join!(node, wait);
        let reason = scene.record().await.reason.unwrap();
        assert!(reason.contains("its node has ended"), "{reason}");
    });
    assert_eq!((scene.done(), scene.invoices()), (0, CUSTOMERS.map(str::to_owned).to_vec()));
}
