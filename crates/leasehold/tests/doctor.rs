//! What `doctor` says of Redis servers: each kind of finding at a real one. The numbers are those of the fault of another
//! system that the test was made of.
#![cfg(feature = "redis")]

use std::time::{Duration, Instant};

use leasehold::store::{Note, NoteId, Search, Topic};
use leasehold::{Applied, ErrorKind, Finding, Outcome, Severity};
use leasehold_testkit::process::{eventually, eventually_async};
use leasehold_testkit::servers::{Redis, RedisCluster, RedisSentinels, cases};

mod claims;
use claims::{SOON, TTL, acquired, locks, store};

/// Of a lease that is renewed though the machine is busy for a moment.
const LASTING: Duration = Duration::from_secs(5);

const THE_REST: &str = "&leasehold:default:!* +subscribe +publish +info +config|get +scan";

/// The least of rights, as docs/stores/redis.md has them.
fn least_rights() -> String {
    let page = include_str!("../../../docs/stores/redis.md");
    let command = page.split("ACL SETUSER jobs on >secret ").nth(1).expect("it is there").split("\n\n").next();
    command.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the doctor says.
#[derive(Debug)]
struct Told(Vec<Finding>);

impl Told {
    async fn of(url: &str) -> Self {
        Self(locks(url).await.diagnose().await.unwrap())
    }

    fn says(&self, severity: Severity, subject: &str, words: &str) -> &Self {
        let fits = |finding: &&Finding| {
            let text = format!("{} / {}", finding.message, finding.fix.as_deref().unwrap_or_default());
            finding.severity == severity && finding.subject == subject && text.contains(words)
        };
        assert!(self.0.iter().any(|finding| fits(&finding)), "{severity:?} {subject} {words:?} is not in {self:#?}");
        self
    }

    fn problem(&self, subject: &str, words: &str) -> &Self {
        self.says(Severity::Problem, subject, words)
    }

    fn warning(&self, subject: &str, words: &str) -> &Self {
        self.says(Severity::Warning, subject, words)
    }

    fn fine(&self, subject: &str, words: &str) -> &Self {
        self.says(Severity::Fine, subject, words)
    }

    /// Nothing is wrong but this.
    fn has_problems(&self, subjects: &[&str]) -> &Self {
        let problems = self.0.iter().filter(|finding| finding.severity == Severity::Problem);
        assert_eq!(problems.map(|finding| finding.subject).collect::<Vec<_>>(), subjects, "{self:#?}");
        self
    }
}

async fn refusal(url: &str) -> leasehold::Error {
    locks(url).await.lock("job").try_acquire().await.unwrap_err()
}

fn key(name: &str) -> String {
    format!("leasehold:default:{{{name}}}")
}

#[tokio::test]
async fn a_server_of_ones_own_is_fine_and_nothing_is_left_behind() {
    let server = Redis::options().append_only().start();
    let told = Told::of(&server.url()).await;
    told.has_problems(&[])
        .fine("server", "redis://")
        .fine("version", "(standalone)")
        .fine("role", "master with 0 replicas")
        .fine("eviction", "no limit")
        .fine("persistence", "forgets nothing")
        .fine("restart guard", "off")
        .fine("failover", "no replica")
        .fine("rights", "the user default may do all")
        .fine("scripts", "can be loaded")
        .fine("clock", "from ours")
        .fine("keys", "0 looked at");
    assert_eq!(server.command(&["DBSIZE"]).integer(), 0);
    assert!(server.command(&["PUBSUB", "CHANNELS"]).items().len() <= 1, "ours");
}

#[tokio::test]
async fn settings_that_cost_locks_are_told() {
    let server = Redis::start();
    let set = |setting, value| assert_eq!(server.command(&["CONFIG", "SET", setting, value]).text(), "OK");
    Told::of(&server.url()).await.warning("persistence", "none: a restart forgets everything");
    set("save", "3600 1");
    Told::of(&server.url()).await.warning("persistence", "snapshots only");
    set("appendonly", "yes");
    Told::of(&server.url()).await.warning("persistence", "everysec");
    set("maxmemory", "100mb");
    set("maxmemory-policy", "allkeys-lru");
    Told::of(&server.url()).await.has_problems(&["eviction"]).fine("memory", "of 100.00M used");
    let guarded = format!("{}?restart_guard=on&max_ttl=3600", server.url());
    Told::of(&guarded)
        .await
        .warning("restart guard", "nothing is granted for")
        .warning("persistence", "covered by the restart guard");
    Told::of(&format!("{}?wait_replicas=1", server.url()))
        .await
        .problem("failover", "wait_replicas=1, and there are 0");
    set("min-replicas-to-write", "1");
    Told::of(&server.url()).await.problem("writes", "NOREPLICAS");
}

#[tokio::test]
async fn a_server_in_the_wrong_place_is_told_with_the_right_one() {
    let master = Redis::start();
    let replica = Redis::replica_of(&master);
    let right = format!("name its master: redis://{}", master.address());
    Told::of(&replica.url()).await.has_problems(&["role"]).problem("role", &right);
    let member = Redis::options().config("cluster-enabled", "yes").start();
    let right = format!("redis+cluster://{}", member.address());
    Told::of(&member.url()).await.has_problems(&["role"]).problem("role", &right);
    Told::of(&master.url()).await.fine("role", "master with 1 replica, up").warning("failover", "restart_guard=on");
    Told::of(&format!("{}?wait_replicas=1", master.url())).await.fine("failover", "waits for the only replica");
    master.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let guarded = Told::of(&format!("{}?restart_guard=on&max_ttl=5", master.url())).await;
    guarded.fine("failover", "exclusion survives it: a master without its only replica stops within 12s");
}

#[tokio::test]
async fn a_busy_script_is_told_while_it_runs() {
    let server = Redis::options().config("lua-time-limit", "10").start();
    let mut busy = server.connect().unwrap();
    busy.send(&["EVAL", "while true do end", "0"]).unwrap();
    let told = Told::of(&server.url()).await;
    told.has_problems(&["scripts"]).problem("scripts", "SCRIPT KILL");
    server.command(&["SCRIPT", "KILL"]);
}

#[tokio::test]
async fn with_the_least_of_rights_locks_work_and_what_is_missing_is_told() {
    let least = least_rights();
    let users = [
        format!("user least on >secret {least}"),
        format!("user all on >secret {least} {THE_REST}"),
        "user elsewhere on >secret allchannels allcommands ~other:*".to_owned(),
    ];
    let server = Redis::options().acl(&users.each_ref().map(String::as_str)).start();
    let locks = locks(&server.url_as("least", "secret")).await;
    let guard = acquired(&locks.lock("job").ttl(LASTING)).await;
    assert!(matches!(locks.lock("job").try_acquire().await.unwrap(), Outcome::Contended(_)));
    let _permit = acquired(&locks.lock("pool").permits(2).at_least_for(TTL)).await;
    let once = acquired(&locks.once("key", Duration::from_secs(3600))).await;
    once.complete().await.unwrap();
    let waits = locks.lock("job");
    let waiting = tokio::spawn(async move { waits.acquire().await.unwrap().guard().unwrap() });
    eventually_async("it waits", SOON, async || locks.inspect("job").await.unwrap().unwrap().waiting == 1).await;
    tokio::time::sleep(LASTING).await; // renewed meanwhile
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();

    let store = store(&server.url_as("least", "secret"));
    let (notes, topic) = (store.as_notes().expect("it keeps them"), Topic::of_all("kept"));
    let id = NoteId::new("1").unwrap();
    let note = Note { topic: topic.clone(), id: id.clone(), text: "kept".into(), keep: SOON, most: 1 };
    notes.note(std::slice::from_ref(&note)).await.unwrap();
    let found = notes.notes(&Search::newest(topic.clone(), 1)).await.unwrap();
    assert_eq!(found.iter().map(|noted| &*noted.text).collect::<Vec<_>>(), ["kept"]);
    notes.erase(&topic, &[id]).await.unwrap();

    let told = Told::of(&server.url_as("least", "secret")).await;
    told.has_problems(&[])
        .warning("version", "not known")
        .warning("rights", "ACL SETUSER least &leasehold:default:!* +publish +subscribe")
        .warning("rights", "ACL SETUSER least +config|get")
        .warning("rights", "ACL SETUSER least +info")
        .warning("rights", "ACL SETUSER least +scan");
    let guarded = |user| format!("{}?restart_guard=on", server.url_as(user, "secret"));
    let told = Told::of(&guarded("least")).await;
    told.has_problems(&["restart guard"])
        .problem("restart guard", "+info")
        .warning("rights", "ACL SETUSER least +eval");
    let error = refusal(&guarded("least")).await;
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    Told::of(&server.url_as("all", "secret")).await.fine("rights", "the user all may do all").fine("keys", "looked at");
    Told::of(&server.url_as("elsewhere", "secret"))
        .await
        .problem("rights", "ACL SETUSER elsewhere ~leasehold:default:*");
    assert_eq!(server.command(&["KEYS", "*probe*"]).items(), []);
}

#[tokio::test]
async fn e11_a_policy_that_forbids_scripts_is_told_at_the_first_call_and_by_the_doctor() {
    let users = ["no_load on >secret ~* &* +@all -script", "no_call on >secret ~* &* +@all -evalsha -eval"];
    let users = users.map(|user| format!("user {user}"));
    let server = Redis::options().acl(&users.each_ref().map(String::as_str)).start();
    for (user, command, right) in [("no_load", "script", "+script|load"), ("no_call", "evalsha", "+evalsha")] {
        let url = server.url_as(user, "secret");
        let error = refusal(&url).await;
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
        assert!(error.to_string().contains(command) && error.to_string().contains("doctor"), "{error}");
        Told::of(&url).await.has_problems(&["rights"]).problem("rights", &format!("ACL SETUSER {user} {right}"));
    }
    let renamed = Redis::options().config("rename-command", "EVALSHA \"\"").start();
    let error = refusal(&renamed.url()).await;
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    Told::of(&renamed.url()).await.has_problems(&["rights"]).problem("rights", "+evalsha");
    assert_eq!(server.command(&["DBSIZE"]).integer(), 0);
}

/// Found by an adversary: the page had forgotten it, schedules stood still, and doctor was content.
#[tokio::test]
async fn without_the_right_that_notes_need_the_doctor_says_what_it_costs_and_the_error_which_it_is() {
    let user = "user no_notes on >secret ~* &* +@all -zrevrangebyscore";
    let server = Redis::options().acl(&[user]).start();
    let url = server.url_as("no_notes", "secret");
    Told::of(&url)
        .await
        .has_problems(&["rights"])
        .problem("rights", "lacks +zrevrangebyscore: `schedule` runs nothing");
    Told::of(&format!("{url}?compat=plain")).await.has_problems(&[]);
    let store = store(&url);
    let search = Search::newest(Topic::of_all("kept"), 1);
    let error = store.as_notes().expect("it keeps them").notes(&search).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    assert!(error.to_string().contains("run ZREVRANGEBYSCORE, which"), "{error}");
    acquired(&locks(&url).await.lock("job")).await.release().await.unwrap();
}

/// The server says of a script only that its user can't run something in it.
#[tokio::test]
async fn a_forbidden_command_of_a_script_is_denied_access() {
    let users = ["hset", "zadd"].map(|command| format!("user no_{command} on >secret ~* &* +@all -{command}"));
    let server = Redis::options().acl(&users.each_ref().map(String::as_str)).start();
    for command in ["hset", "zadd"] {
        let url = server.url_as(&format!("no_{command}"), "secret");
        Told::of(&url).await.has_problems(&["rights"]).problem("rights", &format!("+{command}"));
    }
    let error = refusal(&server.url_as("no_hset", "secret")).await;
    assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::Maybe), "{error}");
    assert!(error.to_string().contains("HSET") && error.to_string().contains("doctor"), "{error}");
}

#[tokio::test]
async fn e09_a_full_server_refuses_a_lock_and_takes_one_back() {
    let server = Redis::options().max_memory(100_000_000, "noeviction").start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(LASTING)).await;
    Told::of(&server.url()).await.has_problems(&[]).fine("memory", "used");
    server.command(&["CONFIG", "SET", "maxmemory", "1000"]);
    let error = locks.lock("other").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    Told::of(&server.url()).await.has_problems(&["memory", "writes"]).problem("writes", "OOM");
    tokio::time::sleep(LASTING).await; // renewed meanwhile
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert!(locks.inspect("job").await.unwrap().is_none());
}

#[tokio::test]
async fn e12_a_server_that_cannot_save_shows_it_at_a_release_which_is_made_up_for() {
    let server = Redis::options().config("save", "3600 100").start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(Duration::from_secs(60))).await;
    let directory = server.command(&["CONFIG", "GET", "dir"]).items()[1].text();
    let in_the_way = std::path::Path::new(&directory).join("dump.rdb");
    std::fs::create_dir(&in_the_way).unwrap();
    let saves = |status: &str| {
        server.command(&["BGSAVE"]);
        eventually("it has tried to save", SOON, || {
            let info = server.command(&["INFO", "persistence"]).text();
            info.contains(&format!("rdb_last_bgsave_status:{status}")) && info.contains("rdb_bgsave_in_progress:0")
        });
    };
    saves("err");
    let told = Told::of(&server.url()).await;
    told.has_problems(&["persistence", "writes"]).problem("persistence", "BGSAVE").problem("writes", "MISCONF");
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("MISCONF"), "{error}");
    assert!(locks.inspect("job").await.is_err() || locks.inspect("job").await.unwrap().is_some());
    std::fs::remove_dir(&in_the_way).unwrap();
    saves("ok");
    eventually_async("it is released all the same", SOON, async || locks.inspect("job").await.unwrap().is_none()).await;
}

/// Set back by half an hour, with a holder that had asked for two hours and is dead.
#[tokio::test]
async fn e13_what_a_clock_that_was_set_back_leaves_behind_is_shown_and_can_be_released() {
    let server = Redis::options().own_clock().start();
    let hours = Duration::from_secs(7200);
    let dead = claims::claim("late", hours);
    let leasehold::Attempt::Granted(late) = store(&server.url()).try_acquire(&dead).await.unwrap() else {
        panic!("it is free");
    };
    server.set_clock(-1800);
    let locks = locks(&server.url()).await;
    let soon = acquired(&locks.lock("soon")).await;
    assert!(locks.inspect("late").await.unwrap().unwrap().remaining > hours + Duration::from_secs(1700));
    let told = Told::of(&server.url()).await;
    told.warning("keys", " left): held for longer than any TTL").warning("keys", "late: granted in the future");
    locks.revoke("late", leasehold::Revoke::Now).await.unwrap();
    assert!(acquired(&locks.lock("late")).await.token() > late.token);
    drop(soon);
}

#[tokio::test]
async fn e13_a_clock_that_is_set_forward_ends_a_lease_and_its_holder_is_told() {
    let server = Redis::options().own_clock().start();
    let (ours, others) = (locks(&server.url()).await, locks(&server.url()).await);
    // Its holder hears of it at a renewal, which may be late.
    let guard = acquired(&ours.lock("job").ttl(LASTING * 2)).await;
    server.set_clock(60);
    let next = acquired(&others.lock("job")).await;
    assert!(next.token() > guard.token());
    assert_eq!(guard.lost().await, leasehold::LossReason::Gone);
    assert!(!guard.is_valid() && next.is_valid());
    assert!(matches!(guard.release().await, Ok(leasehold::Released::TooLate)));
    // Who holds it now goes by spans, and is not disturbed by the clock's coming back.
    server.set_clock(0);
    assert!(matches!(ours.lock("job").ttl(TTL).try_acquire().await, Ok(Outcome::Contended(_))));
    let token = next.token();
    next.release().await.unwrap();
    assert!(acquired(&ours.lock("job").ttl(TTL)).await.token() > token, "though it was given out in the future");
}

/// Tokens that were given out since would come again.
#[tokio::test]
async fn e13_a_clock_that_is_hours_behind_grants_nothing_that_it_has_granted_until_it_is_set() {
    let server = Redis::options().own_clock().start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job")).await;
    let token = guard.token();
    guard.release().await.unwrap();
    server.set_clock(-2 * 3600);
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.applied(), Applied::No, "{error}");
    assert!(error.to_string().contains("clock"), "{error}");
    server.set_clock(0);
    assert!(acquired(&locks.lock("job")).await.token() > token);
}

/// A member needs nothing kept, but its restart guard, and all that the others know.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_a_quorum_is_examined_as_one() {
    let servers = [0; 3].map(|_| Redis::start());
    let urls: Vec<_> = servers.iter().map(|server| format!("{}?restart_guard=on&max_ttl=2", server.url())).collect();
    let quorum = std::sync::Arc::new(leasehold::stores::open_quorum(&urls).unwrap());
    let locks = leasehold::Locks::over(quorum);
    let takes = async || {
        let lock = locks.lock("job").ttl(Duration::from_secs(2));
        let lock = lock.wait(leasehold::Wait::For(SOON));
        lock.acquire().await.unwrap().guard().expect("it is free").release().await.unwrap();
    };
    let told = async || Told(locks.diagnose().await.unwrap());
    told().await.warning("memories", "knows nothing yet").fine("persistence", "other members remember it");
    takes().await;
    // Whoever was not heard for the first claim is founded a moment later.
    eventually_async("all are founded", SOON, async || {
        takes().await;
        told().await.0.iter().filter(|found| found.message.contains("since the quorum was founded")).count() == 3
    })
    .await;
    told().await.has_problems(&[]).fine("failover", "learns from the others").fine("replication", "stays as it is");
    servers[0].restart();
    eventually_async("it is back", SOON, async || {
        let said = Told(locks.diagnose().await.unwrap_or_default());
        said.0.iter().any(|found| found.severity == Severity::Warning && found.message.contains("came back"))
    })
    .await;
    let url = format!("{}?restart_guard=off", servers[1].url());
    let store = leasehold::stores::open(&url).unwrap();
    Told(store.as_member().unwrap().examine().await.unwrap()).problem("restart guard", "/ write restart_guard=on");
}

/// Should it lose its data, it may hear of the smaller one first.
#[tokio::test]
async fn clients_that_give_another_largest_ttl_are_told() {
    let server = Redis::start();
    let url = |max_ttl: u64| format!("{}?restart_guard=on&max_ttl={max_ttl}", server.url());
    eventually_async("both have been there, and the guard is over", SOON, async || {
        Told::of(&url(3))
            .await
            .0
            .iter()
            .any(|found| found.subject == "restart guard" && found.severity == Severity::Fine)
    })
    .await;
    Told::of(&url(1)).await.warning("restart guard", "give that as max_ttl, and 1s stands in this URL");
    Told::of(&url(1)).await.warning("restart guard", "/ write max_ttl=3 in the URLs of all clients");
    Told::of(&url(3)).await.has_problems(&[]).fine("restart guard", "on, for 3s");
}

#[tokio::test]
async fn a_clock_that_was_set_back_behind_the_tokens_grants_nothing() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job")).await;
    let ahead = guard.token().number() + (3_700_000 << 4);
    guard.release().await.unwrap();
    server.command(&["HSET", &format!("{}:h", key("job")), "t", &ahead.to_string()]);
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("clock"), "{error}");
    assert!(locks.inspect("job").await.unwrap().is_none());
    Told::of(&server.url()).await.has_problems(&["keys"]).problem("keys", "{job}:h: with a token from the future");
    acquired(&locks.lock("other")).await.release().await.unwrap();
}

#[tokio::test]
async fn d09_keys_that_are_not_as_they_should_be_are_named() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    let _guard = acquired(&locks.lock("sound")).await;
    let beside = |name: &str| format!("{}:h", key(name));
    server.command(&["SET", &key("data"), "1"]);
    server.command(&["RPUSH", &key("list"), "1"]);
    server.command(&["SET", &key("theirs"), "redis-py", "PX", "60000"]);
    server.command(&["HSET", &beside("kept"), "t", "1"]);
    server.command(&["SET", "leasehold:default:{stray}:x", "1"]);
    server.command(&["SET", "leasehold:other:{job}", "1"]);
    let told = Told::of(&server.url()).await;
    told.has_problems(&["keys", "keys"])
        .problem("keys", "leasehold:default:{list} is a list: of another program")
        .problem("keys", "/ DEL 'leasehold:default:{list}', or")
        .problem("keys", "data: held without an end")
        .problem("keys", "leasehold release 'data' --force --now")
        .warning("keys", "data, theirs: held by another program")
        .warning("keys", "leasehold:default:{kept}:h: kept for ever")
        .warning("keys", "leasehold:default:{stray}:x: in our namespace");
    locks.revoke("data", leasehold::Revoke::Now).await.unwrap();
    server.command(&["DEL", &key("list"), &beside("kept"), "leasehold:default:{stray}:x"]);
    Told::of(&server.url()).await.has_problems(&[]);
}

#[tokio::test]
async fn a_server_with_very_many_keys_is_examined_up_to_a_bound() {
    let server = Redis::start();
    let write = "for n = 1, 12000 do redis.call('SET', 'leasehold:default:{job ' .. n .. '}', 'x', 'PX', 60000) end";
    server.command(&["EVAL", write, "0"]);
    let began = Instant::now();
    let told = Told::of(&server.url()).await;
    println!("12000 keys in {:?}", began.elapsed());
    told.fine("keys", " looked at; there are more").warning("keys", " more: held by another program");
}

fn run(case: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(case);
}

macro_rules! all {
    ($($case:ident)*) => { &[$((stringify!($case), |subject| run($case(subject)))),*] };
}

#[test]
fn behind_sentinels() {
    cases(&RedisSentinels::start(), RedisSentinels::mend, all! { sentinels_that_agree sentinels_that_are_gone });
}

async fn sentinels_that_agree(servers: &RedisSentinels) {
    let told = Told::of(&format!("{}?max_ttl=1", servers.url())).await;
    told.has_problems(&[])
        .fine("sentinels", &format!("3 agree on {}", servers.master().address()))
        .warning("failover", "only if the old master is dead");
    servers.master().command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    Told::of(&format!("{}?max_ttl=1", servers.url())).await.fine("failover", "exclusion survives it");
    servers.master().command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    let one = &servers.sentinels()[0];
    let right = format!("redis+sentinel://{}/{}", one.address(), servers.master_name());
    Told::of(&one.url()).await.has_problems(&["role"]).problem("role", &right);
}

async fn sentinels_that_are_gone(servers: &RedisSentinels) {
    let url = format!("{}?max_ttl=1", servers.url());
    let [first, second, _] = servers.sentinels() else { panic!("there are three") };
    first.kill();
    let silent = format!("don't answer: {}", first.address());
    Told::of(&url).await.has_problems(&[]).warning("sentinels", &silent);
    second.pause();
    Told::of(&url).await.has_problems(&["sentinels"]).problem("sentinels", "too few are left");
}

#[test]
fn in_a_cluster() {
    cases(&RedisCluster::start(), RedisCluster::mend, all! { a_whole_cluster a_cluster_with_nodes_missing });
}

async fn a_whole_cluster(cluster: &RedisCluster) {
    let url = format!("{}?max_ttl=1", cluster.url());
    let told = Told::of(&url).await;
    told.has_problems(&[])
        .fine("cluster", "ok, all slots have a master; 6 nodes, 3 masters")
        .fine("rights", "may do all");
    assert_eq!(told.0.iter().filter(|finding| finding.subject == "cluster").count(), 1, "told once: {told:#?}");
    let owner = cluster.master_of(leasehold_testkit::servers::slot_of("{job}"));
    owner.command(&["SET", &key("job"), "data"]);
    let told = Told::of(&url).await;
    told.has_problems(&["keys"]).problem("keys", &format!("{}: job: held without an end", owner.address()));
    owner.command(&["DEL", &key("job")]);
    for node in cluster.nodes() {
        let left = node.command(&["KEYS", "*probe*"]);
        assert_eq!(left.items(), []);
    }
}

async fn a_cluster_with_nodes_missing(cluster: &RedisCluster) {
    let url = format!("{}?max_ttl=1", cluster.url());
    let (master, replica) = (cluster.master_of(0), cluster.replica_of(0));
    replica.kill();
    let alone = format!("{}: without a replica", master.address());
    let gone = format!("nodes that fail: {}", replica.address());
    eventually_async("its loss is seen", SOON, async || {
        let told = Told::of(&url).await;
        [&alone, &gone].iter().all(|words| told.0.iter().any(|finding| finding.message.contains(*words)))
    })
    .await;
    master.kill();
    eventually_async("its loss is told", SOON, async || {
        let told = Told::of(&url).await;
        told.0.iter().any(|finding| finding.severity == Severity::Problem && finding.subject == "cluster")
    })
    .await;
}
