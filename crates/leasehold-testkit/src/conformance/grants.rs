//! Grants and tokens.

use std::time::Duration;

use leasehold::{Attempt, Release, Renewal, Revoke, Store};
use tokio::time::sleep;

use super::scene::{Claimant, LONG, fresh_name, inspect, lengthened, outlive, remaining, surely_over};

/// *Exclusive*: at most one unexpired lease of a name.
pub async fn exclusive(store: &dyn Store) {
    let name = fresh_name("exclusive");
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    a.takes(store, LONG).await;
    b.is_refused(store).await;
    assert_eq!(a.releases(store).await, Release::Released);
    b.takes(store, LONG).await;
    a.is_refused(store).await;
    assert_eq!(b.releases(store).await, Release::Released);
}

/// A refusal says who holds it, since when, for how long, and that nobody waits.
pub async fn contention_says_who(store: &dyn Store) {
    let name = fresh_name("contention says who");
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    let token = a.takes(store, LONG).await;
    sleep(Duration::from_millis(100)).await;
    let holding = b.is_refused(store).await;
    assert_eq!(holding.name, name);
    assert_eq!(holding.holder, Some(a.holder));
    assert_eq!(holding.label, a.label);
    assert_eq!(holding.token, token);
    // Counted in two clocks; 20 ms for their rounding.
    assert!(holding.held_for >= Duration::from_millis(80), "{holding:?}");
    assert!(holding.held_for < LONG, "{holding:?}");
    assert!(holding.remaining <= LONG - Duration::from_millis(80), "{holding:?}");
    assert!(holding.remaining > LONG / 2, "{holding:?}");
    assert!(!holding.revoked);
    assert_eq!((holding.waiting, holding.ticket), (0, None));
}

/// *Tokens grow* from one holder to the next.
pub async fn tokens_grow_over_releases(store: &dyn Store) {
    let name = fresh_name("tokens releases");
    let mut last = None;
    for _ in 0..5 {
        let a = Claimant::of(&name);
        let token = a.takes(store, LONG).await;
        assert!(last < Some(token), "{token} after {last:?}");
        last = Some(token);
        assert_eq!(a.releases(store).await, Release::Released);
    }
}

/// *Tokens grow* when a lease ran out.
pub async fn tokens_grow_over_expiry(store: &dyn Store) {
    let (name, ttl) = (fresh_name("tokens expiry"), store.traits().smallest_ttl);
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    let first = a.takes(store, ttl).await;
    let (second, _) = b.takes_within(store, surely_over(ttl)).await;
    assert!(first < second, "{second} after {first}");
}

/// *Tokens grow* when an operator cut a lease.
pub async fn tokens_grow_over_revocation(store: &dyn Store) {
    let name = fresh_name("tokens revocation");
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    let first = a.takes(store, LONG).await;
    store.revoke(&name, None, Revoke::Now).await.expect("a revocation is answered");
    let second = b.takes(store, LONG).await;
    assert!(first < second, "{second} after {first}");
}

/// *Tokens grow* when the same holder comes again after its release: that is another grant.
pub async fn tokens_grow_for_a_returning_holder(store: &dyn Store) {
    let name = fresh_name("tokens returning");
    let a = Claimant::of(&name);
    let first = a.takes(store, LONG).await;
    assert_eq!(a.releases(store).await, Release::Released);
    let second = a.takes(store, LONG).await;
    assert!(first < second, "{second} after {first}");
}

/// Renewals keep the token.
pub async fn renewals_keep_the_token(store: &dyn Store) {
    let name = fresh_name("renewals keep");
    let a = Claimant::of(&name);
    let token = a.takes(store, LONG).await;
    for _ in 0..20 {
        assert_eq!(a.renews(store, LONG).await, Renewal::Renewed);
    }
    assert_eq!(inspect(store, &name).await.expect("it is held").token, token);
    assert_eq!(a.takes(store, LONG).await, token);
}

/// A renewed lease ends one TTL after the renewal, not after the grant.
pub async fn a_renewed_lease_lives_on(store: &dyn Store) {
    let (a, _) = lengthened(store, "renewed lives on", async |a, _| {
        let answer = a.renews(store, LONG).await;
        if answer == Renewal::Renewed { Ok(()) } else { Err(format!("it had its lease: {answer:?}")) }
    })
    .await;
    assert!(remaining(store, &a.name).await > LONG / 2);
    outlive(store.traits().smallest_ttl).await;
    assert_eq!(Claimant::of(&a.name).is_refused(store).await.holder, Some(a.holder));
}

/// A renewal never brings the end nearer: one that was overtaken on its way must not cut what was promised.
pub async fn a_renewal_never_cuts_a_lease(store: &dyn Store) {
    let name = fresh_name("renewal never cuts");
    let a = Claimant::of(&name);
    a.takes(store, LONG).await;
    assert_eq!(a.renews(store, store.traits().smallest_ttl).await, Renewal::Renewed);
    assert!(remaining(store, &name).await > LONG / 2);
}

/// *Idempotent per holder*: the same claim sent again gets the same token.
pub async fn the_same_claim_gets_the_same_token(store: &dyn Store) {
    let name = fresh_name("same claim token");
    let a = Claimant::of(&name);
    let token = a.takes(store, LONG).await;
    assert_eq!(a.takes(store, LONG).await, token);
    match a.waits(store).await {
        Attempt::Granted(grant) => assert_eq!(grant.token, token, "also if it queues"),
        other => panic!("the holder itself was refused: {other:?}"),
    }
}

/// *Idempotent per holder*: the end moves to now + TTL. Only so may each answer count from the send of the
/// claim that it answers.
pub async fn the_same_claim_moves_the_end(store: &dyn Store) {
    let (a, token) = lengthened(store, "same claim end", async |a, first| {
        let token = a.takes(store, LONG).await;
        if token == first { Ok(()) } else { Err(format!("{token} in place of {first}")) }
    })
    .await;
    assert!(remaining(store, &a.name).await > LONG / 2);
    outlive(store.traits().smallest_ttl).await;
    assert_eq!(Claimant::of(&a.name).is_refused(store).await.token, token);
}

/// *Idempotent per holder*: the end never moves nearer.
pub async fn the_same_claim_never_cuts_the_lease(store: &dyn Store) {
    let name = fresh_name("same claim never cuts");
    let a = Claimant::of(&name);
    let token = a.takes(store, LONG).await;
    assert_eq!(a.takes(store, store.traits().smallest_ttl).await, token);
    assert!(remaining(store, &name).await > LONG / 2);
}
