//! A release gives the lock to who waits for it, in a store that hands over.

use std::time::Duration;

use leasehold::store::{QUEUE_ENTRY, WakeUps};
use leasehold::validity::Moment;
use leasehold::{Attempt, Claim, HandOver, Place, Release, Renewal, Revoke, Store};
use tokio::time::timeout;

use super::scene::{
    ALL_OF_LONG, Claimant, LONG, Ticks, Window, ask, ensure, fresh_name, granted, inspect, once, refused, remaining,
    while_waiters_live,
};

/// A claimant, and the moments at which it says that it sent its claims.
struct Waiter {
    claimant: Claimant,
    bell: WakeUps,
}

impl Waiter {
    async fn of(store: &dyn Store, claimant: Claimant) -> Self {
        let bell = store.subscribe(&claimant.name).await.expect("a subscription is answered");
        Self { claimant, bell }
    }

    async fn asks(&self, store: &dyn Store, claim: Claim, sent: u64) -> Attempt {
        let queue = claim.queue.map(|place| Place { sent: Some(Moment::from_nanos(sent)), ..place });
        ask(store, &Claim { queue, ..claim }).await
    }

    async fn waits(&self, store: &dyn Store, sent: u64) -> Result<(), String> {
        refused("a waiter", self.asks(store, self.claimant.queuing_claim(LONG), sent).await).map(drop)
    }

    /// Hears what it is given; nothing if it only may be.
    async fn hears(&mut self, window: &Window) -> Result<Option<HandOver>, String> {
        let was_alive = window.is_open();
        match timeout(Duration::from_secs(5), self.bell.next()).await {
            Ok(given) => Ok(given),
            // Who isn't alive need not be told.
            Err(_) if !was_alive => Err("the waiter was too slow".to_owned()),
            Err(_) => panic!("nothing rang within 5 s"),
        }
    }
}

/// *Handed over*: the first who waits holds the lock from the release on, under a token of its own, and hears when the
/// claim was sent that it was given to.
pub async fn a_release_hands_over(store: &dyn Store) {
    while_waiters_hear(store, async |window| {
        let name = fresh_name("hands over");
        let (holder, mut first) = (Claimant::of(&name), Waiter::of(store, Claimant::of(&name)).await);
        let mut second = Waiter::of(store, Claimant::of(&name)).await;
        let token = holder.takes(store, LONG).await;
        window.opens();
        first.waits(store, 11).await?;
        second.waits(store, 12).await?;
        first.waits(store, 13).await?;
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        let Some(given) = first.hears(window).await? else { return Err("it was not handed over".to_owned()) };
        ensure!(given.holder == first.claimant.holder, "it goes to the first: {given:?}");
        ensure!(given.sent == Moment::from_nanos(13), "the last claim counts: {given:?}");
        ensure!(given.grant.token > token, "the token grows: {given:?}");
        let held = inspect(store, &name).await.expect("it is held");
        ensure!(held.holder == Some(given.holder) && held.token == given.grant.token, "as it was said: {held:?}");
        ensure!(held.label == first.claimant.label, "the label is the waiter's: {held:?}");
        ensure!(held.waiting == 1, "it waits no longer: {held:?}");
        ensure!(first.claimant.renews(store, LONG).await == Renewal::Renewed, "it is a lease like any other");
        ensure!(first.claimant.releases(store).await == Release::Released, "it is a lease like any other");
        let given_next = second.hears(window).await?.filter(|next| next.holder != given.holder);
        let given_next = match given_next {
            Some(next) => Some(next),
            None => second.hears(window).await?, // it heard of the first one's, too
        };
        let Some(next) = given_next else { return Err("it was not handed on".to_owned()) };
        ensure!(
            next.holder == second.claimant.holder && next.sent == Moment::from_nanos(12),
            "then the next: {next:?}"
        );
        ensure!(next.grant.token > given.grant.token, "the token grows: {next:?}");
        Ok(())
    })
    .await;
}

/// A lease that is handed over lasts for the TTL of the waiter's claim, from the release on.
pub async fn what_is_handed_over_lasts_its_ttl(store: &dyn Store) {
    while_waiters_hear(store, async |window| {
        let name = fresh_name("handed over ttl");
        let (holder, mut waiter) = (Claimant::of(&name), Waiter::of(store, Claimant::of(&name)).await);
        holder.takes(store, LONG / 2).await;
        window.opens();
        waiter.waits(store, 1).await?;
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        ensure!(waiter.hears(window).await?.is_some(), "it was not handed over");
        let left = remaining(store, &name).await;
        ensure!(left > LONG * 3 / 4 && left <= ALL_OF_LONG, "it has its own TTL: {left:?}");
        Ok(())
    })
    .await;
}

/// Who did not hear of it asks, and gets the same grant.
pub async fn who_misses_a_hand_over_asks_for_it(store: &dyn Store) {
    while_waiters_hear(store, async |window| {
        let name = fresh_name("missed hand-over");
        let (holder, mut waiter) = (Claimant::of(&name), Waiter::of(store, Claimant::of(&name)).await);
        holder.takes(store, LONG).await;
        window.opens();
        waiter.waits(store, 1).await?;
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        let Some(given) = waiter.hears(window).await? else { return Err("it was not handed over".to_owned()) };
        let asked = granted("who was given it", waiter.asks(store, waiter.claimant.queuing_claim(LONG), 2).await)?;
        ensure!(asked == given.grant.token, "it has it already: {asked}");
        ensure!(inspect(store, &name).await.is_some_and(|held| held.waiting == 0), "it is not in the queue again");
        Ok(())
    })
    .await;
}

/// Who leaves without having heard of it gives it back, to the next.
pub async fn leaving_hands_on(store: &dyn Store) {
    while_waiters_hear(store, async |window| {
        let name = fresh_name("hands on");
        let holder = Claimant::of(&name);
        let (first, mut second) =
            (Waiter::of(store, Claimant::of(&name)).await, Waiter::of(store, Claimant::of(&name)).await);
        holder.takes(store, LONG).await;
        window.opens();
        first.waits(store, 1).await?;
        second.waits(store, 2).await?;
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        first.claimant.leaves(store).await;
        loop {
            match second.hears(window).await? {
                Some(given) if given.holder == second.claimant.holder => break,
                _ if window.is_open() => {} // of the first one's
                _ => return Err("it was not handed on".to_owned()),
            }
        }
        let held = inspect(store, &name).await.expect("it is held");
        ensure!(held.holder == Some(second.claimant.holder), "the next one has it: {held:?}");
        Ok(())
    })
    .await;
}

/// Who leaves before there is anything to give has nothing to hand on: whoever holds the lock still holds it, be it
/// revoked; and what is kept after a release stays kept.
pub async fn leaving_takes_nothing_from_who_holds(store: &dyn Store) {
    for how in ["held", "revoked", "kept"] {
        while_waiters_live(async |window| {
            let name = fresh_name("leaving takes nothing");
            let (holder, third) = (Claimant::of(&name), Claimant::of(&name));
            let (first, second) =
                (Waiter::of(store, Claimant::of(&name)).await, Waiter::of(store, Claimant::of(&name)).await);
            holder.takes(store, LONG).await;
            window.opens();
            first.waits(store, 1).await?;
            second.waits(store, 2).await?;
            match how {
                "revoked" => drop(holder.is_revoked(store, Revoke::Gently).await),
                "kept" => drop(holder.releases_but_keeps(store, LONG).await),
                _ => {}
            }
            first.claimant.leaves(store).await;
            let found = inspect(store, &name).await.expect("nobody else may have it");
            let expected = (how != "kept").then_some(holder.holder);
            ensure!(found.holder == expected, "{how}: {found:?}");
            let asked = third.tries(store, LONG).await;
            ensure!(matches!(asked, Attempt::Held(_)), "{how}: {asked:?}");
            let renewal = holder.renews(store, LONG).await;
            let expected = match how {
                "held" => Renewal::Renewed,
                "revoked" => Renewal::Revoked,
                _ => Renewal::Gone,
            };
            ensure!(renewal == expected, "{how}: {renewal:?}");
            Ok(())
        })
        .await;
    }
}

/// A revocation at once is a release, too.
pub async fn a_revocation_hands_over(store: &dyn Store) {
    while_waiters_hear(store, async |window| {
        let name = fresh_name("revocation hands over");
        let (holder, mut waiter) = (Claimant::of(&name), Waiter::of(store, Claimant::of(&name)).await);
        holder.takes(store, LONG).await;
        window.opens();
        waiter.waits(store, 1).await?;
        holder.is_revoked(store, Revoke::Now).await;
        let given = waiter.hears(window).await?;
        ensure!(
            given.as_ref().is_some_and(|given| given.holder == waiter.claimant.holder),
            "it was not handed over: {given:?}"
        );
        Ok(())
    })
    .await;
}

/// A waiter that stopped asking is given nothing.
pub async fn the_dead_are_handed_nothing(store: &dyn Store) {
    while_waiters_hear(store, async |window| {
        let name = fresh_name("dead are handed nothing");
        let holder = Claimant::of(&name);
        let (dead, mut live) =
            (Waiter::of(store, Claimant::of(&name)).await, Waiter::of(store, Claimant::of(&name)).await);
        holder.takes(store, LONG).await;
        dead.waits(store, 1).await?;
        tokio::time::sleep(QUEUE_ENTRY * 11 / 10).await;
        window.opens();
        live.waits(store, 2).await?;
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        let given = live.hears(window).await?;
        ensure!(
            given.as_ref().is_some_and(|given| given.holder == live.claimant.holder),
            "the live one gets it: {given:?}"
        );
        Ok(())
    })
    .await;
}

/// Who doesn't say when it sent its claim can't count from it, and is only woken.
pub async fn who_says_nothing_is_only_woken(store: &dyn Store) {
    only_woken(store, "says nothing", async |holder, waiter| {
        refused("a waiter", waiter.claimant.waits(store).await)?;
        Ok(holder.releases(store).await)
    })
    .await;
}

/// A tick is never handed over: whoever gets it, its mark has to be looked at.
pub async fn a_tick_is_not_handed_over(store: &dyn Store) {
    let tick = Ticks::of(store).await.nth(1);
    only_woken(store, "tick handed over", async |holder, waiter| {
        let claim = Claim { due: Some(once(tick)), ..waiter.claimant.queuing_claim(LONG) };
        refused("a waiter", waiter.asks(store, claim, 1).await)?;
        Ok(holder.releases(store).await)
    })
    .await;
}

/// A name that is kept for a minimum hold is not given to anybody before its end.
pub async fn a_minimum_hold_is_not_handed_over(store: &dyn Store) {
    while_waiters_hear(store, async |_| {
        let name = fresh_name("minimum hold handed over");
        let (holder, waiter) = (Claimant::of(&name), Waiter::of(store, Claimant::of(&name)).await);
        holder.takes(store, LONG).await;
        waiter.waits(store, 1).await?;
        ensure!(holder.releases_but_keeps(store, LONG).await == Release::Released, "the holder did not hold it");
        waiter.waits(store, 2).await?;
        let held = inspect(store, &name).await.expect("it is kept");
        ensure!(held.holder.is_none() && held.waiting == 1, "nobody has it: {held:?}");
        Ok(())
    })
    .await;
}

async fn only_woken(store: &dyn Store, case: &str, scene: impl AsyncFn(&Claimant, &Waiter) -> Result<Release, String>) {
    while_waiters_hear(store, async |window| {
        let name = fresh_name(case);
        let (holder, mut waiter) = (Claimant::of(&name), Waiter::of(store, Claimant::of(&name)).await);
        holder.takes(store, LONG).await;
        window.opens();
        ensure!(scene(&holder, &waiter).await? == Release::Released, "the holder did not hold it");
        let given = waiter.hears(window).await?;
        ensure!(given.is_none(), "it is to ask for it: {given:?}");
        let held = inspect(store, &name).await;
        ensure!(held.as_ref().is_none_or(|held| held.holder.is_none()), "nobody has it: {held:?}");
        Ok(())
    })
    .await;
}

async fn while_waiters_hear(store: &dyn Store, scenario: impl AsyncFn(&Window) -> Result<(), String>) {
    if store.traits().hands_over {
        while_waiters_live(scenario).await;
    }
}
