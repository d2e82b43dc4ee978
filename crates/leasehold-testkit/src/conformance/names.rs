//! What is the same lock and what isn't.

use std::collections::BTreeSet;

use leasehold::{HolderId, LockName, Release, Store};

use super::scene::{Claimant, LONG, fresh_name, inspect, name};

/// Spellings that some store somewhere takes for the same, or can't spell. `@` stands for a word in lower case,
/// `^` for the same in capitals.
const LOOK_ALIKES: &[&str] = &[
    "@",
    "^",
    "@ ",
    "@  ",
    " @",
    "@\u{a0}",
    "@\u{200b}",
    "@.",
    "@:",
    "@-",
    "@_",
    // One letter, two spellings; letters that fold to others.
    "@\u{e9}",
    "@e\u{301}",
    "@e",
    "@\u{df}",
    "@ss",
    "@\u{17f}s",
    "@k",
    "@\u{212a}",
    "@i",
    "@\u{131}",
    "@I",
    "@\u{130}",
    "@\u{fb01}",
    "@fi",
    "@\u{ff41}",
    "@a",
    // Paths, and what a percent sign may hide.
    "path@",
    "path@/",
    "path@/1",
    "path@//1",
    "/path@",
    "path@/../path@",
    "path@%2F1",
    "path@%2f1",
    "path@%",
    "path@%25",
    // Hash tags, patterns, quoting.
    "{@}",
    "{@",
    "@}",
    "{@}{@}",
    "{}@",
    "@*",
    "@?",
    "[@]",
    "'@'",
    "\"@\"",
    "`@`",
    "\\@",
    "\\\\@",
    "$@",
    "@;--",
    "#@",
    // Four bytes in UTF-8.
    "@\u{1f512}",
    "@\u{1f513}",
];

pub(super) fn look_alikes() -> Vec<LockName> {
    let word = format!("job{}", HolderId::fresh());
    let spell = |pattern: &&str| name(&pattern.replace('@', &word).replace('^', &word.to_uppercase()));
    LOOK_ALIKES.iter().map(spell).collect()
}

/// Names of the greatest length that differ in their last character.
fn longest_names() -> Vec<LockName> {
    let word = format!("job{}", HolderId::fresh());
    let padded = |with: char, last: char| {
        let room = LockName::LONGEST - word.len() - last.len_utf8();
        let padding = with.to_string().repeat(room / with.len_utf8());
        name(&format!("{word}{padding}{last}"))
    };
    vec![
        padded('x', 'a'),
        padded('x', 'b'),
        padded('x', 'A'),
        padded('\u{20ac}', '\u{20ac}'),
        padded('\u{20ac}', '\u{20ad}'),
        padded('\u{1f512}', '\u{1f512}'),
        padded('\u{1f512}', '\u{1f513}'),
    ]
}

/// *Name safe*: any two different names are two locks, and each is given back as it was spelled.
pub async fn different_names_are_different_locks(store: &dyn Store) {
    all_at_once(store, look_alikes()).await;
}

/// *Name safe*: also names of the greatest length that differ at their end only.
pub async fn long_names_are_told_apart(store: &dyn Store) {
    all_at_once(store, longest_names()).await;
}

async fn all_at_once(store: &dyn Store, names: Vec<LockName>) {
    let holders: Vec<Claimant> = names.iter().map(Claimant::of).collect();
    for holder in &holders {
        // There are many of them.
        holder.takes(store, LONG * 10).await;
    }
    for holder in &holders {
        let holding = inspect(store, &holder.name).await.expect("it is held");
        assert_eq!((&holding.name, holding.holder), (&holder.name, Some(holder.holder)));
    }
    let listed: BTreeSet<LockName> =
        store.list().await.expect("a listing is answered").into_iter().map(|holding| holding.name).collect();
    for name in &names {
        assert!(listed.contains(name), "{name:?} is not listed as it is spelled");
    }
    for holder in &holders {
        assert_eq!(holder.releases(store).await, Release::Released, "{:?}", holder.name);
    }
}

/// One name in two namespaces is two locks. `a` and `b` are one store seen through two namespaces.
pub async fn namespaces_are_apart(a: &dyn Store, b: &dyn Store) {
    let name = fresh_name("namespaces");
    let (in_a, in_b) = (Claimant::of(&name), Claimant::of(&name));
    in_a.takes(a, LONG).await;
    assert_eq!(inspect(b, &name).await, None);
    in_b.takes(b, LONG).await;
    assert_eq!(in_a.releases(b).await, Release::NotHeld);
    assert_eq!(in_a.releases(a).await, Release::Released);
    let listed = b.list().await.expect("a listing is answered");
    assert!(listed.iter().any(|holding| holding.holder == Some(in_b.holder)), "{listed:?}");
    assert_eq!(in_b.releases(b).await, Release::Released);
}
