//! The time after a restart or a promotion in which nobody is granted anything.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult, Value};

use super::answer;
use super::cluster;
use super::fault::Fault;
use super::keys;
use super::node::Node;
use crate::error::ErrorKind;
use crate::name::Namespace;
use crate::validity;

/// A server that was started or promoted may not know who holds what: its data was lost with it, or had not reached it.
/// Once the largest TTL has passed, all that it may have forgotten is over, and it can't grant what another holds. So
/// long nobody is granted anything by it. What exactly this is worth: docs/design/0006.
pub(super) struct RestartGuard {
    pub namespace: Namespace,
    pub max_ttl: Duration,
    /// For how long a server that was replaced may go on being asked for grants, as far as that is in our hands.
    pub left_within: Duration,
}

/// From when on a server is asked for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    pub grants_from: Instant,
    pub renews_from: Instant,
    /// The largest `max_ttl` that any client has given.
    pub largest: Duration,
}

/// How much later than `min-replicas-max-lag` says a master that was replaced may take its last write: it looks at its
/// replicas once a second.
const LAG_IS_SEEN: Duration = Duration::from_secs(2);

/// Since when a server has been the master that it is now stands in the server: each of its clients has to know.
const SINCE: &str = concat!(include_str!("scripts/since.lua"), "return { since(KEYS[1], ARGV[1]) }");

impl RestartGuard {
    /// What is to be thought of a server that we have just connected to.
    pub async fn examine(&self, connection: &mut MultiplexedConnection, node: &Node) -> Result<Standing, Fault> {
        let Some(identity) = node.identity() else {
            return Err(no_right("INFO, without which nobody can say when this server was started or promoted"));
        };
        let [to_write, max_lag, backlog_ttl, members] = self.settings(connection).await.map_err(Fault::Sent)?;
        let slot = match node.is_in_a_cluster() {
            true => {
                Some(own_slot(&members).ok_or_else(|| no_right("CLUSTER NODES, which says whose slots are whose"))?)
            }
            false => None,
        };
        let key = keys::since(&self.namespace, &identity, &slot.map(cluster::tag_of).unwrap_or_default());
        let (known, max_ttl) = match self.ask_since(connection, &key).await {
            Ok(known) => known,
            Err(error) if is_no_right(&error) => {
                return Err(no_right(&format!("EVAL with the key {key}, where it stands since when it is the master")));
            }
            // What can't be written down (it is out of memory, say) is taken for the worst.
            Err(_) => (Duration::ZERO, self.max_ttl),
        };
        let age =
            known.max(node.master_for_at_least(number(&backlog_ttl).map(Duration::from_secs)).unwrap_or_default());
        let lag = old_master_goes_on(node, &to_write, &max_lag).unwrap_or_default();
        let now = Instant::now();
        let from = |span: Duration| now + validity::outlasting(span.saturating_sub(age));
        Ok(Standing {
            grants_from: from(max_ttl + lag.max(self.left_within)),
            renews_from: from(lag),
            largest: max_ttl,
        })
    }

    /// What bears on it of the server's configuration. Who may not ask knows nothing.
    async fn settings(&self, connection: &mut MultiplexedConnection) -> RedisResult<[Value; 4]> {
        let mut asked = redis::pipe();
        for setting in ["min-replicas-to-write", "min-replicas-max-lag", "repl-backlog-ttl"] {
            asked.cmd("CONFIG").arg("GET").arg(setting);
        }
        asked.cmd("CLUSTER").arg("NODES");
        let answers = connection.send_packed_commands(&asked, 0, asked.len()).await?;
        Ok(<[Value; 4]>::try_from(answers).unwrap_or([Value::Nil, Value::Nil, Value::Nil, Value::Nil]))
    }

    async fn ask_since(&self, connection: &mut MultiplexedConnection, key: &str) -> RedisResult<(Duration, Duration)> {
        let mut call = redis::cmd("EVAL");
        call.arg(SINCE).arg(1).arg(key).arg(u64::try_from(self.max_ttl.as_millis()).unwrap_or(u64::MAX));
        let (known, max): (i64, u64) = call.query_async(connection).await?;
        Ok((Duration::from_millis(u64::try_from(known).unwrap_or(0)), Duration::from_millis(max)))
    }
}

impl Standing {
    /// For how long it grants nothing yet.
    pub fn grants_in(&self) -> Option<Duration> {
        let left = self.grants_from.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// For how long it is not to renew anything yet: the one that it replaces may still be serving.
    pub fn renews_in(&self) -> Option<Duration> {
        let left = self.renews_from.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

fn is_no_right(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::NoPerm) || error.to_string().contains("NOPERM")
}

fn no_right(what: &str) -> Fault {
    let message = format!("this user may not ask for {what}; grant it, or write restart_guard=off");
    Fault::Unsent(ErrorKind::AccessDenied, message)
}

/// For how long a master that has been replaced goes on at the most, if that is known: without its replicas it stops.
fn old_master_goes_on(node: &Node, to_write: &Value, max_lag: &Value) -> Option<Duration> {
    stops_within(number(to_write)?, number(max_lag)?, node.replicas?)
}

/// What `CONFIG GET` of one setting says.
fn number(setting: &Value) -> Option<u64> {
    let settings: HashMap<String, String> = redis::from_redis_value(setting.clone()).ok()?;
    settings.into_values().next()?.parse().ok()
}

/// The same, with this many replicas.
pub(super) fn stops_within(to_write: u64, max_lag: u64, replicas: u64) -> Option<Duration> {
    let stops = to_write > 0 && max_lag > 0 && to_write >= replicas;
    stops.then(|| Duration::from_secs(max_lag) + LAG_IS_SEEN)
}

/// The first slot of the node that says this, in `CLUSTER NODES`.
pub(super) fn own_slot(members: &Value) -> Option<u16> {
    let text = answer::text(members)?;
    let own = text.lines().find(|line| line.split(' ').nth(2).is_some_and(|flags| flags.contains("myself")))?;
    let range = own.split(' ').skip(8).find(|range| !range.starts_with('['))?;
    range.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str) -> Value {
        let text = |text: &str| Value::BulkString(text.into());
        Value::Map(vec![(text(name), text(value))])
    }

    #[test]
    fn an_old_master_stops_only_if_it_needs_all_its_replicas() {
        let node = |replicas| Node { replicas: Some(replicas), ..Node::default() };
        let goes_on = |replicas, to_write: &str, lag: &str| {
            old_master_goes_on(&node(replicas), &setting("to", to_write), &setting("lag", lag))
        };
        assert_eq!(goes_on(1, "1", "10"), Some(Duration::from_secs(12)));
        assert_eq!(goes_on(2, "2", "1"), Some(Duration::from_secs(3)));
        for (replicas, to_write, lag) in [(2, "1", "10"), (1, "0", "10"), (1, "1", "0")] {
            assert_eq!(goes_on(replicas, to_write, lag), None);
        }
        assert_eq!(old_master_goes_on(&node(1), &Value::Nil, &Value::Nil), None, "who may not ask doesn't know");
    }

    #[test]
    fn its_own_slot_is_found() {
        let lines = "a 127.0.0.1:1@2 master - 0 1 1 connected 0-100\n\
                     b 127.0.0.1:3@4 myself,master - 0 1 2 connected [7->-c] 200-300 400\n";
        assert_eq!(own_slot(&Value::BulkString(lines.into())), Some(200));
        assert_eq!(own_slot(&Value::BulkString("b 127.0.0.1:3@4 myself,slave a 0 1 2 connected".into())), None);
    }
}
