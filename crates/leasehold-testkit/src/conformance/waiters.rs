//! Who waits, as it is told to people.

use std::time::Duration;

use leasehold::store::QUEUE_ENTRY;
use leasehold::{LockName, Release, Store, Waiter};
use tokio::time::{Instant, sleep};

use super::names::look_alikes;
use super::queue::outlive_the_entry_of_another;
use super::scene::{Claimant, LONG, ask, ensure, fresh_name, granted, refused, while_waiters_live};

async fn queue(store: &dyn Store, name: &LockName) -> Vec<Waiter> {
    store.queue(name).await.expect("who waits is told")
}

/// Whether these are told, in this order, by their labels or, where the store does not keep those, without any.
fn tells(told: &[Waiter], waiters: &[&Claimant]) -> bool {
    let is_of = |(told, waiter): (&Waiter, &&Claimant)| {
        told.holder == Some(waiter.holder) && (told.label == waiter.label || told.label.is_empty())
    };
    told.len() == waiters.len() && told.iter().zip(waiters).all(is_of)
}

/// *Who waits is told*: the first in line first, whoever asked again last; and since when, or nothing of that.
pub async fn who_waits_is_told_in_line(store: &dyn Store) {
    while_waiters_live(async |_| {
        let (name, began) = (fresh_name("in line"), Instant::now());
        let (holder, waiters) = (Claimant::of(&name), [(); 4].map(|()| Claimant::of(&name)));
        holder.takes(store, LONG).await;
        for waiter in &waiters {
            refused("a waiter", waiter.waits(store).await)?;
        }
        for waiter in waiters.iter().rev() {
            refused("a waiter", waiter.waits(store).await)?;
        }
        let told = queue(store, &name).await;
        ensure!(tells(&told, &waiters.each_ref()), "{told:?} instead of {:?}", waiters.each_ref().map(|w| w.holder));
        let longest = began.elapsed() + Duration::from_secs(1); // Two clocks may have been read.
        let is_young = |waiter: &Waiter| waiter.waited.is_none_or(|waited| waited <= longest);
        ensure!(told.iter().all(is_young), "none waits for longer than {longest:?}: {told:?}");
        Ok(())
    })
    .await;
}

/// A place is as old as the claim that took it, however often its waiter has asked since.
pub async fn a_place_is_as_old_as_its_first_claim(store: &dyn Store) {
    while_waiters_live(async |window| {
        let name = fresh_name("old place");
        let (holder, waiter) = (Claimant::of(&name), Claimant::of(&name));
        holder.takes(store, LONG).await;
        window.opens();
        refused("a waiter", waiter.waits(store).await)?;
        for _ in 0..4 {
            sleep(QUEUE_ENTRY * 3 / 10).await;
            let asked = Instant::now();
            refused("a waiter", waiter.waits(store).await)?;
            ensure!(window.is_open(), "it was taken for dead");
            window.opened(asked);
        }
        let told = queue(store, &name).await;
        ensure!(tells(&told, &[&waiter]), "one waits: {told:?}");
        let is_old = told[0].waited.is_none_or(|waited| waited >= QUEUE_ENTRY);
        assert!(is_old, "it has waited for longer than an entry lives: {told:?}");
        Ok(())
    })
    .await;
}

/// Who was granted the lock waits no longer, nor does who has left. The others keep their order.
pub async fn who_got_it_or_left_is_told_no_more(store: &dyn Store) {
    while_waiters_live(async |_| {
        let name = fresh_name("no more");
        let (holder, [first, leaver, last]) = (Claimant::of(&name), [(); 3].map(|()| Claimant::of(&name)));
        holder.takes(store, LONG).await;
        for waiter in [&first, &leaver, &last] {
            refused("a waiter", waiter.waits(store).await)?;
        }
        leaver.leaves(store).await;
        let told = queue(store, &name).await;
        ensure!(tells(&told, &[&first, &last]), "one has left: {told:?}");
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        let told = queue(store, &name).await;
        ensure!(tells(&told, &[&first, &last]), "nobody has it: {told:?}");
        granted("the first waiter", first.waits(store).await)?;
        let told = queue(store, &name).await;
        ensure!(tells(&told, &[&last]), "the first has got it: {told:?}");
        Ok(())
    })
    .await;
}

/// Who has stopped asking is not told, who goes on is.
pub async fn the_dead_are_not_told(store: &dyn Store) {
    while_waiters_live(async |window| {
        let name = fresh_name("dead are not told");
        let (holder, dead, live) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
        holder.takes(store, LONG).await;
        refused("a waiter", dead.waits(store).await)?;
        outlive_the_entry_of_another(store, &live).await;
        window.opens();
        refused("a waiter", live.waits(store).await)?;
        let told = queue(store, &name).await;
        ensure!(tells(&told, &[&live]), "one lives: {told:?}");
        Ok(())
    })
    .await;
}

/// Where nobody waits, nobody is told: of a name that nobody has used, and of one that is held.
pub async fn nobody_waits(store: &dyn Store) {
    let name = fresh_name("nobody waits");
    assert_eq!(queue(store, &name).await, []);
    let (holder, stranger) = (Claimant::of(&name), Claimant::of(&name));
    holder.takes(store, LONG).await;
    stranger.is_refused(store).await;
    assert_eq!(queue(store, &name).await, []);
    assert_eq!(holder.releases(store).await, Release::Released);
    assert_eq!(queue(store, &name).await, []);
}

/// Who waits for a name is told of that one only, whatever others look like.
pub async fn queues_of_look_alikes_are_apart(store: &dyn Store) {
    let names = look_alikes();
    for name in &names {
        // There are many of them.
        Claimant::of(name).takes(store, LONG * 10).await;
    }
    for few in names.chunks(4) {
        while_waiters_live(async |window| {
            let waiters: Vec<_> = few.iter().map(Claimant::of).collect();
            window.opens();
            for waiter in &waiters {
                refused("a waiter", waiter.waits(store).await)?;
            }
            let mut told = Vec::new();
            for waiter in &waiters {
                told.push(queue(store, &waiter.name).await);
            }
            let was_open = window.is_open();
            // In any case: the next try is to find nobody.
            for waiter in &waiters {
                waiter.leaves(store).await;
            }
            for (told, waiter) in told.iter().zip(&waiters) {
                let is_right = tells(told, &[waiter]);
                assert!(is_right || !was_open, "{:?} is waited for by {:?}: {told:?}", waiter.name, waiter.holder);
                ensure!(is_right, "it took too long");
            }
            Ok(())
        })
        .await;
    }
}

/// Who waits in one namespace is not told in another. `a` and `b` are one store seen through two namespaces.
pub async fn queues_of_namespaces_are_apart(a: &dyn Store, b: &dyn Store) {
    let name = fresh_name("queues of namespaces");
    Claimant::of(&name).takes(a, LONG).await;
    refused("a waiter", ask(a, &Claimant::of(&name).queuing_claim(LONG)).await).unwrap();
    assert_eq!(queue(b, &name).await, []);
}
