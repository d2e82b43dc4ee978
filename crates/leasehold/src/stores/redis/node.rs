//! What a server says of itself.

use std::time::Duration;

/// What `INFO` said when we connected. A user without the right to ask knows nothing of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Another one after each start.
    pub run_id: Option<String>,
    /// Another one after each promotion.
    pub replid: Option<String>,
    /// That of the master that it was a replica of, or was itself before a restart: nothing but zeros if there was none.
    pub replid2: Option<String>,
    /// How many follow it.
    pub replicas: Option<u64>,
    pub role: Option<Role>,
    pub uptime: Option<Duration>,
    pub version: Option<String>,
    /// `standalone`, `cluster` or `sentinel`.
    pub mode: Option<String>,
}

/// Who may be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    Master,
    /// And of whom.
    Replica(String),
}

impl Node {
    /// Reads sections of `INFO`.
    pub fn read(text: &str) -> Self {
        let get = |field: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(name, _)| *name == field).map(|(_, value)| value.trim().to_owned())
        };
        let master = || {
            let part = |field| get(field).unwrap_or_default();
            format!("{}:{}", part("master_host"), part("master_port"))
        };
        let role = get("role").map(|role| if role == "master" { Role::Master } else { Role::Replica(master()) });
        let uptime = get("uptime_in_seconds").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        Self {
            run_id: get("run_id"),
            replid: get("master_replid"),
            replid2: get("master_replid2"),
            replicas: get("connected_slaves").and_then(|count| count.parse().ok()),
            role,
            uptime,
            version: get("redis_version"),
            mode: get("redis_mode"),
        }
    }
}

impl Node {
    /// Another one after each start and each promotion.
    pub fn identity(&self) -> Option<String> {
        Some(format!("{}-{}", self.run_id.as_ref()?, self.replid.as_ref()?))
    }

    /// For how long it has been a master, where that can be told: since its start, if it never was anything else. One
    /// that was promoted forgets that it was, but not before it has had no replicas for `backlog_ttl` (0: never).
    pub fn master_for_at_least(&self, backlog_ttl: Option<Duration>) -> Option<Duration> {
        let seems_nothing_else = self.replid2.as_ref()?.bytes().all(|digit| digit == b'0');
        let most = backlog_ttl.map(|ttl| if ttl.is_zero() { Duration::MAX } else { ttl })?;
        // It counts in whole seconds.
        let uptime = self.uptime.filter(|_| seems_nothing_else)?.saturating_sub(Duration::from_secs(1));
        Some(uptime.min(most))
    }

    /// As which kind of server it has greeted us, should it not have said more.
    pub fn greeted_with(mut self, mode: Option<String>) -> Self {
        self.mode = self.mode.or(mode);
        self
    }

    pub fn is_in_a_cluster(&self) -> bool {
        self.mode.as_deref() == Some("cluster")
    }

    pub fn is_a_sentinel(&self) -> bool {
        self.mode.as_deref() == Some("sentinel")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_says_whose_and_nothing_said_is_nothing_known() {
        let node = Node::read(
            "# Server\r\nrun_id:abc\r\nuptime_in_seconds:7\r\nrole:slave\r\nmaster_host:h\r\nmaster_port:1\r\n",
        );
        assert_eq!(node.role, Some(Role::Replica("h:1".into())));
        assert_eq!((node.run_id.as_deref(), node.uptime), (Some("abc"), Some(Duration::from_secs(7))));
        assert_eq!(Node::read("role:master").role, Some(Role::Master));
        assert_eq!(Node::read(""), Node::default());
    }

    #[test]
    fn uptime_tells_no_more_than_a_promotion_is_remembered() {
        let told = |replid2: &str| Node::read(&format!("uptime_in_seconds:7201\r\nmaster_replid2:{replid2}\r\n"));
        let (never, once) = (told("0000"), told("00a0"));
        let hours = |count: u64| Some(Duration::from_secs(3600 * count));
        assert_eq!(never.master_for_at_least(hours(1)), hours(1), "it may have forgotten a promotion an hour ago");
        assert_eq!(never.master_for_at_least(Some(Duration::ZERO)), hours(2), "it never forgets one");
        assert_eq!(never.master_for_at_least(None), None);
        assert_eq!(once.master_for_at_least(hours(1)), None);
    }
}
