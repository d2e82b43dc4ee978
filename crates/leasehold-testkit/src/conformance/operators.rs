//! Minimum holds, revocations, and what an operator is shown.

use std::time::Duration;

use leasehold::{Attempt, Release, Renewal, Revoke, Severity, Store};
use tokio::time::Instant;

use super::scene::{
    ALL_OF_LONG, Claimant, LONG, ensure, fresh_name, inspect, name, refused, remaining, surely_over, while_waiters_live,
};

/// A release with a minimum hold: nobody holds the name and nobody is granted it, waiters and the last
/// holder included; and no renewal or release matches it.
pub async fn a_minimum_hold_keeps_the_name(store: &dyn Store) {
    let name = fresh_name("minimum hold");
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    let token = a.takes(store, LONG).await;
    assert_eq!(a.releases_but_keeps(store, LONG / 2).await, Release::Released);
    let holding = b.is_refused(store).await;
    assert_eq!((holding.holder, holding.token), (None, token), "{holding:?}");
    assert!(holding.remaining > LONG / 4 && holding.remaining <= ALL_OF_LONG / 2, "{holding:?}");
    assert_eq!(a.renews(store, LONG).await, Renewal::Gone);
    assert_eq!(a.releases(store).await, Release::NotHeld);
    a.leaves(store).await;
    a.is_refused(store).await;
    refused("a waiter", b.waits(store).await).unwrap();
    let holding = inspect(store, &name).await.expect("it is kept");
    assert!(holding.holder.is_none() && holding.remaining <= ALL_OF_LONG / 2, "{holding:?}");
}

/// A minimum hold ends, and not before its time.
pub async fn a_minimum_hold_ends(store: &dyn Store) {
    let (name, keep_for) = (fresh_name("minimum hold ends"), store.traits().smallest_ttl);
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    let first = a.takes(store, LONG).await;
    let sent = Instant::now();
    assert_eq!(a.releases_but_keeps(store, keep_for).await, Release::Released);
    let (second, granted) = b.takes_within(store, surely_over(keep_for)).await;
    assert!(granted - sent >= leasehold::validity::of(keep_for), "kept for {:?}", granted - sent);
    assert!(first < second);
}

/// Revoked gently, a lease can't be renewed, but it is the holder's until it releases it. Everybody is told.
pub async fn revoked_gently_it_is_not_renewed(store: &dyn Store) {
    let name = fresh_name("revoked gently");
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    a.takes(store, LONG).await;
    let revoked = store.revoke(&name, None, Revoke::Gently).await.expect("a revocation is answered");
    assert_eq!(revoked.expect("it was held").holder, Some(a.holder));
    assert_eq!(a.renews(store, LONG * 10).await, Renewal::Revoked);
    let holding = b.is_refused(store).await;
    assert_eq!(holding.holder, Some(a.holder));
    assert!(holding.revoked && holding.remaining <= ALL_OF_LONG, "{holding:?}");
    assert!(inspect(store, &name).await.expect("it is held").revoked);
    assert_eq!(a.releases(store).await, Release::Released);
    b.takes(store, LONG).await;
    assert_eq!(b.renews(store, LONG).await, Renewal::Renewed, "the next holder isn't revoked");
}

/// Revoked gently, a lease can't be had by asking for it again either: the claimant would count from this claim.
pub async fn revoked_gently_it_is_not_granted_again(store: &dyn Store) {
    let name = fresh_name("revoked again");
    let a = Claimant::of(&name);
    a.takes(store, LONG).await;
    store.revoke(&name, None, Revoke::Gently).await.expect("a revocation is answered");
    let answer = a.tries(store, LONG * 10).await;
    assert!(matches!(answer, Attempt::Held(_)), "{answer:?}");
    assert!(remaining(store, &name).await <= ALL_OF_LONG);
    assert_eq!(a.renews(store, LONG).await, Renewal::Revoked);
    assert_eq!(a.releases(store).await, Release::Released);
}

/// Revoked gently, a lease ends with its TTL.
pub async fn revoked_gently_it_ends_with_its_ttl(store: &dyn Store) {
    let (name, ttl) = (fresh_name("revoked ends"), store.traits().smallest_ttl);
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    let sent = Instant::now();
    a.takes(store, ttl).await;
    store.revoke(&name, None, Revoke::Gently).await.expect("a revocation is answered");
    let (_, granted) = b.takes_within(store, surely_over(ttl)).await;
    assert!(granted - sent >= leasehold::validity::of(ttl), "granted to another after {:?}", granted - sent);
    assert_eq!(b.renews(store, LONG).await, Renewal::Renewed);
}

/// Revoked at once, a name is free at once, and the old holder can do nothing about it.
pub async fn revoked_now_it_is_free(store: &dyn Store) {
    let name = fresh_name("revoked now");
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    a.takes(store, LONG).await;
    let revoked = store.revoke(&name, None, Revoke::Now).await.expect("a revocation is answered");
    let revoked = revoked.expect("it was held");
    assert_eq!((revoked.holder, revoked.label.as_str()), (Some(a.holder), a.label.as_str()));
    assert_ne!(a.renews(store, LONG).await, Renewal::Renewed);
    b.takes(store, LONG).await;
    assert_ne!(a.renews(store, LONG).await, Renewal::Renewed);
    assert_eq!(a.releases(store).await, Release::NotHeld);
    assert_eq!(a.is_refused(store).await.holder, Some(b.holder));
    assert_eq!(b.renews(store, LONG).await, Renewal::Renewed);
}

/// Revoking what nobody holds answers none and leaves no trace.
pub async fn revoking_nobody_is_harmless(store: &dyn Store) {
    let name = fresh_name("revoking nobody");
    for how in [Revoke::Gently, Revoke::Now] {
        assert_eq!(store.revoke(&name, None, how).await.expect("a revocation is answered"), None);
        let a = Claimant::of(&name);
        a.takes(store, LONG).await;
        assert_eq!(a.renews(store, LONG).await, Renewal::Renewed);
        assert_eq!(a.releases(store).await, Release::Released);
    }
}

/// A look says who holds it; none if nobody does, and never did.
pub async fn a_look_says_who(store: &dyn Store) {
    let name = fresh_name("look");
    assert_eq!(inspect(store, &name).await, None);
    let a = Claimant::of(&name);
    let token = a.takes(store, LONG).await;
    let holding = inspect(store, &name).await.expect("it is held");
    assert_eq!(holding.name, name);
    assert_eq!((holding.holder, holding.token, holding.label), (Some(a.holder), token, a.label.clone()));
    assert!(holding.remaining <= ALL_OF_LONG && holding.remaining > LONG / 2);
    assert!(holding.held_for < LONG / 2);
    assert_eq!((holding.revoked, holding.waiting, holding.ticket), (false, 0, None));
    assert_eq!(a.releases(store).await, Release::Released);
    assert_eq!(inspect(store, &name).await, None);
}

/// The listing has every name that is held or waited for, in order, with how many wait.
pub async fn the_list_is_in_order(store: &dyn Store) {
    while_waiters_live(async |_| {
        let base = fresh_name("list");
        // The order of bytes, not of a language.
        let names = ["Z", "a", "b", "\u{e9}"].map(|end| name(&format!("{base} {end}")));
        let holders = names.each_ref().map(Claimant::of);
        for holder in holders.iter().rev() {
            holder.takes(store, LONG).await;
        }
        for _ in 0..2 {
            refused("a waiter", Claimant::of(&names[1]).waits(store).await)?;
        }
        for released in [&holders[1], &holders[2]] {
            assert_eq!(released.releases(store).await, Release::Released);
        }

        let listed = store.list().await.expect("a listing is answered");
        ensure!(listed.is_sorted_by(|a, b| a.name < b.name), "not in order of name: {listed:?}");
        let ours: Vec<_> = listed.iter().filter(|holding| names.contains(&holding.name)).collect();
        let told: Vec<_> = ours.iter().map(|holding| (&holding.name, holding.holder, holding.waiting)).collect();
        let right = vec![
            (&names[0], Some(holders[0].holder), 0),
            (&names[1], None, 2),
            (&names[3], Some(holders[3].holder), 0),
        ];
        ensure!(told == right, "{told:?} instead of {right:?}");
        Ok(())
    })
    .await;
}

/// A store says what it is in a word fit for a URL's scheme, and what it can keep.
pub async fn traits_make_sense(store: &dyn Store) {
    let traits = store.traits();
    assert!(!traits.kind.is_empty() && traits.kind.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    assert!(traits.smallest_ttl > Duration::ZERO && traits.smallest_ttl <= Duration::from_secs(10));
    assert_eq!(store.for_keeper().traits(), traits);
}

/// A store that passes finds no problem with itself, and whatever it finds can be mended.
pub async fn a_diagnosis_finds_no_problem(store: &dyn Store) {
    for finding in store.diagnose().await.expect("a diagnosis is answered") {
        assert!(finding.severity < Severity::Problem, "{finding:?}");
        assert!(finding.severity == Severity::Fine || finding.fix.is_some(), "no fix: {finding:?}");
    }
}
