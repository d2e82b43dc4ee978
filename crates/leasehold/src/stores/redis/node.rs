//! What a server says of itself.

use std::time::Duration;

/// What `INFO` said when we connected. A user without the right to ask knows nothing of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(dead_code, reason = "the restart guard reads what nobody else does")]
pub(super) struct Node {
    /// Another one after each start.
    pub run_id: Option<String>,
    /// Another one after each promotion.
    pub replid: Option<String>,
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
            role,
            uptime,
            version: get("redis_version"),
            mode: get("redis_mode"),
        }
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
}
