//! The contract of [`Member`] as cases: a store that has come back empty and may adopt, each in a clean state.
//!
//! ```no_run
//! # use leasehold_testkit::conformance::{Subject, member, run_all};
//! # fn open(_: &(), _: [&str; 2]) -> Subject { todo!() }
//! run_all(&(), open, member::CASES);
//! ```
//!
//! Where a restart guard lasts still, the cases wait for its end: 30 s at most.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::member::{DONE_AHEAD, Filling, Member, Memories, Names, Ratified};
use leasehold::{
    Attempt, Claim, Due, Ended, Error, ErrorKind, FencingToken, HolderId, LeaseKey, LockName, NotDue, OpenTick,
    Release, Revoke, Store, TICK_SLACK, Tick, Verdict,
};
use tokio::time::{Instant, sleep, timeout};

use super::Case;
use super::scene::{LOOK, Ticks, finished, fresh_name, once, retried, tick_at, time, unfinished};

/// How long a lease must last for a case to come to its end; no restart guard is shorter.
pub const TTL: Duration = Duration::from_secs(4);

/// For how long a restart guard is waited for.
const GUARDED: Duration = Duration::from_secs(30);

macro_rules! cases {
    ($($case:ident)*) => {
        /// All cases, each for a store of its own.
        pub const CASES: &[Case] = &[$((stringify!($case), |subject| Box::pin($case(subject.store())))),*];
    };
}

cases! {
    a_lease_is_ratified who_has_no_lease_ratifies_nothing a_revoked_lease_is_a_lease
    an_empty_member_ratifies_nothing_before_it_has_adopted a_name_that_was_not_adopted_is_not_full
    an_adopted_counter_is_above_the_lease_that_there_is counters_only_grow
    a_tick_is_claimed_once a_tick_that_failed_is_claimed_again an_attempt_is_taken_back what_stands_open_is_recalled
    an_adopted_mark_counts an_adopted_tick_stands_open what_is_closed_stays_closed ticks_are_adopted_once
    what_is_done_counts_as_claimed what_is_done_far_ahead_does_not a_lease_is_concluded
    a_founding_is_announced a_founded_member_is_full a_founded_member_has_a_floor another_life_is_refused
    all_names_are_told_page_by_page one_at_a_time_fills_it one_that_was_filled_is_full_for_every_name
    who_listens_hears_of_a_conclusion
    it_says_who_it_is_and_what_its_clock_shows
}

fn member(store: &dyn Store) -> &dyn Member {
    store.as_member().expect("the cases are for members")
}

/// Asks until no restart guard is in the way.
async fn unguarded<T>(what: impl AsyncFn() -> Result<T, Error>) -> T {
    let start = Instant::now();
    loop {
        match what().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_passing() && start.elapsed() < GUARDED, "{error}"),
        }
        sleep(LOOK).await;
    }
}

/// Somebody's lease.
struct Held {
    lease: LeaseKey,
    token: FencingToken,
}

impl Held {
    async fn ratifies(&self, store: &dyn Store, token: FencingToken, due: Option<Due>) -> Ratified {
        member(store).ratify(&self.lease, token, due).await.expect("it is answered")
    }

    /// With its own token.
    async fn claims(&self, store: &dyn Store, due: Due) -> Ratified {
        self.ratifies(store, self.token, Some(due)).await
    }

    /// The tick is its; how often it was claimed by now.
    #[track_caller]
    fn runs<'a>(&'a self, store: &'a dyn Store, due: Due) -> impl Future<Output = u32> + 'a {
        let at = std::panic::Location::caller();
        async move {
            match self.claims(store, due).await {
                Ratified::Yes { attempt, gave_up: None, .. } => attempt,
                other => panic!("{at}: it is due: {other:?}"),
            }
        }
    }

    async fn concludes(&self, store: &dyn Store, verdict: Option<Verdict>) -> Release {
        let how = Ended { verdict, ..Ended::default() };
        member(store).conclude(&self.lease, how).await.expect("it is answered")
    }
}

async fn claims(store: &dyn Store, name: &LockName) -> Held {
    let claim = Claim::new(name.clone(), HolderId::fresh(), "test".into(), TTL);
    match unguarded(async || store.try_acquire(&claim).await).await {
        Attempt::Granted(grant) => {
            Held { lease: LeaseKey { name: name.clone(), holder: claim.holder }, token: grant.token }
        }
        other => panic!("it is free: {other:?}"),
    }
}

async fn recalls(store: &dyn Store, name: &LockName) -> Memories {
    member(store).recall(name).await.expect("it is answered")
}

async fn adopts(store: &dyn Store, name: &LockName, memories: &Memories) {
    let life = recalls(store, name).await.life;
    unguarded(async || member(store).adopt(name, memories, &life).await).await;
}

async fn is_founded(store: &dyn Store, floor: Tick) {
    let life = recalls(store, &fresh_name("any")).await.life;
    unguarded(async || member(store).found(floor, &life).await).await;
}

/// A name of which all is known, and that is nothing.
async fn known_name(store: &dyn Store, case: &str) -> LockName {
    let name = fresh_name(case);
    adopts(store, &name, &Memories::default()).await;
    name
}

fn above(token: FencingToken, by: u64) -> FencingToken {
    FencingToken::new(token.number() + by)
}

#[track_caller]
fn token_of(ratified: &Ratified) -> FencingToken {
    let Ratified::Yes { token, .. } = ratified else { panic!("it has its lease: {ratified:?}") };
    *token
}

/// A ratification raises the token of a lease, and said again it is answered the same.
pub async fn a_lease_is_ratified(store: &dyn Store) {
    let name = known_name(store, "ratified").await;
    let held = claims(store, &name).await;
    let raised = above(held.token, 1000);
    for _ in 0..2 {
        let answer = held.ratifies(store, raised, None).await;
        assert_eq!(answer, Ratified::Yes { token: raised, attempt: 0, gave_up: None });
    }
    assert_eq!(token_of(&held.ratifies(store, held.token, None).await), raised, "it is never lowered");
    assert_eq!(recalls(store, &name).await.token, raised);
    assert_eq!(held.concludes(store, None).await, Release::Released);
    assert!(claims(store, &name).await.token > raised);
}

/// Neither before it has one nor after it has given it back.
pub async fn who_has_no_lease_ratifies_nothing(store: &dyn Store) {
    let name = known_name(store, "gone").await;
    let held = claims(store, &name).await;
    let stranger = LeaseKey { name: name.clone(), holder: HolderId::fresh() };
    assert_eq!(member(store).ratify(&stranger, above(held.token, 9), None).await.unwrap(), Ratified::Gone);
    assert_eq!(held.concludes(store, None).await, Release::Released);
    assert_eq!(held.ratifies(store, above(held.token, 9), None).await, Ratified::Gone);
    assert!(recalls(store, &name).await.token < above(held.token, 9), "nothing was raised");
}

/// Until its end, though it is not renewed.
pub async fn a_revoked_lease_is_a_lease(store: &dyn Store) {
    let name = known_name(store, "revoked").await;
    let held = claims(store, &name).await;
    assert!(store.revoke(&name, None, Revoke::Gently).await.unwrap().is_some());
    assert_eq!(token_of(&held.ratifies(store, held.token, None).await), held.token);
}

/// What it has forgotten may be another's.
pub async fn an_empty_member_ratifies_nothing_before_it_has_adopted(store: &dyn Store) {
    let name = fresh_name("empty");
    let held = claims(store, &name).await;
    assert_eq!(held.ratifies(store, held.token, None).await, Ratified::NotFull);
    let due = once(Ticks::of(store).await.nth(0));
    assert_eq!(held.claims(store, due).await, Ratified::NotFull);
    let memories = recalls(store, &name).await;
    assert!(!memories.is_full && memories.is_blank && memories.newest.is_none() && memories.open.is_empty());
    store.leave(&held.lease).await.unwrap();
    adopts(store, &name, &Memories::default()).await;
    let memories = recalls(store, &name).await;
    assert!(memories.is_full && !memories.is_blank);
    let held = claims(store, &name).await;
    assert_eq!(token_of(&held.ratifies(store, held.token, None).await), held.token);
}

/// Another name is a matter of its own.
pub async fn a_name_that_was_not_adopted_is_not_full(store: &dyn Store) {
    known_name(store, "adopted").await;
    let other = fresh_name("other");
    let held = claims(store, &other).await;
    assert_eq!(held.ratifies(store, held.token, None).await, Ratified::NotFull);
    let memories = recalls(store, &other).await;
    assert!(!memories.is_full && !memories.is_blank, "there was something to remember: {memories:?}");
}

/// What the counter says was another's.
pub async fn an_adopted_counter_is_above_the_lease_that_there_is(store: &dyn Store) {
    known_name(store, "first").await;
    let name = fresh_name("ahead");
    let held = claims(store, &name).await;
    let theirs = above(held.token, 500);
    adopts(store, &name, &Memories { token: theirs, ..Memories::default() }).await;
    assert_eq!(recalls(store, &name).await.token, theirs);
    let same = store.try_acquire(&Claim::new(name.clone(), held.lease.holder, "test".into(), TTL)).await.unwrap();
    assert!(matches!(same, Attempt::Granted(grant) if grant.token == held.token), "a lease keeps its token");
    let first = token_of(&held.ratifies(store, held.token, None).await);
    assert_eq!(first, above(theirs, 1));
    assert_eq!(token_of(&held.ratifies(store, theirs, None).await), first);
    assert_eq!(held.concludes(store, None).await, Release::Released);
    let theirs = above(first, 500);
    adopts(store, &name, &Memories { token: theirs, ..Memories::default() }).await;
    assert!(claims(store, &name).await.token > theirs, "tokens grow over what was adopted");
}

/// What is adopted takes nothing back.
pub async fn counters_only_grow(store: &dyn Store) {
    let name = known_name(store, "counter").await;
    let held = claims(store, &name).await;
    adopts(store, &name, &Memories { token: FencingToken::new(1), ..Memories::default() }).await;
    assert_eq!(recalls(store, &name).await.token, held.token);
}

/// Again by nobody but the same holder, who is answered the same.
pub async fn a_tick_is_claimed_once(store: &dyn Store) {
    let (name, ticks) = (known_name(store, "tick").await, Ticks::of(store).await);
    let held = claims(store, &name).await;
    for _ in 0..2 {
        assert_eq!(held.runs(store, once(ticks.nth(1))).await, 1);
    }
    assert_eq!(held.concludes(store, Some(Verdict::Done(ticks.nth(1)))).await, Release::Released);
    let next = claims(store, &name).await;
    for over in [ticks.nth(1), ticks.nth(0)] {
        let answer = next.claims(store, once(over)).await;
        assert_eq!(answer, Ratified::NotDue(finished(ticks.nth(1))), "{over}");
    }
    let far = once(tick_at(time(store).await + TICK_SLACK * 2));
    assert!(matches!(next.claims(store, far).await, Ratified::NotDue(NotDue::InFuture { .. })));
    let old = Due { keep: TICK_SLACK, ..once(ticks.nth(2)) };
    assert!(matches!(next.claims(store, old).await, Ratified::NotDue(NotDue::TooOld { .. })));
    assert_eq!(next.runs(store, once(ticks.nth(2))).await, 1);
    assert_eq!(next.runs(store, once(ticks.nth(2))).await, 1);
}

/// If both want that.
pub async fn a_tick_that_failed_is_claimed_again(store: &dyn Store) {
    let (name, tick) = (known_name(store, "failed").await, Ticks::of(store).await.nth(0));
    let held = claims(store, &name).await;
    assert_eq!(held.runs(store, retried(tick)).await, 1);
    assert_eq!(held.concludes(store, Some(Verdict::Failed)).await, Release::Released);
    let next = claims(store, &name).await;
    assert_eq!(next.claims(store, once(tick)).await, Ratified::NotDue(unfinished(tick)));
    assert_eq!(next.runs(store, retried(tick)).await, 2);
}

/// By who never began.
pub async fn an_attempt_is_taken_back(store: &dyn Store) {
    let (name, tick) = (known_name(store, "unbegun").await, Ticks::of(store).await.nth(0));
    let held = claims(store, &name).await;
    assert_eq!(held.runs(store, once(tick)).await, 1);
    assert_eq!(held.concludes(store, Some(Verdict::NotStarted)).await, Release::Released);
    assert_eq!(recalls(store, &name).await.open[&tick].attempts, 0);
    assert_eq!(claims(store, &name).await.runs(store, once(tick)).await, 1);
}

/// With all that the others need to go on from there.
pub async fn what_stands_open_is_recalled(store: &dyn Store) {
    let (name, ticks) = (known_name(store, "open").await, Ticks::of(store).await);
    let held = claims(store, &name).await;
    held.runs(store, once(ticks.nth(0))).await;
    held.runs(store, retried(ticks.nth(1))).await;
    let memories = recalls(store, &name).await;
    assert_eq!(memories.newest, Some(ticks.nth(1)));
    let open = |number, once| (ticks.nth(number), OpenTick { holder: Some(held.lease.holder), attempts: 1, once });
    assert_eq!(memories.open, [open(0, true), open(1, false)].into());
}

/// As one that was claimed here.
pub async fn an_adopted_mark_counts(store: &dyn Store) {
    let (name, ticks) = (fresh_name("mark"), Ticks::of(store).await);
    adopts(store, &name, &Memories { newest: Some(ticks.nth(1)), ..Memories::default() }).await;
    let held = claims(store, &name).await;
    assert_eq!(held.claims(store, once(ticks.nth(1))).await, Ratified::NotDue(finished(ticks.nth(1))));
    assert_eq!(held.claims(store, once(ticks.nth(0))).await, Ratified::NotDue(finished(ticks.nth(1))));
    assert_eq!(held.runs(store, once(ticks.nth(2))).await, 1);
}

/// As one that was claimed here.
pub async fn an_adopted_tick_stands_open(store: &dyn Store) {
    let (name, ticks) = (fresh_name("open"), Ticks::of(store).await);
    let began = |once| OpenTick { holder: Some(HolderId::fresh()), attempts: 1, once };
    let unbegun = OpenTick { holder: None, attempts: 0, once: true };
    let open = [(ticks.nth(0), began(true)), (ticks.nth(1), began(false)), (ticks.nth(2), unbegun)].into();
    let memories = Memories { newest: Some(ticks.nth(3)), open, ..Memories::default() };
    adopts(store, &name, &memories).await;
    let known = recalls(store, &name).await;
    assert_eq!((known.newest, &known.open), (memories.newest, &memories.open));
    let held = claims(store, &name).await;
    assert_eq!(
        held.claims(store, retried(ticks.nth(0))).await,
        Ratified::NotDue(NotDue::Claimed { newest: ticks.nth(3), unfinished: true })
    );
    assert_eq!(held.runs(store, retried(ticks.nth(1))).await, 2);
    assert_eq!(held.runs(store, once(ticks.nth(2))).await, 1);
    assert_eq!(held.claims(store, once(ticks.nth(3))).await, Ratified::NotDue(finished(ticks.nth(3))));
}

/// The others may have been asked before they heard that it is done.
pub async fn what_is_closed_stays_closed(store: &dyn Store) {
    let (name, ticks) = (fresh_name("closed"), Ticks::of(store).await);
    let done = Ended { verdict: Some(Verdict::Done(ticks.nth(1))), ..Ended::default() };
    let somebody = LeaseKey { name: name.clone(), holder: HolderId::fresh() };
    assert_eq!(member(store).conclude(&somebody, done).await.unwrap(), Release::NotHeld);
    let open = OpenTick { holder: Some(somebody.holder), attempts: 1, once: false };
    let open = [(ticks.nth(1), open), (ticks.nth(2), open)].into();
    adopts(store, &name, &Memories { newest: Some(ticks.nth(2)), open, ..Memories::default() }).await;
    assert_eq!(recalls(store, &name).await.open.into_keys().collect::<Vec<_>>(), [ticks.nth(2)]);
    let held = claims(store, &name).await;
    assert_eq!(held.claims(store, retried(ticks.nth(1))).await, Ratified::NotDue(finished(ticks.nth(2))));
    assert_eq!(held.runs(store, retried(ticks.nth(2))).await, 2);
}

/// Later only the counter grows.
pub async fn ticks_are_adopted_once(store: &dyn Store) {
    let (name, ticks) = (fresh_name("twice"), Ticks::of(store).await);
    adopts(store, &name, &Memories { newest: Some(ticks.nth(0)), ..Memories::default() }).await;
    let token = above(recalls(store, &name).await.token, 7);
    let open = [(ticks.nth(1), OpenTick { holder: None, attempts: 1, once: false })].into();
    let later = Memories { newest: Some(ticks.nth(1)), open, token, ..Memories::default() };
    adopts(store, &name, &later).await;
    let known = recalls(store, &name).await;
    assert_eq!((known.newest, known.open.len(), known.token), (Some(ticks.nth(0)), 0, token));
}

/// Not every member need have heard of a claim that a majority has granted.
pub async fn what_is_done_counts_as_claimed(store: &dyn Store) {
    let (name, ticks) = (known_name(store, "done").await, Ticks::of(store).await);
    let other = claims(store, &name).await;
    let somebody = Held { lease: LeaseKey { holder: HolderId::fresh(), ..other.lease.clone() }, ..other };
    assert_eq!(somebody.concludes(store, Some(Verdict::Done(ticks.nth(1)))).await, Release::NotHeld);
    assert_eq!(recalls(store, &name).await.newest, Some(ticks.nth(1)));
    assert_eq!(other.claims(store, retried(ticks.nth(1))).await, Ratified::NotDue(finished(ticks.nth(1))));
    assert_eq!(somebody.concludes(store, Some(Verdict::Done(ticks.nth(0)))).await, Release::NotHeld);
    assert_eq!(recalls(store, &name).await.newest, Some(ticks.nth(1)), "marks only grow");
    assert_eq!(somebody.concludes(store, Some(Verdict::Done(ticks.nth(3)))).await, Release::NotHeld);
    assert_eq!(other.claims(store, retried(ticks.nth(2))).await, Ratified::NotDue(finished(ticks.nth(3))));
    assert_eq!(other.runs(store, once(ticks.nth(4))).await, 1);
}

/// Clocks were ahead when it was granted, and an operator may have had its mark forgotten since. Those that differ somewhat say
/// nothing of that.
pub async fn what_is_done_far_ahead_does_not(store: &dyn Store) {
    let (name, ticks) = (known_name(store, "done far ahead").await, Ticks::of(store).await);
    let held = claims(store, &name).await;
    let now = time(store).await;
    let [soon, far] = [DONE_AHEAD - Duration::from_secs(60), DONE_AHEAD * 365].map(|ahead| tick_at(now + ahead));
    assert_eq!(held.concludes(store, Some(Verdict::Done(far))).await, Release::Released);
    assert_eq!(recalls(store, &name).await.newest, None);
    let next = claims(store, &name).await;
    assert_eq!(next.runs(store, once(ticks.nth(1))).await, 1, "it stops nobody");
    assert_eq!(held.concludes(store, Some(Verdict::Done(soon))).await, Release::NotHeld);
    assert_eq!(recalls(store, &name).await.newest, Some(soon));
}

/// As a release ends it.
pub async fn a_lease_is_concluded(store: &dyn Store) {
    let name = known_name(store, "concluded").await;
    let held = claims(store, &name).await;
    assert_eq!(held.concludes(store, None).await, Release::Released);
    assert_eq!(held.concludes(store, None).await, Release::NotHeld);
    let next = claims(store, &name).await;
    assert!(next.token > held.token);
    assert_eq!(held.concludes(store, Some(Verdict::Failed)).await, Release::NotHeld);
    assert_eq!(token_of(&next.ratifies(store, next.token, None).await), next.token, "it has it still");
}

/// Whoever founds it may be gone after the first step: it remembers that for the next.
pub async fn a_founding_is_announced(store: &dyn Store) {
    let name = fresh_name("announced");
    let (floor, life) = (tick_at(time(store).await), recalls(store, &name).await.life);
    let announce_at = async |floor: Tick, into: &str| member(store).announce(floor, into).await;
    let announce = async |into: &str| announce_at(floor, into).await;
    let stands = async || {
        let Memories { announced, is_blank, is_full, .. } = recalls(store, &name).await;
        (announced, is_blank, is_full)
    };
    unguarded(async || announce(&life).await).await;
    assert_eq!(stands().await, (Some(floor), true, false), "it is remembered, and nothing more");
    let earlier = Tick::from_unix_millis(floor.as_unix_millis() - 1).unwrap();
    announce_at(earlier, &life).await.unwrap();
    assert_eq!(stands().await.0, Some(floor), "of two founders the later floor");
    let error = announce("another life").await.unwrap_err();
    assert!(error.is_passing(), "{error}");
    is_founded(store, floor).await;
    assert_eq!(stands().await, (None, false, true));
    let error = announce(&life).await.unwrap_err();
    assert!(error.is_passing(), "{error}");
    assert_eq!(stands().await, (None, false, true), "one that comes late is none");
}

/// For every name, from then on.
pub async fn a_founded_member_is_full(store: &dyn Store) {
    let floor = Ticks::of(store).await.nth(0);
    let (name, before) = (fresh_name("founded"), fresh_name("before"));
    let claimed_before = claims(store, &before).await;
    is_founded(store, floor).await;
    let memories = recalls(store, &name).await;
    assert!(memories.is_full && !memories.is_blank && memories.floor == Some(floor) && memories.newest.is_none());
    let held = claims(store, &name).await;
    let token = token_of(&held.ratifies(store, held.token, None).await);
    assert!(token >= memories.token && token >= held.token);
    if let Ratified::Yes { token, .. } = claimed_before.ratifies(store, claimed_before.token, None).await {
        assert!(token >= memories.token);
    }
}

/// Which no key's only run knows, nor a name that was adopted.
pub async fn a_founded_member_has_a_floor(store: &dyn Store) {
    let ticks = Ticks::of(store).await;
    let (adopted, name) = (known_name(store, "adopted").await, fresh_name("floor"));
    is_founded(store, ticks.nth(1)).await;
    let held = claims(store, &name).await;
    let is_over = |answer: &Ratified| matches!(answer, Ratified::NotDue(NotDue::Claimed { unfinished: false, .. }));
    for tick in [ticks.nth(0), ticks.nth(1)] {
        assert!(is_over(&held.claims(store, retried(tick)).await), "{tick}");
    }
    assert_eq!(held.runs(store, once(ticks.nth(2))).await, 1);
    let other = claims(store, &adopted).await;
    assert_eq!(other.runs(store, once(ticks.nth(0))).await, 1, "it has forgotten nothing of it");
    let key = claims(store, &fresh_name("key")).await;
    assert_eq!(key.runs(store, once(Tick::ONLY)).await, 1, "a key has no time");
    is_founded(store, ticks.nth(0)).await;
    assert_eq!(recalls(store, &fresh_name("later")).await.floor, Some(ticks.nth(1)), "it never falls");
}

/// What straggles past a restart is not what the others know by then.
pub async fn another_life_is_refused(store: &dyn Store) {
    let (name, tick) = (fresh_name("life"), Ticks::of(store).await.nth(0));
    drop(claims(store, &fresh_name("unguarded")).await);
    let member = member(store);
    let memories = Memories { newest: Some(tick), ..Memories::default() };
    let filled = member.fill(HolderId::fresh(), Filling::Begins, "another").await.map(drop);
    for refused in [member.adopt(&name, &memories, "another").await, member.found(tick, "another").await, filled] {
        let error = refused.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && error.is_passing(), "{error}");
    }
    let memories = recalls(store, &name).await;
    assert!(memories.is_blank && !memories.is_full && memories.newest.is_none() && memories.floor.is_none());
}

/// Those of which it remembers something, and not those that it was only asked for.
pub async fn all_names_are_told_page_by_page(store: &dyn Store) {
    let names: BTreeSet<_> = (0..30).map(|number| fresh_name(&format!("page {number}"))).collect();
    for name in names.iter().skip(1) {
        adopts(store, name, &Memories { token: FencingToken::new(1), ..Memories::default() }).await;
    }
    let claimed = names.first().expect("there are some");
    drop(claims(store, claimed).await);
    let unknown = fresh_name("unknown");
    drop(recalls(store, &unknown).await);
    let (mut told, mut from) = (BTreeSet::new(), Some(0));
    while let Some(at) = from {
        let page = member(store).names(at, 7).await.expect("it is answered");
        assert!(page.names.len() < 30 && page.whole.is_none(), "{page:?}");
        told.extend(page.names);
        from = page.next;
    }
    assert!(told.is_superset(&names) && !told.contains(&unknown), "{told:?}");
}

async fn fills(store: &dyn Store, by: HolderId, step: Filling) -> bool {
    let life = recalls(store, &fresh_name("any")).await.life;
    unguarded(async || member(store).fill(by, step, &life).await).await
}

async fn fullness(store: &dyn Store) -> Names {
    member(store).names(0, 1).await.expect("it is answered")
}

/// Who has begun, until it is heard of no more.
pub async fn one_at_a_time_fills_it(store: &dyn Store) {
    let (by, other) = (HolderId::fresh(), HolderId::fresh());
    assert!(!fills(store, by, Filling::GoesOn).await, "nobody has begun");
    assert!(fills(store, by, Filling::Begins).await && fills(store, by, Filling::GoesOn).await);
    for step in [Filling::Begins, Filling::GoesOn, Filling::IsDone { floor: None }] {
        assert!(!fills(store, other, step).await, "{step:?}");
    }
    assert_eq!(fullness(store).await.whole, None);
    assert!(fills(store, by, Filling::IsDone { floor: None }).await);
    assert!(fullness(store).await.whole.is_some());
}

/// For those too that were never heard of, from the floor on that the others have.
pub async fn one_that_was_filled_is_full_for_every_name(store: &dyn Store) {
    let (ticks, by) = (Ticks::of(store).await, HolderId::fresh());
    let adopted = known_name(store, "adopted").await;
    assert!(fills(store, by, Filling::Begins).await);
    assert!(fills(store, by, Filling::IsDone { floor: Some(ticks.nth(1)) }).await);
    let full = fullness(store).await;
    assert!(full.whole.is_some() && full.floor == Some(ticks.nth(1)), "{full:?}");
    let name = fresh_name("new");
    let memories = recalls(store, &name).await;
    assert!(memories.is_full && !memories.is_blank && memories.floor == Some(ticks.nth(1)), "{memories:?}");
    let held = claims(store, &name).await;
    let is_over = |answer: &Ratified| matches!(answer, Ratified::NotDue(NotDue::Claimed { unfinished: false, .. }));
    assert!(is_over(&held.claims(store, retried(ticks.nth(1))).await));
    assert_eq!(held.runs(store, once(ticks.nth(2))).await, 1);
    let other = claims(store, &adopted).await;
    assert_eq!(other.runs(store, once(ticks.nth(0))).await, 1, "it has forgotten nothing of it");
    assert_eq!(fullness(store).await.whole, full.whole, "it was so all the time");
}

/// Who claims for a quorum stands in no queue.
pub async fn who_listens_hears_of_a_conclusion(store: &dyn Store) {
    let name = known_name(store, "heard").await;
    let held = claims(store, &name).await;
    let mut wake_ups = member(store).wake_ups(&name).await.expect("it can be listened to");
    // What was told before is not what is waited for.
    while timeout(LOOK * 4, wake_ups.next()).await.is_ok() {}
    assert_eq!(held.concludes(store, None).await, Release::Released);
    timeout(GUARDED, wake_ups.next()).await.expect("it is woken");
}

/// By the same names.
pub async fn it_says_who_it_is_and_what_its_clock_shows(store: &dyn Store) {
    let identity = member(store).identity().await.unwrap();
    assert!(identity.unfit.is_none() && identity.max_ttl >= TTL, "{identity:?}");
    let memories = recalls(store, &fresh_name("who")).await;
    assert!(!identity.server.is_empty() && memories.life == identity.server);
    assert!(time(store).await.abs_diff(memories.clock) < Duration::from_secs(5));
}
