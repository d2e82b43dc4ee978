//! Runs that fail while their transaction is open still, as after a commit that was sent and not answered: it is found out, not
//! guessed.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::Locks;
use leasehold_schedule::{Failure, How, Job, Retries, Run};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::Postgres;
use tokio_postgres::{Client, NoTls, Transaction, connect};

use crate::billing::INVOICES;
use crate::stage::{Act, CUSTOMERS, SOON};

/// A transaction that has completed its tick, and of which its job knows nothing any more.
type Abandoned = Arc<Mutex<Option<Transaction<'static>>>>;

struct Scene {
    server: Postgres,
    act: Act,
    done: Arc<AtomicUsize>,
    abandoned: Abandoned,
}

impl Scene {
    fn new() -> Self {
        let server = Postgres::start();
        server.sql(INVOICES);
        Self { server, act: Act::new("billing"), done: Arc::default(), abandoned: Abandoned::default() }
    }

    /// It fails before the commit is answered the first time, and commits the next time.
    fn job(&self) -> Job {
        let (url, done, abandoned) = (self.server.url(), Arc::clone(&self.done), Arc::clone(&self.abandoned));
        let job = Job::new(&self.act.name, self.act.schedule(), move |run| {
            let (url, abandoned) = (url.clone(), Arc::clone(&abandoned));
            let is_first = done.fetch_add(1, SeqCst) == 0;
            Box::pin(async move {
                let tx = billed(run, &url).await?;
                if is_first {
                    *abandoned.lock().unwrap() = Some(tx);
                    return Err("the commit was not answered".into());
                }
                Ok(tx.commit().await?)
            })
        });
        job.at_least_once(true).ttl(Duration::from_secs(5))
    }

    async fn abandoned(&self) -> Transaction<'static> {
        eventually_async("the job has failed", SOON, async || self.abandoned.lock().unwrap().is_some()).await;
        self.abandoned.lock().unwrap().take().unwrap()
    }

    async fn locks(&self) -> Locks {
        Locks::connect(&self.server.url()).await.unwrap()
    }

    async fn ends(&self, job: Job) -> How {
        self.act.make_known(&self.server.url(), job.clone()).await;
        self.act.ends(self.locks().await, job).await
    }

    fn invoices(&self) -> Vec<String> {
        let found = self.server.sql("select customer from invoice order by 1");
        found.lines().map(str::to_owned).collect()
    }
}

async fn billed(run: &Run, url: &str) -> Result<Transaction<'static>, Failure> {
    let (client, connection) = connect(url, NoTls).await?;
    tokio::spawn(connection);
    // For as long as the test lasts: nobody ends it.
    let client: &'static mut Client = Box::leak(Box::new(client));
    let tx = client.transaction().await?;
    drop(run.complete_in(&tx).await?);
    for customer in CUSTOMERS {
        tx.execute("insert into invoice(job, customer) values($1, $2)", &[&run.job(), &customer]).await?;
    }
    Ok(tx)
}

#[tokio::test]
async fn a_run_that_has_failed_waits_for_its_transaction_to_end() {
    for commits in [true, false] {
        let scene = Scene::new();
        let locks = scene.locks().await;
        let end = async {
            let tx = scene.abandoned().await;
            // It has given the lock back by then, and asks for it.
            eventually_async("nobody holds it", SOON, async || {
                locks.inspect("billing").await.unwrap().is_none_or(|holding| holding.holder.is_none())
            })
            .await;
            assert!(!scene.act.is_over(&locks).await, "it isn't given up");
            if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        };
        let (_, how) = tokio::join!(end, scene.ends(scene.job()));
        let failed = || How::Failed("the commit was not answered".into());
        assert_eq!(how, if commits { How::Done } else { failed() });
        assert_eq!(scene.invoices().len(), if commits { CUSTOMERS.len() } else { 0 });
        assert!(scene.act.is_over(&locks).await);
        assert_eq!(scene.done.load(SeqCst), 1);
        assert_eq!(scene.server.errors(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_run_that_is_tried_again_waits_for_the_transaction_before() {
    for commits in [true, false] {
        let scene = Scene::new();
        let end = async {
            let tx = scene.abandoned().await;
            eventually_async("the next one waits for it", SOON, async || {
                scene.server.sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == "1"
            })
            .await;
            if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        };
        let retries = Retries { most: 1, first: Duration::from_millis(1), longest: Duration::from_millis(1) };
        let (_, how) = tokio::join!(end, scene.ends(scene.job().retries(retries)));
        assert_eq!(how, How::Done, "by the first or by the second");
        assert_eq!(scene.invoices(), CUSTOMERS);
        assert_eq!(scene.done.load(SeqCst), 2);
    }
}
