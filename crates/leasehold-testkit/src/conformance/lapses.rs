//! Leases that ended, and calls that come late.

use leasehold::{Release, Renewal, Revoke, Store};
use tokio::time::Instant;

use super::scene::{ALL_OF_LONG, Claimant, LONG, fresh_name, inspect, outlive, remaining, surely_over};

/// A lease that nobody renews ends, and not before its time.
pub async fn a_lease_ends_after_its_ttl(store: &dyn Store) {
    let (name, ttl) = (fresh_name("lease ends"), store.traits().smallest_ttl);
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    let sent = Instant::now();
    a.takes(store, ttl).await;
    let (_, granted) = b.takes_within(store, surely_over(ttl)).await;
    // Two clocks whose rates may differ, as `leasehold::validity` has it.
    assert!(granted - sent >= leasehold::validity::of(ttl), "granted to another after {:?}", granted - sent);
}

/// *Renew never acquires*: what was over is gone, though nobody has taken it; a release says so too.
pub async fn an_expired_lease_is_gone_though_nobody_took_it(store: &dyn Store) {
    let (name, ttl) = (fresh_name("expired gone"), store.traits().smallest_ttl);
    let a = Claimant::of(&name);
    a.takes(store, ttl).await;
    outlive(ttl).await;
    // A store may be late with it, the later the busier it is.
    a.is_gone(store).await;
    assert_eq!(a.renews(store, LONG).await, Renewal::Gone);
    assert_eq!(inspect(store, &name).await, None);
    assert_eq!(a.releases(store).await, Release::NotHeld);
    Claimant::of(&name).takes(store, LONG).await;
}

/// *Renew never acquires*: neither what was released nor what was never granted.
pub async fn renewal_never_acquires(store: &dyn Store) {
    let name = fresh_name("renewal never acquires");
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    assert_eq!(a.renews(store, LONG).await, Renewal::Gone);
    assert_eq!(inspect(store, &name).await, None);
    a.takes(store, LONG).await;
    assert_eq!(a.releases(store).await, Release::Released);
    assert_eq!(a.renews(store, LONG).await, Renewal::Gone);
    assert_eq!(inspect(store, &name).await, None);
    b.takes(store, LONG).await;
}

/// *Late calls are harmless*: a past holder's renewal changes nothing of the present holder's lease.
pub async fn a_past_holders_renewal_is_harmless(store: &dyn Store) {
    let name = fresh_name("late renewal");
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    a.takes(store, LONG).await;
    assert_eq!(a.releases(store).await, Release::Released);
    let token = b.takes(store, LONG).await;
    assert_eq!(a.renews(store, LONG * 10).await, Renewal::Gone);
    let holding = inspect(store, &name).await.expect("it is held");
    assert_eq!((holding.holder, holding.token), (Some(b.holder), token));
    assert!(holding.remaining <= ALL_OF_LONG, "{holding:?}");
}

/// *Late calls are harmless*: a past holder's release doesn't free the present holder's lease, whether the
/// past one ended by time, by an operator or by a release.
pub async fn a_past_holders_release_is_harmless(store: &dyn Store) {
    let (name, ttl) = (fresh_name("late release"), store.traits().smallest_ttl);
    let (expired, revoked, released) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
    expired.takes(store, ttl).await;
    revoked.takes_within(store, surely_over(ttl)).await;
    store.revoke(&name, None, Revoke::Now).await.expect("a revocation is answered");
    released.takes(store, LONG).await;
    assert_eq!(released.releases(store).await, Release::Released);

    let now = Claimant::of(&name);
    now.takes(store, LONG).await;
    for past in [&expired, &revoked, &released] {
        assert_eq!(past.releases(store).await, Release::NotHeld);
        assert_eq!(Claimant::of(&name).is_refused(store).await.holder, Some(now.holder));
    }
    assert!(remaining(store, &name).await > LONG / 2);
}

/// A release by somebody who never held it changes nothing and says so; so does a second one.
pub async fn a_release_without_a_lease_is_harmless(store: &dyn Store) {
    let name = fresh_name("release without");
    let (a, stranger) = (Claimant::of(&name), Claimant::of(&name));
    assert_eq!(a.releases(store).await, Release::NotHeld);
    a.takes(store, LONG).await;
    assert_eq!(stranger.releases(store).await, Release::NotHeld);
    assert_eq!(stranger.is_refused(store).await.holder, Some(a.holder));
    assert_eq!(a.releases(store).await, Release::Released);
    assert_eq!(a.releases(store).await, Release::NotHeld);
    assert_eq!(inspect(store, &name).await, None);
}
