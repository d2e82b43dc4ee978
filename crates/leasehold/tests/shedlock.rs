//! ShedLock's table, beside workers that send what its JDBC provider sends, on real servers. The numbers are those of the
//! fault of another system that the test was made of.
#![cfg(all(feature = "postgres", feature = "mysql"))]

use std::time::Duration;

use leasehold::{
    Attempt, Claim, Due, Ended, ErrorKind, Guard, HolderId, Holding, LockName, Locks, Outcome, Release, Released,
    Renewal, Revoke, Severity, Store, Tick, Wait,
};
use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::{MariaDb, MariaDbOptions, PgBouncer, PoolMode, Postgres, PostgresOptions};

mod peers;
use peers::Peer;

mod claims;
use claims::{SOON, lease};

const LONG: Duration = Duration::from_secs(60);

/// How many rounds each side has at least, when both want the lock all the time.
const ROUNDS: usize = 50;

/// The workers' way in.
#[test]
fn worker() {
    peers::worker::serve();
}

/// A server of either kind.
enum Database {
    Postgres(Postgres),
    MariaDb(MariaDb),
}

impl Database {
    /// With the table, as ShedLock's documentation has it.
    fn with_table(self) -> Self {
        self.sql(match self {
            Self::Postgres(_) => {
                "create table shedlock(name varchar(64) not null, lock_until timestamp not null, \
                 locked_at timestamp not null, locked_by varchar(255) not null, primary key (name))"
            }
            Self::MariaDb(_) => {
                "create table shedlock(name varchar(64) not null, lock_until timestamp(3) not null, \
                 locked_at timestamp(3) not null default current_timestamp(3), locked_by varchar(255) not null, \
                 primary key (name))"
            }
        });
        self
    }

    fn sql(&self, statements: &str) -> String {
        match self {
            Self::Postgres(server) => server.sql(statements),
            Self::MariaDb(server) => server.sql(&format!("use jobs; {statements}")),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Postgres(server) => server.url(),
            Self::MariaDb(server) => server.url(),
        }
    }

    fn compat(&self) -> String {
        format!("{}?compat=shedlock", self.url())
    }

    /// One of theirs.
    fn peer(&self) -> Peer {
        Peer::start("shedlock", &self.url())
    }

    async fn locks(&self) -> Locks {
        Locks::connect(&self.compat()).await.unwrap()
    }

    fn store(&self) -> std::sync::Arc<dyn Store> {
        leasehold::stores::open(&self.compat()).unwrap()
    }

    /// Now, as it stands in the table.
    fn now(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "timezone('utc', current_timestamp)",
            Self::MariaDb(_) => "utc_timestamp(3)",
        }
    }

    /// So long from now, as it stands in the table.
    fn after(&self, seconds: i64) -> String {
        match self {
            Self::Postgres(_) => format!("{} + interval '1 second' * {seconds}", self.now()),
            Self::MariaDb(_) => format!("{} + interval {seconds} second", self.now()),
        }
    }

    /// As if its time were over.
    fn end(&self, name: &str) {
        self.sql(&format!("update shedlock set lock_until = {} where name = '{name}'", self.after(-1)));
    }

    /// So that it ends soon unless it is extended.
    fn shorten(&self, name: &str) {
        self.sql(&format!("update shedlock set lock_until = {} where name = '{name}'", self.after(1)));
    }

    fn locked_by(&self, name: &str) -> String {
        self.sql(&format!("select locked_by from shedlock where name = '{name}'"))
    }

    /// How many rows there are, and how many are not over.
    fn rows(&self) -> (usize, usize) {
        let held = format!("select count(*) from shedlock where lock_until > {}", self.now());
        (self.sql("select count(*) from shedlock").parse().unwrap(), self.sql(&held).parse().unwrap())
    }
}

async fn acquired(locks: &Locks, name: &str) -> Guard {
    match locks.lock(name).ttl(LONG).try_acquire().await.unwrap() {
        Outcome::Acquired(guard) => guard,
        other => panic!("not granted: {other:?}"),
    }
}

async fn refused(locks: &Locks, name: &str) -> Holding {
    match locks.lock(name).ttl(LONG).try_acquire().await.unwrap() {
        Outcome::Contended(holding) => holding,
        other => panic!("not refused: {other:?}"),
    }
}

fn claim(name: &str, ttl: Duration) -> Claim {
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "host/1/test".into(), ttl)
}

async fn granted(store: &dyn Store, claim: &Claim) -> u64 {
    match store.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => grant.token.number(),
        other => panic!("not granted: {other:?}"),
    }
}

async fn released(store: &dyn Store, claim: &Claim) {
    assert_eq!(store.release(&lease(claim), Ended::default()).await.unwrap(), Release::Released);
}

/// Two of each side, all of them wanting the lock all the time.
fn many_rounds(database: &Database) {
    let directory = tempfile::tempdir().unwrap();
    let mut workers = vec![database.peer(), database.peer()];
    workers.extend([(); 2].map(|()| Peer::start("leasehold", &database.compat())));
    for worker in &mut workers {
        worker.asked(&format!("rounds job {ROUNDS} {}", directory.path().display()));
    }
    for worker in &mut workers {
        assert_eq!(worker.answers(), "done");
    }
    let order = std::fs::read_to_string(directory.path().join("order")).unwrap();
    let order: Vec<_> = order.lines().collect();
    let turns = order.windows(2).filter(|two| two[0] != two[1]).count();
    let ours = order.iter().filter(|side| **side == "ours").count();
    println!("{ours} rounds of ours, {} of theirs, {turns} turns", order.len() - ours);
    assert!(turns >= ROUNDS / 20, "they took turns {turns} times in {} rounds", order.len());
    eventually("the row is left, and free", SOON, || database.rows() == (1, 0));
}

async fn each_keeps_the_other_out(database: &Database) {
    let (mut peer, locks, store) = (database.peer(), database.locks().await, database.store());
    assert!(peer.acquires("theirs", LONG));
    database.shorten("theirs");
    assert!(peer.extends(LONG));
    let ours = claim("ours", LONG);
    granted(&*store, &ours).await;
    database.shorten("ours");
    assert!(matches!(store.renew(&[(lease(&ours), LONG)]).await[..], [Ok(Renewal::Renewed)]));

    tokio::time::sleep(Duration::from_millis(1100)).await; // past the end that both would have had
    let holding = refused(&locks, "theirs").await;
    assert!(holding.label.starts_with("foreign: ShedLock ") && holding.remaining > LONG / 2, "{holding:?}");
    assert!(holding.held_for > Duration::from_secs(1) && holding.held_for < LONG / 2, "{holding:?}");
    assert_eq!(holding.library, Some("ShedLock"));
    let listed = locks.list().await.unwrap();
    assert_eq!(listed.iter().map(|holding| holding.name.as_str()).collect::<Vec<_>>(), ["ours", "theirs"]);
    assert!(peer.releases());
    assert!(!peer.acquires("ours", LONG));
    assert_eq!(store.release(&lease(&ours), Ended::default()).await.unwrap(), Release::Released);
    assert!(peer.acquires("ours", LONG) && peer.releases());
    assert_eq!(database.rows(), (2, 0));
}

async fn nobody_ends_what_is_anothers(database: &Database) {
    let (mut peer, locks) = (database.peer(), database.locks().await);
    assert!(peer.acquires("job", LONG));
    database.end("job");
    let guard = acquired(&locks, "job").await;
    assert!(!peer.extends(LONG) && !peer.releases());
    assert!(database.locked_by("job").ends_with(&format!(":{}", guard.holder())));

    database.end("job");
    assert!(peer.acquires("job", LONG));
    assert_eq!(guard.release().await.unwrap(), Released::TooLate);
    assert!(peer.extends(LONG));

    // An operator of ours ends theirs.
    let error = locks.revoke("job", Revoke::Gently).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("--now"), "{error}");
    let hit = locks.revoke("job", Revoke::Now).await.unwrap().unwrap();
    assert!(hit.label.starts_with("foreign: ShedLock "), "{hit:?}");
    assert!(!peer.extends(LONG));
    let guard = acquired(&locks, "job").await;
    assert!(!peer.releases() && guard.is_valid());
    guard.release().await.unwrap();
    assert_eq!(database.rows(), (1, 0));
}

/// Nobody is woken: who waits looks.
async fn who_waits_gets_it(database: &Database) {
    let (mut peer, locks) = (database.peer(), database.locks().await);
    assert!(peer.acquires("theirs", LONG));
    let waits = locks.lock("theirs").ttl(LONG).wait(Wait::For(SOON));
    let waits = tokio::spawn(async move { waits.acquire().await.unwrap().guard() });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waits.is_finished() && peer.releases());
    let guard = waits.await.unwrap().expect("its turn comes");
    peer.waits("theirs", LONG, SOON);
    guard.release().await.unwrap();
    assert_eq!(peer.answers(), "yes");
}

/// ShedLock's `lockAtLeastFor`: the row says so, and nothing ends it.
async fn a_minimum_hold_keeps_everybody_out(database: &Database) {
    let (mut peer, locks, store) = (database.peer(), database.locks().await, database.store());
    let ours = claim("kept", LONG);
    let token = granted(&*store, &ours).await;
    let how = Ended { keep_for: LONG / 2, ..Ended::default() };
    assert_eq!(store.release(&lease(&ours), how).await.unwrap(), Release::Released);
    assert_eq!(database.locked_by("kept"), "host/1/test:kept");
    assert!(!peer.acquires("kept", LONG));
    let holding = refused(&locks, "kept").await;
    assert_eq!((holding.holder, holding.token.number(), holding.label.as_str()), (None, token, "host/1/test"));
    assert!(holding.remaining > LONG / 4 && holding.remaining <= LONG / 2 + SOON / 20, "{holding:?}");
    assert!(matches!(store.renew(&[(lease(&ours), LONG)]).await[..], [Ok(Renewal::Gone)]));
    assert_eq!(store.release(&lease(&ours), Ended::default()).await.unwrap(), Release::NotHeld);
    store.leave(&lease(&ours)).await.unwrap();
    assert!(matches!(store.try_acquire(&ours).await.unwrap(), Attempt::Held(_)));
    assert!(!peer.acquires("kept", LONG));
    database.end("kept");
    assert!(peer.acquires("kept", LONG));
}

/// What stands in a row after each step.
async fn rows_are_as_shedlock_writes_them(database: &Database) {
    let store = database.store();
    let ours = claim("golden", LONG);
    let token = granted(&*store, &ours).await;
    assert_eq!(database.locked_by("golden"), format!("host/1/test:{}", ours.holder));
    let is = |condition: &str| {
        let found = database.sql(&format!("select count(*) from shedlock where name = 'golden' and {condition}"));
        assert_eq!(found, "1", "{condition}: {}", database.sql("select * from shedlock"));
    };
    let millis = |instant: &str| match database {
        Database::Postgres(_) => format!("round(extract(epoch from {instant}) * 1000)"),
        Database::MariaDb(_) => format!("round(timestampdiff(microsecond, '1970-01-01', {instant}) / 1000)"),
    };
    let (at, until) = (millis("locked_at"), millis("lock_until"));
    is(&format!("{until} - {at} = {}", LONG.as_millis() + 1));
    is(&format!("{at} = {}", (token + 500) / 1000));
    is(&format!("abs({at} - {}) < 20000", millis(database.now())));
    assert_eq!(granted(&*store, &ours).await, token, "asked again");
    is(&format!("{until} - {at} >= {}", LONG.as_millis() + 1));
    released(&*store, &ours).await;
    is(&format!("{at} = {} and lock_until <= {} and lock_until >= locked_at", (token + 500) / 1000, database.now()));

    // In the same tick of the clock, too, the next is later.
    let mut last = token;
    for _ in 0..100 {
        let next = claim("golden", LONG);
        let token = granted(&*store, &next).await;
        assert!(token > last, "{token} after {last}");
        last = token;
        released(&*store, &next).await;
    }
    // A clock that was set back gives no older token.
    database.sql(&format!("update shedlock set locked_at = {} where name = 'golden'", database.after(60)));
    let ahead = granted(&*store, &claim("golden", LONG)).await;
    assert!(ahead > last + 59_000_000, "{ahead} after {last}");
    assert_eq!(database.rows().0, 1);
}

async fn what_has_no_place_is_refused(database: &Database) {
    let (locks, store) = (database.locks().await, database.store());
    let long = locks.lock(&"x".repeat(65)).try_acquire().await.unwrap_err();
    let many = locks.lock("pool").permits(3).try_acquire().await.unwrap_err();
    let due = Due { tick: Tick::ONLY, retry_failed: false, keep: LONG };
    let once = store.try_acquire(&Claim { due: Some(due), ..claim("once", LONG) }).await.unwrap_err();
    for (error, rule) in [(long, "room for 64"), (many, "ask for 1"), (once, "no place for")] {
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(rule), "{error}");
    }
    acquired(&locks, &"x".repeat(64)).await.release().await.unwrap();
}

async fn without_a_table_the_error_has_the_statement(database: Database) {
    let locks = database.locks().await;
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    let is_told = error.to_string().contains("create table if not exists") && error.to_string().contains("migrate");
    assert!(error.kind() == ErrorKind::Misconfigured && is_told, "{error}");
    database.sql(&leasehold::stores::migration(&database.compat()).unwrap().unwrap());
    let mut peer = database.peer();
    let guard = acquired(&locks, "job").await;
    assert!(!peer.acquires("job", LONG));
    guard.release().await.unwrap();
    assert!(peer.acquires("job", LONG));
    refused(&locks, "job").await;
    let findings = database.store().diagnose().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity != Severity::Problem), "{findings:?}");
    // Somebody takes it away meanwhile.
    database.sql("drop table shedlock");
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}

/// Services that write their own time: ahead is seen at once, behind while the doctor looks.
async fn other_clocks_are_told(database: &Database) {
    let locks = database.locks().await;
    let mut seoul = Peer::start("shedlock-seoul", &database.url());
    assert!(seoul.acquires("ahead", LONG));
    let error = locks.lock("ahead").try_acquire().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("usingDbTime"), "{error}");
    let problem = problem(database).await.expect("it is told");
    assert!(problem.contains("\"ahead\"") && problem.contains("539 min") || problem.contains("540 min"), "{problem}");
    database.sql("delete from shedlock"); // Nobody has them any more.

    assert_eq!(self::problem(database).await, None);
    let mut new_york = Peer::start("shedlock-new-york", &database.url());
    let directory = tempfile::tempdir().unwrap();
    new_york.asked(&format!("rounds behind {ROUNDS} {}", directory.path().display()));
    eventually("it works", SOON, || database.rows().0 == 1);
    let problem = self::problem(database).await.expect("it is told");
    assert!(problem.contains("\"behind\"") && problem.contains("written while it was watched"), "{problem}");
}

/// The problem with clocks that the doctor finds.
async fn problem(database: &Database) -> Option<String> {
    let findings = database.store().diagnose().await.unwrap();
    let mut problems = findings.into_iter().filter(|finding| finding.severity == Severity::Problem);
    problems.next().map(|problem| format!("{}: {}", problem.subject, problem.message))
}

macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod postgres {
            use super::*;

            fn server() -> Database {
                Database::Postgres(Postgres::start()).with_table()
            }

            #[test]
            fn many_rounds() {
                super::many_rounds(&server());
            }

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(&server()).await;
            })*

            #[tokio::test(flavor = "multi_thread")]
            async fn without_a_table_the_error_has_the_statement() {
                super::without_a_table_the_error_has_the_statement(Database::Postgres(Postgres::start())).await;
            }
        }

        mod mariadb {
            use super::*;

            fn server() -> Database {
                Database::MariaDb(MariaDb::start()).with_table()
            }

            #[test]
            fn many_rounds() {
                super::many_rounds(&server());
            }

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(&server()).await;
            })*

            #[tokio::test(flavor = "multi_thread")]
            async fn without_a_table_the_error_has_the_statement() {
                super::without_a_table_the_error_has_the_statement(Database::MariaDb(MariaDb::start())).await;
            }
        }
    };
}

on_both!(
    each_keeps_the_other_out,
    nobody_ends_what_is_anothers,
    who_waits_gets_it,
    a_minimum_hold_keeps_everybody_out,
    rows_are_as_shedlock_writes_them,
    what_has_no_place_is_refused,
    other_clocks_are_told,
);

/// What is sent of times is durations.
#[tokio::test(flavor = "multi_thread")]
async fn l01_no_clock_of_a_node_decides() {
    let postgres = Database::Postgres(Postgres::options().config("log_statement", "all").start()).with_table();
    let mariadb = Database::MariaDb(MariaDb::start()).with_table();
    let Database::MariaDb(server) = &mariadb else { unreachable!() };
    server.sql("set global log_output = 'TABLE', global general_log = 1");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
    for database in [&postgres, &mariadb] {
        let (locks, others) = (database.locks().await, database.locks().await);
        let guard = locks.lock("job").ttl(LONG / 20).try_acquire().await.unwrap().guard().unwrap();
        refused(&others, "job").await;
        tokio::time::sleep(LONG / 30).await; // renewed meanwhile
        guard.release().await.unwrap();
        let said = match database {
            Database::Postgres(server) => server.log(),
            Database::MariaDb(server) => {
                server.sql("select argument from mysql.general_log where command_type = 'Execute'")
            }
        };
        let said: String =
            said.lines().filter(|line| !line.contains("LOG:  execute") || line.contains("shedlock")).collect();
        assert!(said.contains("insert into") && said.contains("greatest(") && said.contains("job"), "{said}");
        for number in said.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u128>().ok()) {
            let is_instant = |unit: u128| number.abs_diff(now / unit) < 86_400_000_000 / unit;
            assert!(!is_instant(1) && !is_instant(1000) && !is_instant(1_000_000), "{number} in {said}");
        }
    }
}

/// Renewals go on by themselves: nobody else gets in, however long the work.
#[tokio::test(flavor = "multi_thread")]
async fn l07_work_that_is_longer_than_the_ttl_is_not_overlapped() {
    for database in [Database::Postgres(Postgres::start()), Database::MariaDb(MariaDb::start())] {
        let database = database.with_table();
        let (mut peer, locks) = (database.peer(), database.locks().await);
        let guard = locks.lock("job").ttl(LONG / 30).try_acquire().await.unwrap().guard().unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < LONG / 12 {
            assert!(!peer.acquires("job", LONG));
            tokio::time::sleep(LONG / 600).await;
        }
        assert!(guard.is_valid());
        assert_eq!(guard.release().await.unwrap(), Released::InTime);
        assert!(peer.acquires("job", LONG));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_may_stand_in_between() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(&server, PoolMode::Transaction);
    let database = Database::Postgres(server).with_table();
    let (mut peer, store) =
        (database.peer(), leasehold::stores::open(&format!("{}?compat=shedlock", pooler.url())).unwrap());
    let claims: Vec<_> = (0..20).map(|nth| claim(&format!("job-{nth}"), LONG)).collect();
    for claim in &claims {
        granted(&*store, claim).await;
    }
    assert!(!peer.acquires("job-7", LONG));
    let leases: Vec<_> = claims.iter().map(|claim| (lease(claim), LONG * 2)).collect();
    assert!(store.renew(&leases).await.iter().all(|renewal| matches!(renewal, Ok(Renewal::Renewed))));
    for claim in &claims {
        released(&*store, claim).await;
    }
    assert!(peer.acquires("job-7", LONG));
    assert_eq!(database.rows(), (20, 1));
}

/// Both sides in all pairs of time zones, new connections for each.
async fn exclusion_holds_in_all_zones(database: &Database, zones: [&str; 2], set: impl Fn(&str)) {
    for (ours, theirs) in [(0, 1), (1, 0), (1, 1)] {
        set(zones[ours]);
        let locks = database.locks().await;
        let guard = acquired(&locks, "ours").await;
        set(zones[theirs]);
        let mut peer = database.peer();
        assert!(!peer.acquires("ours", LONG), "{ours} {theirs}");
        assert!(peer.acquires("theirs", LONG), "{ours} {theirs}");
        let holding = refused(&locks, "theirs").await;
        assert!(holding.remaining <= LONG && holding.held_for < SOON, "{holding:?}");
        assert!(peer.releases() && guard.is_valid());
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l02_no_time_zone_has_a_say_in_postgres() {
    let options: PostgresOptions = Postgres::options().config("timezone", "America/New_York");
    let database = Database::Postgres(options.start()).with_table();
    let set = |zone: &str| drop(database.sql(&format!("alter role postgres set timezone = '{zone}'")));
    exclusion_holds_in_all_zones(&database, ["UTC", "Asia/Seoul"], set).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l02_no_time_zone_has_a_say_in_mariadb_if_the_columns_have_none() {
    let database = Database::MariaDb(MariaDb::start());
    database.sql(&leasehold::stores::migration(&database.compat()).unwrap().unwrap());
    let set = |zone: &str| drop(database.sql(&format!("set global time_zone = '{zone}'")));
    exclusion_holds_in_all_zones(&database, ["+00:00", "+09:00"], set).await;
}

/// ShedLock's own columns in MySQL are read in the zone of the session: it has to be everybody's, whichever it is.
#[tokio::test(flavor = "multi_thread")]
async fn l02_timestamps_of_mariadb_need_one_zone_for_all() {
    let options: MariaDbOptions = MariaDb::options().set("default-time-zone", "+09:00");
    let database = Database::MariaDb(options.start()).with_table();
    exclusion_holds_in_all_zones(&database, ["+09:00", "+09:00"], |_| {}).await;
    let findings = database.store().diagnose().await.unwrap();
    let warned = findings.iter().find(|finding| finding.subject == "time zone").unwrap();
    assert_eq!(warned.severity, Severity::Warning, "{warned:?}");
    let locks = database.locks().await;
    acquired(&locks, "job").await.release().await.unwrap();
    database.sql("set global time_zone = '+00:00'");
    assert!(database.peer().acquires("job", LONG));
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}

/// Instants with a time zone are another's in another session.
#[tokio::test(flavor = "multi_thread")]
async fn instants_with_a_time_zone_are_refused_in_postgres() {
    let database = Database::Postgres(Postgres::start()).with_table();
    database.sql("alter table shedlock alter lock_until type timestamptz using lock_until at time zone 'utc'");
    let locks = database.locks().await;
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let cure = error.to_string();
    database.sql(&cure[cure.find("alter table").unwrap()..]);
    acquired(&locks, "job").await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn l05_racing_for_a_new_row_makes_one_holder_and_no_error() {
    for database in [Database::Postgres(Postgres::start()), Database::MariaDb(MariaDb::start())] {
        let database = database.with_table();
        let stores: Vec<_> = (0..6).map(|_| database.store()).collect();
        for round in 0..10 {
            let racing: Vec<_> = stores
                .iter()
                .cloned()
                .map(|store| {
                    let claim = claim(&format!("new {round}"), LONG);
                    tokio::spawn(async move { store.try_acquire(&claim).await.unwrap() })
                })
                .collect();
            let mut granted = 0;
            for attempt in racing {
                granted += usize::from(matches!(attempt.await.unwrap(), Attempt::Granted(_)));
            }
            assert_eq!(granted, 1, "round {round}");
        }
        assert_eq!(database.rows(), (10, 10));
        if let Database::Postgres(server) = &database {
            assert_eq!(server.errors(), Vec::<String>::new());
        }
    }
}

/// A statement sees the rows of when it began, and waits for whoever is changing one: what it finds then counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_claim_is_not_granted_what_another_has_by_now() {
    let database = Database::Postgres(Postgres::start()).with_table();
    let (store, claim) = (database.store(), claim("job", LONG));
    granted(&*store, &claim).await;
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let (now, until) = (database.now(), database.after(60));
            let takes = format!("lock_until = {until}, locked_at = {now}, locked_by = 'another'");
            database.sql(&format!("begin; update shedlock set {takes} where name = 'job'; select pg_sleep(1); commit"));
        });
        let sleeps = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
        eventually("another is about to have it", SOON, || database.sql(sleeps) == "1");
        let again =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(store.try_acquire(&claim)));
        assert!(matches!(again, Ok(Attempt::Held(_))), "{again:?}");
        others.join().unwrap();
    });
}

/// Nothing of ours is made, and no more rights are needed than ShedLock needs.
#[tokio::test(flavor = "multi_thread")]
async fn it_takes_three_rights_on_one_table() {
    let postgres = Database::Postgres(Postgres::start()).with_table();
    postgres.sql("create role poor login; grant select, insert, update on shedlock to poor");
    let mariadb = Database::MariaDb(MariaDb::start()).with_table();
    mariadb.sql("grant select, insert, update on jobs.shedlock to poor");
    for (database, url) in [
        (&postgres, postgres.url().replace("postgres@", "poor@")),
        (&mariadb, mariadb.url().replace("jobs:hunter2@", "poor:hunter3@")),
    ] {
        let locks = Locks::connect(&format!("{url}?compat=shedlock")).await.unwrap();
        let guard = acquired(&locks, "job").await;
        refused(&locks, "job").await;
        locks.revoke("job", Revoke::Now).await.unwrap().expect("it was held");
        drop(guard);
        acquired(&locks, "job").await.release().await.unwrap();
        let findings = leasehold::stores::open(&format!("{url}?compat=shedlock")).unwrap().diagnose().await.unwrap();
        assert!(findings.iter().all(|finding| finding.severity != Severity::Problem), "{findings:?}");
        let ours = "select count(*) from information_schema.tables where table_name like 'leasehold%'";
        assert_eq!(database.sql(ours), "0");
    }
    postgres.sql("revoke update on shedlock from poor");
    let url = format!("{}?compat=shedlock", postgres.url().replace("postgres@", "poor@"));
    let error = Locks::connect(&url).await.unwrap().lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
}
