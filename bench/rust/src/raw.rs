//! The cheapest commands that do it: one script to take the lock with a fencing number, or to queue; one to give it back,
//! or to the first waiter, who is told over the connection that it has.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, Value};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::libraries::TTL;

const ACQUIRE: &str = "if redis.call('SET',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return redis.call('INCR',KEYS[3]) end redis.call('RPUSH',KEYS[2],ARGV[1]) return 0";
const RELEASE: &str = "if redis.call('GET',KEYS[1])~=ARGV[1] then return 0 end
local w=redis.call('LPOP',KEYS[2])
if w then redis.call('SET',KEYS[1],w,'PX',ARGV[2]) local f=redis.call('INCR',KEYS[3]) redis.call('PUBLISH','w:'..string.sub(w,1,8),w..f) return 2 end
redis.call('DEL',KEYS[1]) return 1";

pub struct Raw {
    connection: MultiplexedConnection,
    given: UnboundedReceiver<Vec<u8>>,
    acquire: String,
    release: String,
    me: usize,
    turns: usize,
}

pub struct Held {
    name: String,
    token: String,
}

impl Raw {
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
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.expect("a server");
        connection.subscribe(format!("w:{me:08}")).await.expect("subscribed");
        let mut hashes = Vec::new();
        for script in [ACQUIRE, RELEASE] {
            let hash = redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await;
            hashes.push(hash.expect("a script"));
        }
        let (release, acquire) = (hashes.pop().expect("two"), hashes.pop().expect("two"));
        Self { connection, given, acquire, release, me, turns: 0 }
    }

    pub async fn acquire(&mut self, name: &str) -> Held {
        self.turns += 1;
        let held = Held { name: format!("raw:{{{name}}}"), token: format!("{:08}{:012}", self.me, self.turns) };
        if self.call(true, &held).await == 0 {
            let given = self.given.recv().await.expect("the connection is there");
            assert!(given.starts_with(held.token.as_bytes()), "what was given is ours");
        }
        held
    }

    pub async fn release(&mut self, held: Held) {
        assert!(self.call(false, &held).await > 0, "it was ours");
    }

    async fn call(&mut self, acquire: bool, held: &Held) -> i64 {
        let mut call = redis::cmd("EVALSHA");
        call.arg(if acquire { &self.acquire } else { &self.release }).arg(3);
        call.arg(&held.name).arg(format!("{}:q", held.name)).arg(format!("{}:f", held.name));
        call.arg(&held.token).arg(TTL.as_millis() as u64);
        call.query_async(&mut self.connection).await.expect("answered")
    }
}
