//! Licences and crates that must not come in, as `deny.toml` says: what `cargo deny check licenses bans` would refuse is
//! refused here, too, on a machine that has no cargo-deny. Only that knows of advisories.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What `deny.toml` says.
struct Rules {
    licences: Vec<String>,
    banned: Vec<String>,
}

impl Rules {
    fn read() -> Self {
        let text = fs::read_to_string(root().join("deny.toml")).unwrap();
        let rules: toml::Table = text.parse().unwrap();
        let list = |section: &str, key: &str| rules[section][key].as_array().unwrap().clone();
        let licences = list("licenses", "allow").iter().map(|licence| licence.as_str().unwrap().to_owned()).collect();
        let banned = list("bans", "deny").iter().map(|ban| ban["crate"].as_str().unwrap().to_owned()).collect();
        Self { licences, banned }
    }

    /// Whether it can be used under allowed licences alone: an expression of SPDX, or the older `A/B`.
    fn allow(&self, expression: &str) -> bool {
        let spaced =
            expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "+WITH+");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut rest = &words[..];
        self.any(&mut rest) && rest.is_empty()
    }

    fn any(&self, words: &mut &[&str]) -> bool {
        let mut good = self.all(words);
        while next_if(words, "OR") {
            good |= self.all(words);
        }
        good
    }

    fn all(&self, words: &mut &[&str]) -> bool {
        let mut good = self.one(words);
        while next_if(words, "AND") {
            good &= self.one(words);
        }
        good
    }

    fn one(&self, words: &mut &[&str]) -> bool {
        if next_if(words, "(") {
            let good = self.any(words);
            return next_if(words, ")") && good;
        }
        let Some((licence, rest)) = words.split_first() else { return false };
        *words = rest;
        self.licences.contains(&licence.replace("+WITH+", " WITH "))
    }
}

fn next_if(words: &mut &[&str], word: &str) -> bool {
    let Some((_, rest)) = words.split_first().filter(|(first, _)| **first == word) else { return false };
    *words = rest;
    true
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// What cargo says of all that may be built here, with each feature.
fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ask = |args: &[&str]| {
        let asked = Command::new(&cargo).current_dir(root()).args(args).output().unwrap();
        assert!(asked.status.success(), "{args:?}: {}", String::from_utf8_lossy(&asked.stderr));
        String::from_utf8(asked.stdout).unwrap()
    };
    let said = ask(&["-vV"]);
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    // For this platform, which needs nothing that was not fetched to build this.
    let what = ["metadata", "--format-version=1", "--all-features", "--locked", "--offline", "--filter-platform", host];
    serde_json::from_str(&ask(&what)).unwrap()
}

#[test]
fn every_licence_is_allowed() {
    let (rules, metadata) = (Rules::read(), metadata());
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let used: BTreeSet<&str> = nodes.iter().map(|node| node["id"].as_str().unwrap()).collect();
    let packages = metadata["packages"].as_array().unwrap();
    let packages = packages.iter().filter(|package| used.contains(package["id"].as_str().unwrap()));
    let mut seen = 0;
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(rules.allow(licence), "{} is under {licence}, which deny.toml does not allow", package["name"]);
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}

/// Of every platform and every feature: all of them are in the lock file.
#[test]
fn no_banned_crate_comes_in() {
    let rules = Rules::read();
    let lock: toml::Table = fs::read_to_string(root().join("Cargo.lock")).unwrap().parse().unwrap();
    let names = lock["package"].as_array().unwrap().iter().map(|package| package["name"].as_str().unwrap());
    let names: BTreeSet<&str> = names.collect();
    assert!(names.contains("rustls") && rules.banned.len() >= 4);
    for banned in &rules.banned {
        assert!(!names.contains(banned.as_str()), "{banned} has come in: `cargo tree --all-features -i {banned}`");
    }
}

#[test]
fn expressions_of_licences_are_read_as_spdx_has_them() {
    let rules = Rules { licences: ["MIT", "ISC", "A WITH B"].map(String::from).into(), banned: Vec::new() };
    for good in ["MIT", "MIT/GPL-3.0", "GPL-3.0 OR MIT AND ISC", "(GPL-3.0 OR ISC) AND MIT", "A WITH B", "(MIT)"] {
        assert!(rules.allow(good), "{good}");
    }
    for bad in
        ["GPL-3.0", "MIT AND GPL-3.0", "A", "A WITH C", "none", "", "MIT ISC", "(MIT", "(GPL-3.0 OR MPL) AND MIT"]
    {
        assert!(!rules.allow(bad), "{bad}");
    }
}
