//! Leases, written down as the server reads them.

use std::time::Duration;

use crate::lease::LeaseKey;

/// `[["name", "holder", microseconds], …]`.
pub(super) fn json(leases: &[(LeaseKey, Duration)]) -> String {
    let mut text = String::with_capacity(leases.len() * 80);
    for (lease, ttl) in leases {
        text.push(if text.is_empty() { '[' } else { ',' });
        // No name has control characters.
        let name = lease.name.as_str().replace('\\', "\\\\").replace('"', "\\\"");
        text.push_str(&format!("[\"{name}\",\"{}\",{}]", lease.holder, ttl.as_micros()));
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::HolderId;
    use crate::name::LockName;

    #[test]
    fn any_name_can_be_written() {
        let holder = HolderId::parse(&"0".repeat(32)).unwrap();
        let lease = |name| (LeaseKey { name: LockName::new(name).unwrap(), holder }, Duration::from_secs(1));
        let text = json(&[lease("a \"b\" \\ é"), lease("c")]);
        let holder = "0".repeat(32);
        assert_eq!(text, format!("[[\"a \\\"b\\\" \\\\ é\",\"{holder}\",1000000],[\"c\",\"{holder}\",1000000]]"));
    }
}
