//! A master, its replica, and sentinels who watch them.

use std::thread;
use std::time::{Duration, Instant};

use super::options::quoted;
use super::{Redis, RedisOptions, Reply};
use crate::process::eventually;

/// The name under which the sentinels know the master.
const NAME: &str = "leasehold";
/// How many milliseconds a master must be silent before each sentinel takes it for dead. Were they equal, all would
/// want to lead the failover at once, vote for themselves, and try again after twice `failover-timeout`.
/// Less, and one that a busy machine leaves no time would be replaced though nobody wants that.
const DOWN_AFTER: [&str; 3] = ["1000", "1250", "1500"];
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);

/// Two Redis servers, one the other's replica, and three sentinels who agree on which is which.
///
/// All are killed when it is dropped.
#[derive(Debug)]
pub struct RedisSentinels {
    servers: [Redis; 2],
    sentinels: [Redis; 3],
}

impl RedisSentinels {
    /// Starts them and waits until the sentinels know each other and both servers.
    ///
    /// # Panics
    /// If there is no `redis-server`, or they don't find each other.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(Redis::options())
    }

    /// As [`start`](Self::start), with options for the two servers.
    ///
    /// # Panics
    /// If there is no `redis-server`, or they don't find each other.
    #[must_use]
    pub fn start_with(options: RedisOptions) -> Self {
        let mut options = options.config("hz", "50").config("repl-ping-replica-period", "1");
        // Either may become the other's replica.
        if let Some(password) = options.password.clone() {
            options = options.config("masterauth", &quoted(&password));
        }
        let master = options.start();
        let replica = options.replica_of(&master).start();
        let sentinels = DOWN_AFTER.map(|silence| sentinel(&master, silence));
        let group = Self { servers: [master, replica], sentinels };
        group.settle();
        group.sentinels.iter().for_each(|sentinel| tune(sentinel, SETTLED));
        group
    }

    /// The name under which the sentinels know the master.
    #[must_use]
    pub fn master_name(&self) -> &str {
        NAME
    }

    /// Where the sentinels are.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Redis::url).collect()
    }

    /// Where clients find the master by way of all of them: `redis+sentinel:` or `rediss+sentinel:`, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        let sentinels: Vec<_> = self.sentinels.iter().map(Redis::address).collect();
        format!("{}/{NAME}", self.servers[0].url_of_many("sentinel", &sentinels))
    }

    /// The sentinels: some of them may be killed or paused as well.
    #[must_use]
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// Both servers, whatever they are at the moment.
    #[must_use]
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// The master, as all sentinels that run see it; it may be dead already.
    ///
    /// # Panics
    /// If they don't come to agree.
    #[must_use]
    pub fn master(&self) -> &Redis {
        let mut agreed = None;
        eventually("the sentinels agree on a master", LIMIT, || {
            agreed = self.agreed();
            agreed.is_some()
        });
        agreed.expect("it was waited for")
    }

    /// The other server.
    ///
    /// # Panics
    /// If the sentinels don't come to agree.
    #[must_use]
    pub fn replica(&self) -> &Redis {
        let master = self.master();
        self.servers.iter().find(|server| server.port() != master.port()).expect("there are two")
    }

    /// Has the sentinels make the replica the master, as an operator would, and waits until they agree on it and the
    /// old master follows the new one. Answers the new master.
    ///
    /// # Panics
    /// If they don't.
    pub fn failover(&self) -> &Redis {
        let old = self.master().port();
        let deadline = Instant::now() + LIMIT;
        let mut asked = None;
        while self.agreed().is_none_or(|master| master.port() == old) {
            assert!(Instant::now() < deadline, "there is no new master: {:?}", self.views());
            if asked.is_none_or(|asked: Instant| asked.elapsed() > Duration::from_secs(1)) {
                // It refuses while it doesn't know the replica well enough yet, and gives up if something is too slow.
                self.sentinels.iter().find(|sentinel| View::of(sentinel).port == old).map(begin_failover);
                asked = Some(Instant::now());
            }
            thread::sleep(LOOK);
        }
        self.settle();
        self.master()
    }

    /// Ends the master like `kill -9`; answers it. Nobody has noticed yet: [`settle`](Self::settle) waits for that.
    ///
    /// # Panics
    /// If the sentinels don't agree on one.
    pub fn kill_master(&self) -> &Redis {
        let master = self.master();
        master.kill();
        master
    }

    /// Waits until the sentinels that run agree on a master that runs, and the other server, if it runs, follows it.
    ///
    /// # Panics
    /// If that doesn't happen.
    pub fn settle(&self) {
        let deadline = Instant::now() + LIMIT;
        while !self.is_settled() {
            assert!(Instant::now() < deadline, "the sentinels don't settle: {:?}", self.views());
            thread::sleep(LOOK);
        }
    }

    /// Restarts and resumes whatever doesn't run, and waits until all is settled.
    ///
    /// # Panics
    /// If that doesn't happen.
    pub fn mend(&self) {
        for server in self.servers.iter().chain(&self.sentinels) {
            server.resume();
            if !server.is_running() {
                server.restart();
                tune(server, SETTLED);
            }
        }
        self.settle();
    }

    fn is_settled(&self) -> bool {
        let Some(master) = self.agreed().filter(|master| master.is_running()) else { return false };
        let port = master.port().to_string();
        let follows = |server: &Redis| {
            let facts = server.info("replication");
            let is = |name: &str, value: &str| facts.iter().any(|(field, is)| field == name && is == value);
            is("master_port", &port) && is("master_link_status", "up")
        };
        let others_follow = self.running().all(|server| server.port() == master.port() || follows(server));
        master.fact("replication", "role") == "master" && others_follow && self.views().iter().all(View::is_calm)
    }

    /// The master, if all sentinels that run name the same one.
    fn agreed(&self) -> Option<&Redis> {
        let mut views = self.views().into_iter();
        let first = views.next()?;
        let agreed = first.port != 0 && views.all(|view| view.port == first.port);
        agreed.then(|| self.servers.iter().find(|server| server.port() == first.port))?
    }

    fn running(&self) -> impl Iterator<Item = &Redis> {
        self.servers.iter().filter(|server| server.is_running())
    }

    fn views(&self) -> Vec<View> {
        self.sentinels.iter().filter(|sentinel| sentinel.is_running()).map(View::of).collect()
    }
}

/// How one sentinel sees the master; all empty if it doesn't answer.
#[derive(Debug, Default)]
struct View {
    port: u16,
    flags: String,
    replicas: String,
    others: String,
}

impl View {
    fn of(sentinel: &Redis) -> Self {
        let Some(Reply::Items(answer)) = sentinel.ask(&["SENTINEL", "MASTER", NAME]) else { return Self::default() };
        let field = |name: &str| {
            let pair = answer.chunks(2).find(|pair| pair[0].text() == name);
            pair.map(|pair| pair[1].text()).unwrap_or_default()
        };
        Self {
            port: field("port").parse().unwrap_or_default(),
            flags: field("flags"),
            replicas: field("num-slaves"),
            others: field("num-other-sentinels"),
        }
    }

    fn is_calm(&self) -> bool {
        self.flags == "master" && self.replicas == "1" && self.others == "2"
    }
}

fn sentinel(master: &Redis, down_after: &str) -> Redis {
    let options = RedisOptions { sentinel: true, ..master.started_with().tls_alone() };
    let mut options = options
        .config("sentinel", &format!("monitor {NAME} 127.0.0.1 {} 2", master.port()))
        .config("sentinel", &format!("down-after-milliseconds {NAME} {down_after}"))
        .config("sentinel", &format!("failover-timeout {NAME} 2000"));
    if let Some(password) = master.password() {
        options = options.config("sentinel", &format!("auth-pass {NAME} {}", quoted(password)));
    }
    let sentinel = options.start();
    tune(&sentinel, STARTING);
    sentinel
}

fn begin_failover(sentinel: &Redis) {
    sentinel.ask(&["SENTINEL", "FAILOVER", NAME]);
}

/// How many milliseconds pass between the greetings by which sentinels find each other: by default 2000.
const STARTING: &str = "100";
/// After four times that, a sentinel takes a replica that has become a master for one that is wrong, and undoes the
/// failover whose leader looks at the replica only once a second.
const SETTLED: &str = "500";

/// Sentinels look at servers every ten seconds; not while a test waits. While a master is down it is once a second, and
/// what is older than five pings is no good for choosing a new one: they must not come too fast.
fn tune(sentinel: &Redis, greetings: &str) {
    sentinel.ask(&["SENTINEL", "DEBUG", "INFO-PERIOD", "200", "PING-PERIOD", "400", "PUBLISH-PERIOD", greetings]);
    // One that a busy machine, or a test, has stopped for two seconds would do nothing for half a minute.
    sentinel.ask(&["SENTINEL", "DEBUG", "TILT-TRIGGER", "30000"]);
}
