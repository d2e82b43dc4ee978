//! Who may know whom, held by reading the imports.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// What stores and layers may import of ours; the rest knows them, not they it.
const WORDS: [&str; 13] = [
    "bound", "chance", "error", "finding", "lease", "marks", "member", "name", "rule", "span", "store", "tick",
    "validity",
];

fn sources(below: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(below)];
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            folders.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    assert!(!found.is_empty(), "nothing below {below}");
    found
}

/// The first segment of every `crate::…` path in a file.
fn imports(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.split("crate::").skip(1).map(|rest| &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]).collect()
}

#[test]
fn stores_and_layers_know_only_the_words() {
    for (path, text) in sources("stores").into_iter().chain(sources("layers")) {
        let own = ["stores", "layers", "ErrorKind", "Applied"]; // Themselves, and links in documentation.
        for import in imports(&text) {
            assert!(WORDS.contains(&import) || own.contains(&import), "{} imports {import}", path.display());
        }
    }
}

#[test]
fn a_store_knows_no_other_store() {
    for (path, text) in sources("stores") {
        if path.ends_with("stores/mod.rs") {
            continue; // It opens them all: that is its work.
        }
        let home = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stores")).unwrap();
        let home = home.iter().next().unwrap().to_string_lossy().trim_end_matches(".rs").to_owned();
        for rest in text.split("crate::stores::").skip(1) {
            // What the databases of servers have in common knows none of them.
            let is_sql =
                ["postgres", "mysql"].contains(&&*home) && ["sql::", "sql;"].iter().any(|name| rest.starts_with(name));
            let is_of_urls = ["secrets::", "percent::", "password::", "query;", "tls::", "wrong::"]
                .iter()
                .any(|name| rest.starts_with(name));
            let shared = is_sql || is_of_urls;
            assert!(rest.starts_with(&home) || shared, "{} knows another store", path.display());
        }
    }
}

#[test]
fn locks_never_ask_which_store_it_is() {
    for file in ["lock.rs", "guard.rs", "hold.rs", "keeper.rs", "wait.rs"] {
        for (path, text) in sources(file) {
            let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            for word in ["stores::", "sqlite", "redis", "etcd", "postgres", "mysql", ".kind =="] {
                assert!(!code.contains(word), "{} knows of {word}", path.display());
            }
        }
    }
}

#[test]
fn drivers_are_known_to_their_stores_and_fences_only() {
    for (path, text) in sources("") {
        let parts: Vec<_> = path.components().map(Component::as_os_str).collect();
        if parts.contains(&"stores".as_ref()) || parts.contains(&"fence".as_ref()) {
            continue;
        }
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//") && !line.contains("feature ="));
        for line in code {
            for driver in ["rusqlite", "tokio_postgres", "sqlx", "tonic::", "prost::"] {
                assert!(!line.contains(driver), "{} knows a driver: {line}", path.display());
            }
        }
    }
}

#[test]
fn only_validity_turns_a_ttl_into_a_deadline() {
    for (path, text) in sources("") {
        if path.ends_with("validity.rs") {
            continue;
        }
        for word in ["DRIFT", "mul_f64((1.0"] {
            assert!(!text.contains(word), "{} computes trust by itself", path.display());
        }
        for word in ["SystemTime", "UNIX_EPOCH"] {
            let store = path.components().any(|part| part.as_os_str() == "stores");
            assert!(store || !text.contains(word), "{} reads the wall clock", path.display());
        }
    }
}
