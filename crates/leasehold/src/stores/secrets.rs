//! URLs without what is secret in them.

/// `url` fit to be shown: a password, in front or in the query, is replaced by `***`.
#[must_use]
pub fn hide_secrets(url: &str) -> String {
    let (front, query) = match url.find('?').map(|mark| url.split_at(mark)) {
        // A password with a ? in it, which should have been written %3F.
        Some((_, query)) if has_stray_at(&query[1..]) => {
            let at = url.rfind('@').unwrap_or_default();
            let query = url[at..].find('?').map(|mark| &url[at + mark + 1..]);
            (query.map_or(url, |query| &url[..url.len() - query.len() - 1]), query)
        }
        Some((front, query)) => (front, Some(&query[1..])),
        None => (url, None),
    };
    // The path of a file may have an @; what stands before the path (and shouldn't) may be a password.
    let host_ends = match front.strip_prefix("sqlite://") {
        Some(rest) => front.len() - rest.len() + rest.find('/').unwrap_or(rest.len()),
        None => front.len(),
    };
    let at = front[..host_ends].rfind('@');
    let is_strict =
        ["etcd", "redis", "redlock", "postgres", "mysql", "mariadb"].iter().any(|scheme| front.starts_with(scheme));
    let mut shown = match (front.find("://"), at) {
        // A user alone, as databases are told whom they know by other means.
        (Some(start), Some(at))
            if start + 3 <= at && is_strict && !front.starts_with("red") && !front[start + 3..at].contains(':') =>
        {
            front.to_owned()
        }
        (Some(start), Some(at)) if start + 3 <= at => {
            let user = front[start + 3..at].split(':').next().unwrap_or_default();
            format!("{}{user}:***{}", &front[..start + 3], &front[at..])
        }
        (None, Some(at)) if is_strict => {
            let scheme = front.split([':', '/']).next().unwrap_or_default(); // Misspelt, too.
            format!("{scheme}:***{}", &front[at..])
        }
        (Some(start), None) if is_strict => {
            let path = front[start + 3..].find('/').map_or(front.len(), |path| start + 3 + path);
            let hosts: Vec<_> = front[start + 3..path].split(',').map(shown_host).collect();
            format!("{}{}{}", &front[..start + 3], hosts.join(","), &front[path..])
        }
        _ => front.to_owned(),
    };
    // Whatever isn't known may be a password that was misspelt.
    if let Some(query) = query {
        let parts: Vec<String> = query
            .split('&')
            .map(|pair| match pair.split_once('=') {
                Some((key, _)) if !HARMLESS.contains(&key) && (is_strict || is_secret(key)) => format!("{key}=***"),
                _ => pair.to_owned(),
            })
            .collect();
        shown = format!("{shown}?{}", parts.join("&"));
    }
    shown
}

/// `host:port` fit to be shown: what is no port may be a password whose `@` was forgotten.
pub(crate) fn shown_host(text: &str) -> String {
    let v6 = text.find(']').filter(|_| text.starts_with('[')).map(|end| end + 1);
    match v6.or_else(|| text.find(':')).map(|end| text.split_at(end)) {
        Some((host, port)) if port.len() > 1 => format!("{host}:{}", shown_port(&port[1..])),
        _ => text.to_owned(),
    }
}

/// The same of a port alone.
pub(crate) fn shown_port(text: &str) -> &str {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text } else { "***" }
}

/// What may be shown of the options of servers.
const HARMLESS: [&str; 19] = [
    "namespace",
    "db",
    "user",
    "ca",
    "cert",
    "compat",
    "table",
    "restart_guard",
    "max_ttl",
    "wait_replicas",
    "host",
    "port",
    "schema",
    "sslmode",
    "socket",
    "ssl-mode",
    "target_session_attrs",
    "mode",
    "key_scheme",
];

/// Whether what looks like options has an @ where an option's name should be.
pub(crate) fn has_stray_at(query: &str) -> bool {
    query.split('&').any(|pair| pair.split('=').next().is_some_and(|name| name.contains('@')))
}

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["pass", "secret", "token", "key", "auth"].iter().any(|word| key.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_urls_are_never_shown() {
        for (url, shown) in [
            ("redis://bob:hunter2@h:1/0", "redis://bob:***@h:1/0"),
            ("redis://:hunter2@h:1/0", "redis://:***@h:1/0"),
            ("redis://u:p@ss@h", "redis://u:***@h"),
            ("sqlite:///a@b/c.db?namespace=x", "sqlite:///a@b/c.db?namespace=x"),
            ("sqlite://user:hunter2@/tmp/x.db", "sqlite://user:***@/tmp/x.db"),
            ("redis://:hun?ter2@h?namespace=x", "redis://:***@h?namespace=x"),
            ("rediss://h?ca=/x@y", "rediss://h?ca=/x@y"),
            ("redis://h?pas=hunter2&db=3", "redis://h?pas=***&db=3"),
            ("mysql://bob:hunter2@h/db?namespace=x&pw=hunter2", "mysql://bob:***@h/db?namespace=x&pw=***"),
            ("mariadb://bob@h/db?ca=/x&password_file=/y", "mariadb://bob@h/db?ca=/x&password_file=***"),
            ("mysql://bob@h/db?socket=/x&ssl-mode=required", "mysql://bob@h/db?socket=/x&ssl-mode=required"),
            ("mysql://u:hunter2@h/db?compat=shedlock&table=x", "mysql://u:***@h/db?compat=shedlock&table=x"),
            (
                "postgres://u@h/db?mode=advisory&key_scheme=with_advisory_lock&modus=x",
                "postgres://u@h/db?mode=advisory&key_scheme=with_advisory_lock&modus=***",
            ),
            ("postgres://bob:hunter2/jobs?host=/run", "postgres://bob:***/jobs?host=/run"),
            ("redis://a:1,[::1]:2,[::1],bob:hunter2", "redis://a:1,[::1]:2,[::1],bob:***"),
            ("redis+unix:///run/x:y", "redis+unix:///run/x:y"),
            ("etcd://bob@a:1,b:2", "etcd://bob@a:1,b:2"),
            ("mysql:bob:hunter2@h/db", "mysql:***@h/db"),
            ("etcd://bob:hunter2@a:1,b:2?compat=etcdctl", "etcd://bob:***@a:1,b:2?compat=etcdctl"),
            ("etcds://h?ca=/x&pas=hunter2&key=/k", "etcds://h?ca=/x&pas=***&key=***"),
            ("etcd:/bob:hunter2@h", "etcd:***@h"),
            ("redis:/:hunter2@h", "redis:***@h"),
            ("redlock://:hunter2@a:1,b,c?pas=x", "redlock://:***@a:1,b,c?pas=***"),
            ("redlocks://hunter2@a,b,c", "redlocks://hunter2:***@a,b,c"),
            ("redis//:hunter2@h", "redis:***@h"),
            ("redis://h?password=hunter2&namespace=x", "redis://h?password=***&namespace=x"),
            (
                "redis+sentinel://u:hunter2@a,b/m?sentinel_password=x",
                "redis+sentinel://u:***@a,b/m?sentinel_password=***",
            ),
            ("postgres://u:hunter2@h/db?sslmode=require&pass=x", "postgres://u:***@h/db?sslmode=require&pass=***"),
            ("postgres://u@h/db?schema=x", "postgres://u@h/db?schema=x"),
            ("postgres://u:hun?ter2@h/db", "postgres://u:***@h/db"),
            ("postgresql:///db?host=/run/x&password=hunter2", "postgresql:///db?host=/run/x&password=***"),
            ("postgres:/u:hunter2@h/db", "postgres:***@h/db"),
        ] {
            assert_eq!(hide_secrets(url), shown);
        }
    }
}
