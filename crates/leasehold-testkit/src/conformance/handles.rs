//! Batches, crowds, several handles, and requests that nobody waits for any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, poll_immediate};
use leasehold::{Attempt, Claim, ErrorKind, FencingToken, Release, Renewal, Result, Revoke, Store};
use tokio::time::{sleep, timeout};

use super::scene::{Claimant, LONG, ask, fresh_name, inspect, name, refused, remaining};

/// A batch of 250 renewals answers each in order: those that are held, gone and revoked.
pub async fn a_batch_answers_each_in_order(store: &dyn Store) {
    let base = fresh_name("batch");
    // A busy store may take a while for so many.
    let (ttl, longer) = (LONG * 2, LONG * 10);
    let claimants: Vec<Claimant> = (0..250).map(|index| Claimant::of(&name(&format!("{base} {index}")))).collect();
    let mut right = Vec::new();
    for (index, claimant) in claimants.iter().enumerate() {
        right.push(match index % 5 {
            0 => Renewal::Gone,
            1 => {
                Claimant::of(&claimant.name).takes(store, ttl).await;
                Renewal::Gone
            }
            // Fewer: a store may take its time to be sure of a revocation.
            2 if index % 25 == 2 => {
                claimant.takes(store, ttl).await;
                store.revoke(&claimant.name, None, Revoke::Gently).await.expect("a revocation is answered");
                Renewal::Revoked
            }
            _ => {
                claimant.takes(store, ttl).await;
                Renewal::Renewed
            }
        });
    }
    let batch: Vec<_> = claimants.iter().map(|claimant| (claimant.key(), longer)).collect();
    let is_late = |answer: &Result<Renewal>| matches!(answer, Err(error) if error.kind() == ErrorKind::TimedOut);
    let mut answers = store.renew(&batch).await;
    for _ in 0..4 {
        // On a busy machine the time for an answer may run out: then it is asked again, as the keeper does.
        if answers.iter().any(is_late) {
            answers = store.renew(&batch).await;
        }
    }
    let answers: Vec<Renewal> = answers.into_iter().map(|answer| answer.expect("a renewal is answered")).collect();
    assert_eq!(answers, right);
    for index in [3, 4, 123, 249] {
        assert!(remaining(store, &claimants[index].name).await > longer / 2, "lease {index} was not renewed");
    }
    assert!(remaining(store, &claimants[1].name).await <= ttl * 2, "somebody else's lease was renewed");
}

/// A batch may have one name twice, by a past and the present holder; and it may be empty.
pub async fn a_batch_may_have_a_name_twice(store: &dyn Store) {
    let name = fresh_name("batch twice");
    let (past, present) = (Claimant::of(&name), Claimant::of(&name));
    past.takes(store, LONG).await;
    assert_eq!(past.releases(store).await, Release::Released);
    present.takes(store, LONG).await;
    let batch = [(past.key(), LONG), (present.key(), LONG), (past.key(), LONG)];
    let answers: Vec<_> = store.renew(&batch).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, [Renewal::Gone, Renewal::Renewed, Renewal::Gone]);
    assert!(store.renew(&[]).await.is_empty());
}

/// The keeper's handle is the same store.
pub async fn the_keeper_sees_the_same_store(store: &dyn Store) {
    let name = fresh_name("keeper");
    let keeper = store.for_keeper();
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    let first = a.takes(store, LONG).await;
    assert_eq!(b.is_refused(&*keeper).await.holder, Some(a.holder));
    assert_eq!(a.renews(&*keeper, LONG * 10).await, Renewal::Renewed);
    assert!(remaining(store, &name).await > LONG);
    assert_eq!(a.releases(&*keeper).await, Release::Released);
    let second = b.takes(&*keeper, LONG).await;
    assert!(first < second);
    assert_eq!(a.is_refused(store).await.holder, Some(b.holder));
    b.leaves(&*keeper.for_keeper()).await;
    a.takes(store, LONG).await;
}

/// *In order*: a claim that was given up at any moment is undone by a release through the same handle.
pub async fn a_given_up_claim_is_undone_by_a_release(store: &dyn Store) {
    let name = fresh_name("given up");
    for moment in 0..30 {
        let quitter = Claimant::of(&name);
        give_up(store, &quitter.claim(LONG), moment).await;
        // Whether it had been granted is a matter of chance.
        let _ = quitter.releases(store).await;
        let next = Claimant::of(&name);
        next.takes(store, LONG).await;
        assert_eq!(next.releases(store).await, Release::Released);
    }
    sleep(Duration::from_millis(100)).await;
    assert_eq!(inspect(store, &name).await, None, "a request came late");
}

/// *In order*: a waiter that was given up at any moment is undone by leaving through the same handle.
pub async fn a_given_up_waiter_is_undone_by_leaving(store: &dyn Store) {
    let name = fresh_name("given up waiting");
    for moment in 0..30 {
        let (holder, quitter) = (Claimant::of(&name), Claimant::of(&name));
        holder.takes(store, LONG).await;
        refused("a waiter", quitter.waits(store).await).unwrap();
        assert_eq!(holder.releases(store).await, Release::Released);
        give_up(store, &quitter.queuing_claim(LONG), moment).await;
        quitter.leaves(store).await;
        let next = Claimant::of(&name);
        next.takes(store, LONG).await;
        assert_eq!(next.releases(store).await, Release::Released);
    }
    sleep(Duration::from_millis(100)).await;
    assert_eq!(inspect(store, &name).await, None, "a request came late");
}

/// Sends a claim and stops waiting for its answer: at once, after the first look, or after a while.
async fn give_up(store: &dyn Store, claim: &Claim, moment: u32) {
    let answer = store.try_acquire(claim);
    match moment {
        0 => drop(answer),
        1..5 => drop(poll_immediate(answer).await),
        _ => drop(timeout(Duration::from_micros(40) * moment, answer).await),
    }
}

/// *Atomic in the store*: of many who ask at the same time, one is granted.
pub async fn one_of_many_is_granted(store: &dyn Store) {
    let handles = handles(store);
    for _ in 0..10 {
        let name = fresh_name("one of many");
        let asking = (0..32).map(|index| {
            let (store, claimant) = (handles[index % handles.len()].clone(), Claimant::of(&name));
            tokio::spawn(async move { ask(&*store, &claimant.claim(LONG)).await })
        });
        let answers = join_all(asking).await.into_iter().map(|task| task.expect("no panic"));
        assert_eq!(answers.filter(|answer| matches!(answer, Attempt::Granted(_))).count(), 1);
    }
}

/// A hundred who wait are granted the lock one after another, never two at a time, with growing tokens.
pub async fn a_crowd_takes_turns(store: &dyn Store) {
    let (name, handles) = (fresh_name("crowd"), handles(store));
    let (inside, last) = (Arc::new(AtomicU32::new(0)), Arc::new(std::sync::Mutex::new(None)));
    let crowd = (0..100).map(|index| {
        let (store, claimant) = (handles[index % handles.len()].clone(), Claimant::of(&name));
        let (inside, last) = (inside.clone(), last.clone());
        tokio::spawn(async move {
            let token = takes_its_turn(&*store, &claimant).await;
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
            let before = last.lock().unwrap().replace(token);
            assert!(before < Some(token), "{token} after {before:?}");
            tokio::task::yield_now().await;
            assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1, "two at a time");
            assert_eq!(claimant.releases(&*store).await, Release::Released);
        })
    });
    for task in join_all(crowd).await {
        task.expect("nobody panicked");
    }
    assert_eq!(inspect(store, &name).await, None);
}

async fn takes_its_turn(store: &dyn Store, claimant: &Claimant) -> FencingToken {
    loop {
        match claimant.waits(store).await {
            Attempt::Granted(grant) => return grant.token,
            // The later its turn, the more seldom it asks; often enough to stay in the queue.
            Attempt::Held(told) => {
                let pause = Duration::from_millis(3) * u32::try_from(told.waiting + 1).unwrap_or(u32::MAX);
                sleep(pause.min(Duration::from_millis(300))).await;
            }
            Attempt::NotDue(why) => panic!("there is no tick: {why}"),
        }
    }
}

/// Handles with connections of their own.
pub(super) fn handles(store: &dyn Store) -> Vec<Arc<dyn Store>> {
    (0..4).map(|_| store.for_keeper()).collect()
}
