//! `leasehold.toml`, read and checked key by key.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use leasehold::stores::fallback;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::OnDown;
use super::fault::Fault;
use super::file::{ConfigFile, Kind, StoreEntry};
use super::is_plain;
use crate::args::duration;
use crate::exit::{self, Failure};
use crate::output::counted;

/// Checks a file key by key. Values never go into a message: they may be secrets.
pub(super) struct Reader<'a> {
    pub path: &'a Path,
    pub text: &'a str,
}

/// What a store may be given.
const STORE: &str = "url with password_file, quorum or fallback; on_down";
const FALLBACK: &str = "primary, arbiter, primary_name, route_lease, max_ttl, down_after and up_after";

/// A store that is being read: its keys come in any order.
#[derive(Default)]
struct Draft {
    url: Option<String>,
    password_file: Option<PathBuf>,
    composed: Option<Kind>,
    on_down: OnDown,
}

/// The same of a fallback.
#[derive(Default)]
struct FallbackDraft {
    primary: String,
    arbiter: String,
    settings: fallback::Settings,
}

impl Reader<'_> {
    /// The file, or the first thing that is wrong with it.
    pub fn read(&self) -> Result<ConfigFile, Failure> {
        let (file, faults) = self.look();
        match faults.into_iter().min() {
            Some(Fault { line, message, .. }) => {
                Err(Failure::new(exit::CONFIG, format!("{}, line {line}: {message}", self.path.display())))
            }
            None => Ok(file),
        }
    }

    /// All that is wrong with it.
    pub fn faults(&self) -> Vec<Fault> {
        self.look().1
    }

    fn look(&self) -> (ConfigFile, Vec<Fault>) {
        let mut file = ConfigFile { path: self.path.to_owned(), default: None, stores: Vec::new() };
        let (table, errors) = DeTable::parse_recoverable(self.text);
        if !errors.is_empty() {
            let told = |error: &toml::de::Error| {
                self.fault(error.span().unwrap_or_default(), &format!("this is not TOML: {}", error.message()))
            };
            return (file, errors.iter().map(told).collect());
        }
        let mut faults = Vec::new();
        for (key, value) in table.get_ref() {
            match key.get_ref().as_ref() {
                "default" => match self.text_of("default", value) {
                    Ok(name) => file.default = Some(name),
                    Err(fault) => faults.push(fault),
                },
                "stores" => self.stores(value, &mut file, &mut faults),
                // Only `schedule` looks into them: what is wrong there must not keep `run` from its store.
                "jobs" => {}
                _ => faults.push(self.unknown(key, "default, [stores.NAME] and [jobs.NAME]")),
            }
        }
        if faults.is_empty() {
            faults.extend(self.bad_default(&file, table.get_ref()));
        }
        (file, faults)
    }

    fn bad_default(&self, file: &ConfigFile, table: &DeTable<'_>) -> Option<Fault> {
        let name = file.default.as_ref()?;
        let is_here = file.stores.iter().any(|entry| entry.name == *name);
        let message = format!("default names a store that is not here; there are: {}", file.names());
        (!is_here).then(|| self.fault(table.get("default").map(Spanned::span).unwrap_or_default(), &message))
    }

    fn stores(&self, value: &Spanned<DeValue<'_>>, file: &mut ConfigFile, faults: &mut Vec<Fault>) {
        let stores = match self.table_of("stores", value) {
            Ok(stores) => stores,
            Err(fault) => return faults.push(fault),
        };
        for (name, value) in stores {
            let known = faults.len();
            match self.store(name, value, faults) {
                Ok(store) => file.stores.push(store),
                // What is missing may be there, misspelt.
                Err(fault) if faults.len() == known => faults.push(fault),
                Err(_) => {}
            }
        }
    }

    fn store(
        &self,
        name: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        faults: &mut Vec<Fault>,
    ) -> Result<StoreEntry, Fault> {
        let key = format!("stores.{}", name.get_ref());
        if !is_plain(name.get_ref()) {
            return Err(self.fault(name.span(), "a store's name is made of letters, digits, - and _; choose another"));
        }
        let mut draft = Draft::default();
        for (field, value) in self.table_of(&key, value)? {
            let key = format!("{key}.{}", field.get_ref());
            match field.get_ref().as_ref() {
                "quorum" | "fallback" => self.composed(&mut draft, &key, field, value, faults),
                _ => faults.extend(self.field(&mut draft, &key, field, value).err()),
            }
        }
        let Draft { url, password_file, composed, on_down } = draft;
        let kind = match (composed, url) {
            (Some(_), Some(_)) => Err(format!("{key} has an url and is made of stores, too; take one of them out")),
            (Some(_), None) if password_file.is_some() => Err(format!(
                "{key}.password_file is for a store with an url; give that one a name of its own, and name it here"
            )),
            (Some(kind), None) => Ok(kind),
            (None, Some(url)) => Ok(Kind::Url { url, password_file }),
            (None, None) => Err(format!("{key} has no url; add url = \"sqlite:///…\"")),
        };
        let kind = kind.map_err(|message| self.fault(name.span(), &message))?;
        Ok(StoreEntry { name: name.get_ref().to_string(), kind, on_down, line: self.fault(name.span(), "").line })
    }

    fn field(
        &self,
        draft: &mut Draft,
        key: &str,
        field: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), Fault> {
        match field.get_ref().as_ref() {
            "url" => draft.url = Some(self.text_of(key, value)?),
            "password_file" => draft.password_file = Some(self.text_of(key, value)?.into()),
            "on_down" => draft.on_down = self.on_down(key, value)?,
            _ => return Err(self.unknown(field, STORE)),
        }
        Ok(())
    }

    /// All that is wrong with what it is made of.
    fn composed(
        &self,
        draft: &mut Draft,
        key: &str,
        field: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        faults: &mut Vec<Fault>,
    ) {
        if draft.composed.is_some() {
            let message = format!("{key}: a store is a quorum or a fallback; take one out");
            return faults.push(self.fault(field.span(), &message));
        }
        let known = faults.len();
        let kind = match field.get_ref().as_ref() {
            "quorum" => self.quorum(key, value, faults),
            _ => self.fallback(key, value, faults),
        };
        draft.composed = kind.map_err(|fault| faults.extend(Some(fault).filter(|_| faults.len() == known))).ok();
    }

    fn quorum(&self, key: &str, value: &Spanned<DeValue<'_>>, faults: &mut Vec<Fault>) -> Result<Kind, Fault> {
        let members = value.get_ref().as_array();
        let members = members.ok_or_else(|| self.wrong_type(key, value, "a list: [\"redis://…\", …]"))?;
        let urls = members.iter().filter_map(|member| self.noted(self.text_of(key, member), faults)).collect();
        if members.len() < 3 || members.len().is_multiple_of(2) {
            let members = counted(members.len(), "member");
            let message = format!("{key} has {members}, but has to have an odd number, three at least");
            faults.push(self.fault(value.span(), &message));
        }
        Ok(Kind::Quorum(urls))
    }

    fn fallback(&self, key: &str, value: &Spanned<DeValue<'_>>, faults: &mut Vec<Fault>) -> Result<Kind, Fault> {
        let table = value.get_ref().as_table();
        let table = table.ok_or_else(|| self.wrong_type(key, value, "{ primary = \"…\", arbiter = \"…\" }"))?;
        let (mut draft, known) = (FallbackDraft::default(), faults.len());
        for (field, value) in table {
            let key = format!("{key}.{}", field.get_ref());
            self.noted(self.fallback_field(&mut draft, &key, field, value), faults);
        }
        // What is missing may be there, misspelt.
        if faults.len() == known {
            let missing = [("primary", "redis://…"), ("arbiter", "postgres://…")];
            for (word, which) in missing.into_iter().filter(|(word, _)| table.get(*word).is_none()) {
                faults.push(self.fault(value.span(), &format!("{key} has no {word}; add {word} = \"{which}\"")));
            }
        }
        let FallbackDraft { primary, arbiter, settings } = draft;
        Ok(Kind::Fallback { primary, arbiter, settings })
    }

    fn fallback_field(
        &self,
        draft: &mut FallbackDraft,
        key: &str,
        field: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), Fault> {
        let settings = draft.settings.clone();
        let settings = match field.get_ref().as_ref() {
            "primary" => {
                draft.primary = self.text_of(key, value)?;
                return Ok(());
            }
            "arbiter" => {
                draft.arbiter = self.text_of(key, value)?;
                return Ok(());
            }
            "primary_name" => settings.primary_name(self.text_of(key, value)?),
            "route_lease" => settings.route_lease(self.span(key, value)?),
            "max_ttl" => settings.max_ttl(self.span(key, value)?),
            "down_after" => settings.down_after(self.span(key, value)?),
            "up_after" => settings.up_after(self.span(key, value)?),
            _ => return Err(self.unknown(field, FALLBACK)),
        };
        settings.check().map_err(|error| self.fault(value.span(), &format!("{key}: {error}")))?;
        draft.settings = settings;
        Ok(())
    }

    /// What was read; what is wrong with it is noted.
    fn noted<T>(&self, read: Result<T, Fault>, faults: &mut Vec<Fault>) -> Option<T> {
        read.map_err(|fault| faults.push(fault)).ok()
    }

    fn on_down(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<OnDown, Fault> {
        OnDown::from_str(&self.text_of(key, value)?, false)
            .map_err(|_| self.fault(value.span(), &format!("{key} has to be \"fail\" or \"skip\"")))
    }

    fn span(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Duration, Fault> {
        duration(&self.text_of(key, value)?).map_err(|why| self.fault(value.span(), &format!("{key}: {why}")))
    }

    fn text_of(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, Fault> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| self.wrong_type(key, value, "text in quotes"))
    }

    fn table_of<'v>(&self, key: &str, value: &'v Spanned<DeValue<'v>>) -> Result<&'v DeTable<'v>, Fault> {
        value.get_ref().as_table().ok_or_else(|| {
            self.wrong_type(
                key,
                value,
                if key == "stores" { "tables; write [stores.NAME]" } else { "a table with an url" },
            )
        })
    }

    fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) -> Fault {
        self.fault(
            value.span(),
            &format!("{key} is of the type {}, but has to be {wanted}", value.get_ref().type_str()),
        )
    }

    fn unknown(&self, key: &Spanned<DeString<'_>>, known: &str) -> Fault {
        let message =
            format!("unknown key {:?}; known here: {known}. Correct its spelling, or take it out", key.get_ref());
        self.fault(key.span(), &message)
    }

    fn fault(&self, at: Range<usize>, message: &str) -> Fault {
        Fault::at(self.text, at.start, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ConfigFile, String> {
        Reader { path: Path::new("/etc/l.toml"), text }.read().map_err(|failure| {
            assert_eq!(failure.code, exit::CONFIG);
            failure.message
        })
    }

    #[test]
    fn all_that_is_wrong_with_what_a_store_is_made_of_is_told() {
        for (text, wanted) in [
            ("[stores.q]\nquorum = [5, \"a\", true, \"b\"]", &["4 members", "integer", "boolean"][..]),
            (
                "[stores.f]\nfallback = { primary = 5, arbitr = \"x\", up_after = \"soon\", route_lease = \"1ms\" }",
                &["primary is of the type integer", "\"arbitr\"", "up_after: ", "route lease is 1ms"],
            ),
            ("[stores.f]\nfallback = {}", &["has no primary", "has no arbiter"]),
        ] {
            let faults = Reader { path: Path::new("/etc/l.toml"), text }.faults();
            assert_eq!(faults.len(), wanted.len(), "{faults:?}");
            for part in wanted {
                assert!(faults.iter().any(|fault| fault.message.contains(part)), "{part}: {faults:?}");
            }
        }
    }

    const GOOD: &str = r#"
default = "main"

[stores.main]
url = "sqlite:///var/lib/leasehold/locks.db"

[stores.other]
url = "redis://bob@h:1/0"
password_file = "secret"
"#;

    #[test]
    fn a_good_file_is_read() {
        let file = read(GOOD).unwrap();
        assert_eq!((file.default.as_deref(), file.stores.len(), file.stores[1].line), (Some("main"), 2, 7));
    }

    #[test]
    fn a_bad_file_is_refused_with_line_key_rule_and_fix() {
        for (text, wanted) in [
            (
                "defualt = \"x\"",
                &["/etc/l.toml, line 1: ", "\"defualt\"", "default, [stores.NAME] and [jobs.NAME]", "take it out"][..],
            ),
            ("\n[stores.a]\nulr = \"x\"", &["line 3: ", "\"ulr\"", "url with password_file"]),
            ("[stores.a]\nurl = 5", &["line 2: stores.a.url", "integer", "text in quotes"]),
            ("[stores.a]\n", &["line 1: stores.a has no url", "add url ="]),
            ("stores = 5", &["line 1: stores", "[stores.NAME]"]),
            ("[stores]\na = \"redis://:hunter2@h\"", &["line 2: stores.a is of the type string"]),
            ("[stores.q]\nquorum = [\"a\", \"b\"]", &["line 2: stores.q.quorum has 2 members", "odd number"]),
            ("[stores.q]\nquorum = [\"a\"]", &["line 2: stores.q.quorum has 1 member, but", "odd number"]),
            ("[stores.q]\nquorum = [\"a\", \"b\", 5]", &["line 2: stores.q.quorum", "integer"]),
            ("[stores.q]\nquorum = \"a\"", &["line 2: stores.q.quorum", "a list"]),
            ("[stores.q]\nquorum = [\"a\", \"b\", \"c\"]\nurl = \"x:\"", &["line 1: stores.q has an url", "take one"]),
            (
                "[stores.q]\nquorum = [\"a\", \"b\", \"c\"]\npassword_file = \"x\"",
                &["line 1: stores.q.password_file", "a name of its own"],
            ),
            (
                "[stores.f]\nfallback = { primary = \"a\" }",
                &["line 2: stores.f.fallback has no arbiter", "postgres://"],
            ),
            ("[stores.f.fallback]\narbiter = \"a\"", &["line 1: stores.f.fallback has no primary", "redis://"]),
            ("[stores.f]\nfallback = \"redis://:hunter2@h\"", &["line 2: stores.f.fallback", "arbiter ="]),
            ("[stores.f.fallback]\nprimray = \"a\"", &["line 2: unknown key \"primray\"", "route_lease"]),
            ("[stores.f.fallback]\nup_after = \"soon\"", &["line 2: stores.f.fallback.up_after", "90s"]),
            (
                "[stores.f.fallback]\nroute_lease = \"500ms\"",
                &["line 2: stores.f.fallback.route_lease", "route lease is 500ms", "1s to"],
            ),
            ("[stores.a]\nurl = \"x:\"\non_down = \"run\"", &["line 3: stores.a.on_down", "\"fail\" or \"skip\""]),
            ("[stores.\"a:b\"]\nurl = \"x:\"", &["line 1: ", "letters, digits"]),
            ("default = \"b\"\n[stores.a]\nurl = \"x:\"", &["line 1: default names a store that is not here", "a"]),
            ("x = = 5", &["line 1: this is not TOML"]),
            ("[stores.a]\nurl = \"redis://:hunter2@h\nx", &["line 2: this is not TOML"]),
            ("[stores.a]\nurl = \"x:\"\nurl = \"redis://:hunter2@h\"", &["line 3: this is not TOML"]),
        ] {
            let message = read(text).err().unwrap_or_else(|| panic!("accepted: {text}"));
            for part in wanted {
                assert!(message.contains(part), "{part} not in {message}");
            }
            assert!(!message.contains("hunter2") && !message.contains('\n'), "{message}");
        }
    }

    /// Where an example of the manual's page would stand.
    fn read_as_in_the_manual(text: &str) -> Result<ConfigFile, String> {
        let path = Path::new("/etc/leasehold/leasehold.toml");
        Reader { path, text }.read().map_err(|failure| failure.message)
    }

    #[test]
    fn every_example_of_the_manual_is_read_or_refused_as_it_says() {
        const PAGE: &str = include_str!("../../../../docs/config.md");
        let (mut good, mut refused) = (0, 0);
        for example in PAGE.split("```toml\n").skip(1) {
            let (text, behind) = example.split_once("```\n").expect("it ends");
            let wanted = behind.strip_prefix("```text\n").map(|said| said.split_once("\n```").expect("it ends").0);
            match (read_as_in_the_manual(text), wanted) {
                (Ok(file), None) => {
                    let parts = file.stores.iter().filter_map(|entry| match &entry.kind {
                        Kind::Url { .. } => None,
                        Kind::Quorum(parts) => Some(parts.clone()),
                        Kind::Fallback { primary, arbiter, .. } => Some(vec![primary.clone(), arbiter.clone()]),
                    });
                    for part in parts.flatten().filter(|part| !part.contains(':')) {
                        assert!(file.stores.iter().any(|entry| entry.name == part), "{part} is missing in {text}");
                    }
                    good += 1;
                }
                (Err(said), Some(wanted)) => {
                    assert_eq!(said, wanted);
                    refused += 1;
                }
                (read, wanted) => panic!("{:?} instead of {wanted:?}: {text}", read.err()),
            }
        }
        assert!(good >= 4 && refused >= 8, "{good} {refused}");
        for key in STORE.split([' ', ',', ';']).chain(FALLBACK.split([' ', ','])) {
            let is_key = !["", "with", "or", "and"].contains(&key);
            assert!(!is_key || PAGE.contains(&format!("| `{key}` |")), "{key} has no row");
        }
    }
}
