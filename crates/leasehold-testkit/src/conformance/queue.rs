//! Who waits, in which order, and how one stops waiting.

use std::time::Duration;

use leasehold::store::QUEUE_ENTRY;
use leasehold::{Release, Revoke, Store, store::WakeUps};
use tokio::time::{sleep, timeout};

use super::scene::{Claimant, LONG, ensure, fresh_name, granted, inspect, refused, surely_over, while_waiters_live};

/// *First come, first served*, whoever asks first after the release.
pub async fn first_come_first_served(store: &dyn Store) {
    while_waiters_live(async |_| {
        let name = fresh_name("first come");
        let holder = Claimant::of(&name);
        let waiters = [Claimant::of(&name), Claimant::of(&name), Claimant::of(&name)];
        holder.takes(store, LONG).await;
        for waiter in &waiters {
            refused("a waiter", waiter.waits(store).await)?;
        }
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        for first in 0..waiters.len() {
            for later in waiters[first + 1..].iter().rev() {
                refused("a later waiter", later.waits(store).await)?;
            }
            granted("the first waiter", waiters[first].waits(store).await)?;
            ensure!(waiters[first].releases(store).await == Release::Released, "the grant did not hold");
        }
        Ok(())
    })
    .await;
}

/// A refusal says how many stand before the claimant; tickets grow.
pub async fn contention_says_how_many_are_ahead(store: &dyn Store) {
    while_waiters_live(async |_| {
        let name = fresh_name("ahead");
        Claimant::of(&name).takes(store, LONG).await;
        let mut last = None;
        for ahead in 0..4 {
            let holding = refused("a waiter", Claimant::of(&name).waits(store).await)?;
            ensure!(holding.waiting == ahead, "{ahead} stand before it: {holding:?}");
            ensure!(holding.ticket > last, "tickets grow: {holding:?} after {last:?}");
            last = holding.ticket;
        }
        let stranger = refused("a stranger", Claimant::of(&name).tries(store, LONG).await)?;
        ensure!(stranger.waiting == 4, "who doesn't queue stands behind all: {stranger:?}");
        Ok(())
    })
    .await;
}

/// A free name with live waiters goes to nobody else: neither to one who doesn't queue nor to a new waiter.
pub async fn a_stranger_does_not_overtake(store: &dyn Store) {
    while_waiters_live(async |_| {
        let name = fresh_name("stranger");
        let (holder, waiter) = (Claimant::of(&name), Claimant::of(&name));
        holder.takes(store, LONG).await;
        refused("a waiter", waiter.waits(store).await)?;
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        let told = refused("a stranger", Claimant::of(&name).tries(store, LONG).await)?;
        ensure!(told.holder.is_none() && told.waiting == 1, "free, and one is ahead: {told:?}");
        refused("a newcomer", Claimant::of(&name).waits(store).await)?;
        granted("the waiter", waiter.waits(store).await)?;
        Ok(())
    })
    .await;
}

/// A waiter counts for [`QUEUE_ENTRY`] after it last asked, not less.
pub async fn a_waiter_counts_until_its_entry_ends(store: &dyn Store) {
    while_waiters_live(async |window| {
        let name = fresh_name("waiter counts");
        let (holder, waiter) = (Claimant::of(&name), Claimant::of(&name));
        holder.takes(store, LONG).await;
        window.opens();
        refused("a waiter", waiter.waits(store).await)?;
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        sleep((QUEUE_ENTRY * 2 / 3).saturating_sub(window.age())).await;
        refused("a stranger", Claimant::of(&name).tries(store, LONG).await)?;
        Ok(())
    })
    .await;
}

/// A waiter that stopped asking is skipped.
pub async fn a_dead_waiter_is_skipped(store: &dyn Store) {
    let name = fresh_name("dead waiter");
    let (holder, dead, live) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
    holder.takes(store, LONG).await;
    refused("a waiter", dead.waits(store).await).unwrap();
    outlive_the_entry_of_another(store, &live).await;
    assert_eq!(holder.releases(store).await, Release::Released);
    granted("the live waiter", live.waits(store).await).unwrap();
}

/// Who was taken for dead comes back at its old place with its ticket.
pub async fn a_waiter_comes_back_at_its_old_place(store: &dyn Store) {
    while_waiters_live(async |window| {
        let name = fresh_name("comes back");
        let (holder, early, late) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
        holder.takes(store, LONG).await;
        let ticket = refused("a waiter", early.waits(store).await)?.ticket;
        outlive_the_entry_of_another(store, &late).await;

        window.opens();
        let told = refused("the late one", late.waits(store).await)?;
        ensure!(told.waiting == 0, "a dead waiter doesn't count: {told:?}");
        let told = refused("the early one", early.waits(store).await)?;
        ensure!(told.waiting == 0 && told.ticket == ticket, "its old place is the first: {told:?}");
        let told = refused("the late one", late.waits(store).await)?;
        ensure!(told.waiting == 1, "the early one is back before it: {told:?}");
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        refused("the late one", late.waits(store).await)?;
        granted("the early one", early.waits(store).await)?;
        Ok(())
    })
    .await;
}

/// Goes on asking as `waiter` until entries made before this are dead.
pub(super) async fn outlive_the_entry_of_another(store: &dyn Store, waiter: &Claimant) {
    for _ in 0..4 {
        refused("a waiter", waiter.waits(store).await).unwrap();
        sleep(QUEUE_ENTRY * 3 / 10).await;
    }
}

/// A waiter whose first answer was lost asks again without a ticket: it has one place, not two.
pub async fn asking_again_keeps_the_place(store: &dyn Store) {
    while_waiters_live(async |_| {
        let name = fresh_name("asking again");
        let (holder, first, second) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
        holder.takes(store, LONG).await;
        let lost = refused("a waiter", first.waits(store).await)?;
        first.forgets_its_ticket();
        let told = refused("a waiter", second.waits(store).await)?;
        ensure!(told.waiting == 1, "one stands before it: {told:?}");
        let told = refused("a waiter", first.waits(store).await)?;
        ensure!(told.waiting == 0 && told.ticket == lost.ticket, "it has kept its place: {told:?}");
        let told = refused("a waiter", second.waits(store).await)?;
        ensure!(told.waiting == 1, "the first is counted once: {told:?}");
        Ok(())
    })
    .await;
}

/// Who was granted the lock waits no longer, also if it asks again with its ticket.
pub async fn a_holder_does_not_queue(store: &dyn Store) {
    let name = fresh_name("holder does not queue");
    let (holder, waiter) = (Claimant::of(&name), Claimant::of(&name));
    holder.takes(store, LONG).await;
    refused("a waiter", waiter.waits(store).await).unwrap();
    assert_eq!(holder.releases(store).await, Release::Released);
    let token = granted("the waiter", waiter.waits(store).await).unwrap();
    assert_eq!(granted("the holder", waiter.waits(store).await), Ok(token));
    assert_eq!(inspect(store, &name).await.expect("it is held").waiting, 0);
    assert_eq!(waiter.releases(store).await, Release::Released);
    Claimant::of(&name).takes(store, LONG).await;
}

/// The first waiter gets what nobody released, too.
pub async fn a_waiter_gets_what_ran_out(store: &dyn Store) {
    let (name, ttl) = (fresh_name("waiter expiry"), store.traits().smallest_ttl);
    let (holder, waiter) = (Claimant::of(&name), Claimant::of(&name));
    holder.takes(store, ttl).await;
    let wait = async {
        while refused("the waiter", waiter.waits(store).await).is_ok() {
            sleep(QUEUE_ENTRY / 5).await;
        }
    };
    timeout(surely_over(ttl), wait).await.expect("a lease that ran out is free for who waits");
}

/// Leaving takes the waiter's place away at once. Leaving again does nothing.
pub async fn leaving_gives_up_the_place(store: &dyn Store) {
    let name = fresh_name("leaving");
    let (holder, waiter) = (Claimant::of(&name), Claimant::of(&name));
    holder.takes(store, LONG).await;
    refused("a waiter", waiter.waits(store).await).unwrap();
    waiter.leaves(store).await;
    waiter.leaves(store).await;
    assert_eq!(inspect(store, &name).await.expect("it is held").waiting, 0);
    assert_eq!(holder.releases(store).await, Release::Released);
    assert_eq!(inspect(store, &name).await, None);
    Claimant::of(&name).takes(store, LONG).await;
}

/// Leaving releases what was granted meanwhile.
pub async fn leaving_releases_a_grant(store: &dyn Store) {
    let name = fresh_name("leaving grant");
    let waiter = Claimant::of(&name);
    granted("the only one", waiter.waits(store).await).unwrap();
    waiter.leaves(store).await;
    assert_eq!(inspect(store, &name).await, None);
    Claimant::of(&name).takes(store, LONG).await;
}

/// Leaving by somebody who neither waits nor holds changes nothing.
pub async fn leaving_by_a_stranger_is_harmless(store: &dyn Store) {
    while_waiters_live(async |_| {
        let name = fresh_name("leaving stranger");
        let (holder, waiter, stranger) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
        stranger.leaves(store).await;
        holder.takes(store, LONG).await;
        refused("a waiter", waiter.waits(store).await)?;
        stranger.leaves(store).await;
        let told = refused("a stranger", stranger.tries(store, LONG).await)?;
        ensure!(told.holder == Some(holder.holder) && told.waiting == 1, "nothing has changed: {told:?}");
        Ok(())
    })
    .await;
}

/// A release rings for who waits, if this store has wake-ups.
pub async fn a_release_rings(store: &dyn Store) {
    rings(store, async |holder| {
        assert_eq!(holder.releases(store).await, Release::Released);
    })
    .await;
}

/// So does a revocation at once.
pub async fn a_revocation_rings(store: &dyn Store) {
    rings(store, async |holder| {
        store.revoke(&holder.name, None, Revoke::Now).await.expect("a revocation is answered");
    })
    .await;
}

/// So does who leaves with a grant.
pub async fn leaving_with_a_grant_rings(store: &dyn Store) {
    rings(store, async |holder| holder.leaves(store).await).await;
}

/// Subscribes, waits, lets the name become free, and only then listens: nothing may be missed.
async fn rings(store: &dyn Store, free: impl AsyncFn(&Claimant)) {
    if !store.traits().wake_ups {
        return;
    }
    while_waiters_live(async |window| {
        let name = fresh_name("rings");
        let (holder, waiter) = (Claimant::of(&name), Claimant::of(&name));
        holder.takes(store, LONG).await;
        let mut bell = subscribe(store, &waiter).await;
        window.opens();
        refused("a waiter", waiter.waits(store).await)?;
        free(&holder).await;
        let was_alive = window.is_open();
        if timeout(Duration::from_secs(5), bell.next()).await.is_err() {
            // Who isn't alive need not be woken.
            assert!(!was_alive, "nothing rang within 5 s");
            return Err("the waiter was too slow".to_owned());
        }
        Ok(())
    })
    .await;
}

async fn subscribe(store: &dyn Store, waiter: &Claimant) -> WakeUps {
    store.subscribe(&waiter.name).await.expect("a subscription is answered")
}

/// A subscription that is dropped, and one to another name, disturb nobody.
pub async fn subscriptions_come_and_go(store: &dyn Store) {
    let name = fresh_name("subscriptions");
    let holder = Claimant::of(&name);
    for _ in 0..200 {
        drop(subscribe(store, &holder).await);
    }
    let other = subscribe(store, &Claimant::of(&fresh_name("another"))).await;
    holder.takes(store, LONG).await;
    assert_eq!(holder.releases(store).await, Release::Released);
    drop(other);
    let _pause = timeout(Duration::from_millis(20), std::future::pending::<()>()).await;
    Claimant::of(&name).takes(store, LONG).await;
}
