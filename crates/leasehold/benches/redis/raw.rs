//! The cheapest commands that do the same: what the ratios are held against.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, Value};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub const TTL_MS: u64 = 30_000;

/// Takes the lock and a number that never goes back.
const ACQUIRE: &str =
    "if redis.call('SET',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return redis.call('INCR',KEYS[2]) else return 0 end";
const RELEASE: &str = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

/// The same with a queue: the release gives the lock to the first waiter and tells it so.
const ACQUIRE_OR_QUEUE: &str = "if redis.call('SET',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return redis.call('INCR',KEYS[3]) end redis.call('RPUSH',KEYS[2],ARGV[1]) return 0";
const HAND_OVER: &str = "if redis.call('GET',KEYS[1])~=ARGV[1] then return 0 end
local w=redis.call('LPOP',KEYS[2])
if w then redis.call('SET',KEYS[1],w,'PX',ARGV[2]) local f=redis.call('INCR',KEYS[3]) redis.call('PUBLISH','w:'..string.sub(w,1,8),w..f) return 2 end
redis.call('DEL',KEYS[1]) return 1";

const RENEW: &str = "local r={} for i,k in ipairs(KEYS) do if redis.call('GET',k)==ARGV[i+1] then r[i]=redis.call('PEXPIRE',k,ARGV[1]) else r[i]=0 end end return r";

pub async fn connect(url: &str) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = Client::open(url).expect("a URL");
    client.get_multiplexed_async_connection_with_config(&config).await.expect("the server answers")
}

pub async fn load(connection: &mut MultiplexedConnection, script: &str) -> String {
    redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await.expect("a script")
}

/// 20 bytes that nobody else has, for as long as numbers differ.
pub fn token(number: u64) -> [u8; 20] {
    let mut token = *b"0123456789abcdefghij";
    token[..8].copy_from_slice(&number.to_le_bytes());
    token
}

/// One lock: an acquire and a release, a script each.
#[derive(Clone)]
pub struct Pair {
    connection: MultiplexedConnection,
    acquire: String,
    release: String,
    lock: String,
    fence: String,
}

impl Pair {
    pub async fn new(mut connection: MultiplexedConnection, name: &str) -> Self {
        let (acquire, release) = (load(&mut connection, ACQUIRE).await, load(&mut connection, RELEASE).await);
        Self { connection, acquire, release, lock: format!("raw:{{{name}}}"), fence: format!("raw:{{{name}}}:f") }
    }

    pub async fn pair(&mut self, number: u64) {
        let token = token(number);
        let mut acquire = redis::cmd("EVALSHA");
        acquire.arg(&self.acquire).arg(2).arg(&self.lock).arg(&self.fence).arg(&token[..]).arg(TTL_MS);
        let fence: i64 = acquire.query_async(&mut self.connection).await.expect("answered");
        assert!(fence > 0, "it was free");
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.release).arg(1).arg(&self.lock).arg(&token[..]);
        let released: i64 = release.query_async(&mut self.connection).await.expect("answered");
        assert_eq!(released, 1);
    }
}

/// A worker with a connection of its own, which the server tells when the lock was given to it.
pub struct Waiter {
    connection: MultiplexedConnection,
    given: UnboundedReceiver<Vec<u8>>,
    acquire: String,
    release: String,
    me: usize,
    turns: usize,
}

impl Waiter {
    pub async fn new(url: &str, me: usize) -> Self {
        let (tell, given) = unbounded_channel();
        let hear = move |said: PushInfo| {
            if said.kind == PushKind::Message
                && let Some(Value::BulkString(token)) = said.data.last()
            {
                let _ = tell.send(token.clone());
            }
            Ok::<(), redis::aio::SendError>(())
        };
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_push_sender(hear);
        let client = Client::open(format!("{url}/?protocol=resp3")).expect("a URL");
        let mut connection =
            client.get_multiplexed_async_connection_with_config(&config).await.expect("the server answers");
        connection.subscribe(format!("w:{me:08}")).await.expect("subscribed");
        let (acquire, release) =
            (load(&mut connection, ACQUIRE_OR_QUEUE).await, load(&mut connection, HAND_OVER).await);
        Self { connection, given, acquire, release, me, turns: 0 }
    }

    async fn call(&mut self, script: bool, token: &str) -> i64 {
        let hash = if script { &self.acquire } else { &self.release };
        let mut call = redis::cmd("EVALSHA");
        call.arg(hash).arg(3).arg("raw:{busy}").arg("raw:{busy}:q").arg("raw:{busy}:f").arg(token).arg(TTL_MS);
        call.query_async(&mut self.connection).await.expect("answered")
    }

    /// Waits for the lock and answers the token that it is held by.
    pub async fn acquire(&mut self) -> String {
        self.turns += 1;
        let token = format!("{:08}{:012}", self.me, self.turns);
        if self.call(true, &token).await == 0 {
            let given = self.given.recv().await.expect("the connection is there");
            assert!(given.starts_with(token.as_bytes()), "what was given is ours");
        }
        token
    }

    pub async fn release(&mut self, token: &str) {
        assert!(self.call(false, token).await > 0, "it was ours");
    }
}

/// Locks that are renewed a hundred at a time by one script.
pub struct Batches {
    connection: MultiplexedConnection,
    renew: String,
    keys: Vec<String>,
}

impl Batches {
    pub async fn new(url: &str, locks: usize) -> Self {
        let mut connection = connect(url).await;
        let renew = load(&mut connection, RENEW).await;
        let keys: Vec<String> = (0..locks).map(|lock| format!("raw:r:{lock}")).collect();
        let mut all = redis::pipe();
        for key in &keys {
            all.cmd("SET").arg(key).arg(&token(7)[..]).arg("PX").arg(600_000).ignore();
        }
        all.query_async::<()>(&mut connection).await.expect("set");
        Self { connection, renew, keys }
    }

    pub async fn renew_all(&mut self) {
        for keys in self.keys.chunks(100) {
            let mut renew = redis::cmd("EVALSHA");
            renew.arg(&self.renew).arg(keys.len()).arg(keys).arg(600_000);
            for _ in keys {
                renew.arg(&token(7)[..]);
            }
            let renewed: Vec<i64> = renew.query_async(&mut self.connection).await.expect("answered");
            assert!(renewed.iter().all(|renewed| *renewed == 1));
        }
    }
}
