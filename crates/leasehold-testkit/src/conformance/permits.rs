//! Locks that several may hold at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{Attempt, ErrorKind, FencingToken, HolderId, Holding, LockName, Release, Renewal, Revoke, Store};

use super::handles::handles;
use super::scene::{
    ALL_OF_LONG, Claimant, LONG, ensure, fresh_name, granted, holders, inspect, refused, surely_over,
    while_waiters_live,
};

/// Everybody who holds one of three permits, and what they were granted.
async fn three(store: &dyn Store, name: &LockName) -> ([Claimant; 3], [FencingToken; 3]) {
    let claimants = [(); 3].map(|()| Claimant::of_many(name, 3));
    let mut tokens = [FencingToken::default(); 3];
    for (claimant, token) in claimants.iter().zip(&mut tokens) {
        *token = claimant.takes(store, LONG).await;
    }
    (claimants, tokens)
}

fn set(holders: impl IntoIterator<Item = HolderId>) -> BTreeSet<HolderId> {
    holders.into_iter().collect()
}

/// Everybody whom an answer names; it names nobody twice.
fn named(holding: &Holding) -> BTreeSet<HolderId> {
    let all = holders(holding);
    let named = set(all.iter().copied());
    assert_eq!(all.len(), named.len(), "somebody is named twice: {holding:?}");
    named
}

/// *Exclusive*: of several permits, at most so many are held. One more is told who holds them.
pub async fn so_many_may_hold_it(store: &dyn Store) {
    let name = fresh_name("so many");
    let (claimants, _) = three(store, &name).await;
    let fourth = Claimant::of_many(&name, 3);
    let told = fourth.is_refused(store).await;
    assert_eq!(named(&told), set(claimants.each_ref().map(|claimant| claimant.holder)));
    assert_eq!((told.permits.get(), told.waiting), (3, 0), "{told:?}");
    for other in &told.others {
        assert!(
            claimants.iter().any(|claimant| claimant.holder == other.holder.unwrap() && claimant.label == other.label)
        );
    }
}

/// *Atomic in the store*: of many who ask at the same time, no more are granted than there are permits.
pub async fn no_more_of_many_are_granted(store: &dyn Store) {
    let handles = handles(store);
    for _ in 0..5 {
        let name = fresh_name("many for permits");
        let asking = (0..32).map(|index| {
            let (store, claimant) = (handles[index % handles.len()].clone(), Claimant::of_many(&name, 5));
            tokio::spawn(async move { claimant.tries(&*store, LONG).await })
        });
        let answers = join_all(asking).await.into_iter().map(|task| task.expect("no panic"));
        assert_eq!(answers.filter(|answer| matches!(answer, Attempt::Granted(_))).count(), 5);
    }
}

/// A release frees one permit, the holder's own.
pub async fn a_release_frees_one_permit(store: &dyn Store) {
    let name = fresh_name("permit release");
    let ([a, b, c], _) = three(store, &name).await;
    let [d, e] = [(); 2].map(|()| Claimant::of_many(&name, 3));
    assert_eq!(e.releases(store).await, Release::NotHeld, "it never had one");
    assert_eq!(b.releases(store).await, Release::Released);
    assert_eq!(b.releases(store).await, Release::NotHeld);
    d.takes(store, LONG).await;
    assert_eq!(named(&e.is_refused(store).await), set([a.holder, c.holder, d.holder]));
    for claimant in [&a, &c, &d] {
        assert_eq!(claimant.releases(store).await, Release::Released);
    }
    assert_eq!(inspect(store, &name).await, None);
}

/// *The store's clock*: each permit runs out on its own.
pub async fn each_permit_runs_out_on_its_own(store: &dyn Store) {
    let (name, ttl) = (fresh_name("permit expiry"), store.traits().smallest_ttl);
    let [long, short, late] = [(); 3].map(|()| Claimant::of_many(&name, 2));
    long.takes(store, LONG).await;
    short.takes(store, ttl).await;
    late.takes_within(store, surely_over(ttl)).await;
    assert_eq!(short.renews(store, LONG).await, Renewal::Gone);
    assert_eq!(short.releases(store).await, Release::NotHeld);
    assert_eq!(named(&Claimant::of_many(&name, 2).is_refused(store).await), set([long.holder, late.holder]));
}

/// Whose lease ends first is named first.
pub async fn whose_lease_ends_first_is_named_first(store: &dyn Store) {
    let name = fresh_name("ends first");
    let [second, third, first] = [(); 3].map(|()| Claimant::of_many(&name, 3));
    for (claimant, ttl) in [(&second, LONG * 2), (&third, LONG * 3), (&first, LONG)] {
        claimant.takes(store, ttl).await;
    }
    let told = Claimant::of_many(&name, 3).is_refused(store).await;
    assert_eq!(holders(&told), [first.holder, second.holder, third.holder]);
    assert!(told.remaining <= ALL_OF_LONG && told.others[0].remaining > LONG, "{told:?}");
}

/// Revoking one holder at once frees its permit; the others keep theirs.
pub async fn revoking_one_holder_leaves_the_others(store: &dyn Store) {
    let name = fresh_name("revoke one permit");
    let ([a, b, c], _) = three(store, &name).await;
    let was = b.is_revoked(store, Revoke::Now).await.expect("it was held");
    assert_eq!(named(&was), set([b.holder]), "the one that was hit");
    assert_eq!(b.is_revoked(store, Revoke::Now).await, None, "it is gone");
    assert_ne!(b.renews(store, LONG).await, Renewal::Renewed);
    let d = Claimant::of_many(&name, 3);
    d.takes(store, LONG).await;
    for claimant in [&a, &c, &d] {
        assert_eq!(claimant.renews(store, LONG).await, Renewal::Renewed);
    }
    assert_eq!(named(&b.is_refused(store).await), set([a.holder, c.holder, d.holder]));
}

/// Revoked gently, one holder can't renew; the others can, and nobody else is granted a permit.
pub async fn revoking_one_holder_gently_stops_its_renewals_only(store: &dyn Store) {
    let name = fresh_name("revoke one permit gently");
    let ([a, b, c], _) = three(store, &name).await;
    assert!(b.is_revoked(store, Revoke::Gently).await.is_some());
    for (claimant, answer) in [(&a, Renewal::Renewed), (&b, Renewal::Revoked), (&c, Renewal::Renewed)] {
        assert_eq!(claimant.renews(store, LONG).await, answer);
    }
    let told = Claimant::of_many(&name, 3).is_refused(store).await;
    let first = (told.holder, told.revoked);
    let others = told.others.iter().map(|other| (other.holder, other.revoked));
    let revoked: Vec<_> = std::iter::once(first).chain(others).filter(|(_, revoked)| *revoked).collect();
    assert_eq!(revoked, [(Some(b.holder), true)], "{told:?}");
    assert_eq!(b.releases(store).await, Release::Released);
    Claimant::of_many(&name, 3).takes(store, LONG).await;
}

/// Revoked gently, a holder that asks again is granted no other permit either, though one is free.
pub async fn revoked_gently_it_is_not_granted_another_permit(store: &dyn Store) {
    let name = fresh_name("revoke and ask again");
    let (a, b) = (Claimant::of_many(&name, 3), Claimant::of_many(&name, 3));
    a.takes(store, LONG).await;
    assert!(a.is_revoked(store, Revoke::Gently).await.is_some());
    let told = a.is_refused(store).await;
    assert_eq!(named(&told), set([a.holder]), "{told:?}");
    assert_eq!(a.renews(store, LONG).await, Renewal::Revoked);
    b.takes(store, LONG).await;
    assert_eq!(a.releases(store).await, Release::Released);
    assert_eq!(named(&inspect(store, &name).await.expect("it is held")), set([b.holder]));
}

/// Revoking without naming a holder ends every hold of the name; a holder of nothing ends none.
pub async fn revoking_all_holders_frees_all_permits(store: &dyn Store) {
    let name = fresh_name("revoke all permits");
    for how in [Revoke::Gently, Revoke::Now] {
        let (claimants, _) = three(store, &name).await;
        assert_eq!(Claimant::of_many(&name, 3).is_revoked(store, how).await, None);
        for claimant in &claimants {
            assert_eq!(claimant.renews(store, LONG).await, Renewal::Renewed);
        }
        let was = store.revoke(&name, None, how).await.expect("a revocation is answered").expect("it was held");
        assert_eq!(named(&was), set(claimants.each_ref().map(|claimant| claimant.holder)));
        for claimant in &claimants {
            assert_ne!(claimant.renews(store, LONG).await, Renewal::Renewed);
            let released = if how == Revoke::Now { Release::NotHeld } else { Release::Released };
            assert_eq!(claimant.releases(store).await, released);
        }
        assert_eq!(inspect(store, &name).await, None);
    }
    three(store, &name).await;
}

/// A claim for another number of permits than the live holders were granted is an error, and changes nothing. Once
/// nobody holds it, it is granted.
pub async fn holders_agree_on_the_permits(store: &dyn Store) {
    let name = fresh_name("agree");
    for (held, asked) in [(1, 3), (3, 1), (3, 2), (2, 3), (1, 2), (2, 1)] {
        let (a, b) = (Claimant::of_many(&name, held), Claimant::of_many(&name, asked));
        a.takes(store, LONG).await;
        for _ in 0..2 {
            let error = b.is_turned_away(store).await;
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{held} are held, {asked} were asked for: {error}");
        }
        let told = inspect(store, &name).await.expect("it is held");
        assert_eq!((named(&told), told.permits.get(), told.waiting), (set([a.holder]), held, 0), "{told:?}");
        assert_eq!(a.renews(store, LONG).await, Renewal::Renewed);
        assert_eq!(a.releases(store).await, Release::Released);
        b.takes(store, LONG).await;
        assert_eq!(a.is_turned_away(store).await.kind(), ErrorKind::Misconfigured);
        let told = inspect(store, &name).await.expect("it is held");
        assert_eq!((named(&told), told.permits.get()), (set([b.holder]), asked), "{told:?}");
        assert_eq!(b.releases(store).await, Release::Released);
    }
}

/// After another number was agreed on, it is that number, not the greatest there ever was.
pub async fn fewer_permits_are_fewer(store: &dyn Store) {
    let name = fresh_name("fewer");
    let (three, _) = three(store, &name).await;
    for claimant in &three {
        assert_eq!(claimant.releases(store).await, Release::Released);
    }
    let [a, b, c] = [(); 3].map(|()| Claimant::of_many(&name, 2));
    a.takes(store, LONG).await;
    b.takes(store, LONG).await;
    assert_eq!(named(&c.is_refused(store).await), set([a.holder, b.holder]));
    for claimant in [&a, &b] {
        assert_eq!(claimant.releases(store).await, Release::Released);
    }
    let only = Claimant::of(&name);
    only.takes(store, LONG).await;
    assert_eq!(holders(&Claimant::of(&name).is_refused(store).await), [only.holder]);
}

/// *Tokens grow* with every grant, over all permits, and whatever their number is.
pub async fn tokens_grow_over_all_permits(store: &dyn Store) {
    let name = fresh_name("permit tokens");
    let mut last = None;
    for permits in [1, 3, 2, 3, 1, 1, 2] {
        let mut held: Vec<Claimant> = Vec::new();
        for round in 0..permits + 2 {
            if held.len() == permits as usize {
                // Not the oldest each time: a new grant takes any place.
                let freed = held.remove(round as usize % held.len());
                assert_eq!(freed.releases(store).await, Release::Released);
            }
            let next = Claimant::of_many(&name, permits);
            let token = next.takes(store, LONG).await;
            assert!(last < Some(token), "{token} after {last:?}, with {permits} permits");
            last = Some(token);
            held.push(next);
        }
        for claimant in held.iter().rev() {
            assert_eq!(claimant.releases(store).await, Release::Released);
        }
    }
}

/// *First come, first served*: where several permits are free, the first so many waiters are granted, whoever asks
/// first.
pub async fn the_first_so_many_waiters_are_granted(store: &dyn Store) {
    while_waiters_live(async |_| {
        let name = fresh_name("first so many");
        let ([a, b, c], _) = three(store, &name).await;
        let waiters = [(); 4].map(|()| Claimant::of_many(&name, 3));
        for (ahead, waiter) in waiters.iter().enumerate() {
            let told = refused("a waiter", waiter.waits(store).await)?;
            ensure!(told.waiting == ahead as u64, "{ahead} stand before it: {told:?}");
        }
        for holder in [&a, &c] {
            ensure!(holder.releases(store).await == Release::Released, "a holder did not hold it");
        }
        for late in [&waiters[3], &waiters[2]] {
            refused("a late waiter", late.waits(store).await)?;
        }
        granted("the second waiter", waiters[1].waits(store).await)?;
        refused("the third waiter", waiters[2].waits(store).await)?;
        granted("the first waiter", waiters[0].waits(store).await)?;
        refused("the third waiter", waiters[2].waits(store).await)?;
        ensure!(b.releases(store).await == Release::Released, "a holder did not hold it");
        refused("the fourth waiter", waiters[3].waits(store).await)?;
        granted("the third waiter", waiters[2].waits(store).await)?;
        Ok(())
    })
    .await;
}

/// A waiter has one place in the queue of the name, however many permits there are.
pub async fn a_waiter_has_one_place_for_all_permits(store: &dyn Store) {
    while_waiters_live(async |_| {
        let name = fresh_name("one place");
        let ([a, ..], _) = three(store, &name).await;
        let (first, second) = (Claimant::of_many(&name, 3), Claimant::of_many(&name, 3));
        refused("the first waiter", first.waits(store).await)?;
        refused("the second waiter", second.waits(store).await)?;
        first.forgets_its_ticket();
        refused("the first waiter", first.waits(store).await)?;
        let told = inspect(store, &name).await.expect("it is held");
        ensure!(told.waiting == 2, "two wait: {told:?}");
        ensure!(a.releases(store).await == Release::Released, "the holder did not hold it");
        granted("the first waiter", first.waits(store).await)?;
        let told = inspect(store, &name).await.expect("it is held");
        ensure!(told.waiting == 1, "one waits: {told:?}");
        Ok(())
    })
    .await;
}

/// A stranger is granted no permit that a waiter stands before it for, but what is left over.
pub async fn a_stranger_takes_only_the_surplus(store: &dyn Store) {
    while_waiters_live(async |_| {
        let name = fresh_name("surplus");
        let ([a, b, _], _) = three(store, &name).await;
        let (waiter, stranger, late) =
            (Claimant::of_many(&name, 3), Claimant::of_many(&name, 3), Claimant::of_many(&name, 3));
        refused("the waiter", waiter.waits(store).await)?;
        ensure!(a.releases(store).await == Release::Released, "the holder did not hold it");
        let told = refused("a stranger", stranger.tries(store, LONG).await)?;
        ensure!(told.waiting == 1, "one is ahead: {told:?}");
        ensure!(b.releases(store).await == Release::Released, "the holder did not hold it");
        granted("the stranger", stranger.tries(store, LONG).await)?;
        refused("another stranger", late.tries(store, LONG).await)?;
        granted("the waiter", waiter.waits(store).await)?;
        Ok(())
    })
    .await;
}

/// A minimum hold keeps one permit, the released one; it is nobody's.
pub async fn a_minimum_hold_keeps_one_permit(store: &dyn Store) {
    let name = fresh_name("permit minimum hold");
    let [a, b, c] = [(); 3].map(|()| Claimant::of_many(&name, 2));
    a.takes(store, LONG).await;
    assert_eq!(a.releases_but_keeps(store, LONG).await, Release::Released);
    b.takes(store, LONG).await;
    let told = c.is_refused(store).await;
    assert_eq!((holders(&told), told.others.len()), (vec![b.holder], 1), "one holds it, one is kept: {told:?}");
    assert_eq!(a.renews(store, LONG).await, Renewal::Gone);
    assert_eq!(b.releases(store).await, Release::Released);
    c.takes(store, LONG).await;
    b.is_refused(store).await;
}

/// The minimum hold of a permit ends, and it is a permit like others.
pub async fn a_permits_minimum_hold_ends(store: &dyn Store) {
    let (name, keep_for) = (fresh_name("permit minimum hold ends"), store.traits().smallest_ttl);
    let [a, b, c] = [(); 3].map(|()| Claimant::of_many(&name, 2));
    a.takes(store, LONG).await;
    b.takes(store, LONG).await;
    assert_eq!(a.releases_but_keeps(store, keep_for).await, Release::Released);
    c.takes_within(store, surely_over(keep_for)).await;
    assert_eq!(named(&a.is_refused(store).await), set([b.holder, c.holder]));
}

/// A renewal, and the same claim sent again, move the end of the holder's own lease only, and keep its token.
pub async fn a_holder_keeps_its_own_permit(store: &dyn Store) {
    let name = fresh_name("own permit");
    let ([short, renewed, asked], tokens) = three(store, &name).await;
    assert_eq!(renewed.renews(store, LONG * 10).await, Renewal::Renewed);
    assert_eq!(asked.takes(store, LONG * 10).await, tokens[2]);
    let told = inspect(store, &name).await.expect("it is held");
    assert_eq!(told.holder, Some(short.holder), "its lease ends first: {told:?}");
    assert!(told.remaining <= ALL_OF_LONG, "it was not renewed: {told:?}");
    assert!(told.others.iter().all(|other| other.remaining > LONG * 5), "{told:?}");
    assert_eq!(short.releases(store).await, Release::Released);
    assert_eq!(short.renews(store, LONG).await, Renewal::Gone);
    for (claimant, token) in [(&renewed, tokens[1]), (&asked, tokens[2])] {
        assert_eq!(claimant.takes(store, LONG).await, token);
    }
}

/// A look and the listing name each holder once, in one entry of the name, with what was granted to it.
pub async fn a_look_names_every_holder_once(store: &dyn Store) {
    let name = fresh_name("look at permits");
    let ([a, b, c], [of_a, _, of_c]) = three(store, &name).await;
    assert_eq!(b.releases(store).await, Release::Released);
    let listed = store.list().await.expect("a listing is answered");
    let listed: Vec<_> = listed.into_iter().filter(|holding| holding.name == name).collect();
    assert_eq!(listed.len(), 1, "{listed:?}");
    for told in [&inspect(store, &name).await.expect("it is held"), &listed[0]] {
        assert_eq!(named(told), set([a.holder, c.holder]));
        assert_eq!((told.permits.get(), told.waiting, told.ticket), (3, 0, None), "{told:?}");
        let first = (told.holder, told.label.clone(), told.token);
        let others = told.others.iter().map(|other| (other.holder, other.label.clone(), other.token));
        let all: BTreeSet<_> = std::iter::once(first).chain(others).collect();
        let right = [(&a, of_a), (&c, of_c)].map(|(holder, token)| (Some(holder.holder), holder.label.clone(), token));
        assert_eq!(all, BTreeSet::from(right));
        for other in &told.others {
            assert!(other.remaining <= ALL_OF_LONG && other.remaining > LONG / 2 && !other.revoked, "{other:?}");
            assert!(other.held_for < LONG / 2, "{other:?}");
        }
    }
    for claimant in [&a, &c] {
        assert_eq!(claimant.releases(store).await, Release::Released);
    }
    assert_eq!(inspect(store, &name).await, None);
}

/// Each release rings for who waits, if this store has wake-ups: a second one is not lost behind the first.
pub async fn each_freed_permit_rings(store: &dyn Store) {
    if !store.traits().wake_ups {
        return;
    }
    while_waiters_live(async |window| {
        let name = fresh_name("permits ring");
        let ([a, b, _], _) = three(store, &name).await;
        let waiters = [(); 2].map(|()| Claimant::of_many(&name, 3));
        for (waiter, holder) in waiters.iter().zip([&a, &b]) {
            let mut bell = store.subscribe(&name).await.expect("a subscription is answered");
            window.opens();
            refused("a waiter", waiter.waits(store).await)?;
            ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
            let was_alive = window.is_open();
            if tokio::time::timeout(Duration::from_secs(5), bell.next()).await.is_err() {
                assert!(!was_alive, "nothing rang within 5 s");
                return Err("the waiter was too slow".to_owned());
            }
            granted("the waiter", waiter.waits(store).await)?;
        }
        Ok(())
    })
    .await;
}

/// Who leaves while all permits are taken leaves the others in their places.
pub async fn leaving_a_full_lock_keeps_the_others_waiting(store: &dyn Store) {
    while_waiters_live(async |_| {
        let name = fresh_name("leaving a full lock");
        let many = || Claimant::of_many(&name, 2);
        let (holders, leaver, waiter) = ([many(), many()], many(), many());
        for holder in &holders {
            holder.takes(store, LONG).await;
        }
        refused("one who will leave", leaver.waits(store).await)?;
        refused("a waiter", waiter.waits(store).await)?;
        leaver.leaves(store).await;
        ensure!(inspect(store, &name).await.is_some_and(|held| held.waiting == 1), "one waits still");
        ensure!(holders[0].releases(store).await == Release::Released, "the holder did not hold it");
        refused("a newcomer", many().tries(store, LONG).await)?;
        granted("the waiter", waiter.waits(store).await)?;
        Ok(())
    })
    .await;
}
