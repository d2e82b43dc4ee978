//! The contract of [`Arbiter`], and of [`Tagged`](leasehold::store::Tagged) where the store is one.
//!
//! [`ARBITER`] are all of them, for [`run_all`](super::run_all): each wants a namespace to itself, for there is one route in
//! each.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::{
    Arbiter, Carried, Epoch, Force, Incarnation, OPEN_TICKS, Reading, Refusal, Route, RouteTerms, Switch, Target,
    TickClaim, TickOf,
};
use leasehold::{
    Attempt, Due, FencingToken, LockName, NotDue, Release, Renewal, Revoke, Standing, TICK_SLACK, Tick, Verdict,
};
use tokio::time::{Instant, sleep};

use super::scene::{
    Claimant, LONG, LOOK, Ticks, finished, fresh_name, inspect, once, outlive, remaining, retried, surely_over,
    tick_at, time, unfinished,
};
use super::{Case, Subject};

/// Long enough that nothing comes into force during a case.
const DRAIN: Duration = Duration::from_secs(60);

/// Makes the list of all cases.
macro_rules! cases {
    ($($case:ident)*) => {
        /// All cases.
        pub const ARBITER: &[Case] =
            &[$((stringify!($case), |subject| Box::pin($case(arbiter_of(subject))))),*];
    };
}

cases! {
    at_first_there_is_no_route the_first_route_is_written_once a_route_is_read_as_it_was_written
    a_route_comes_into_force_after_its_drain it_is_armed_once and_only_the_latest
    a_switch_needs_a_route_that_is_in_force a_switch_needs_one_that_has_been_for_long_enough
    a_switch_is_from_the_latest_route one_of_many_switches_wins a_complaint_is_remembered the_keeper_reads_the_same_route
    a_claim_needs_its_route_in_force tokens_have_the_epoch the_same_claim_under_a_route_is_the_same_grant
    a_lease_of_an_earlier_route_is_dead a_tombstone_of_an_earlier_route_is_dead what_has_no_tag_lives
    plain_claims_know_no_tags renewals_are_of_one_route a_tagged_renewal_never_cuts a_tagged_batch_answers_each_in_order
    a_revoked_tagged_lease_is_not_renewed one_of_many_claims_under_a_route
    a_carry_needs_its_route_pending a_carried_lease_keeps_its_token a_carry_never_cuts a_carry_takes_no_lease_from_anybody
    a_carry_takes_the_place_of_the_dead a_revoked_lease_is_not_carried a_carried_lease_ends_as_others_do
    a_release_ends_a_lease_of_any_route tokens_grow_though_a_carried_one_was_larger
    a_tick_is_claimed_once_wherever_the_lease_is a_tick_asked_for_again_is_answered_the_same
    the_same_holder_granted_anew_is_another_attempt a_newer_tick_closes_older_ones done_closes_a_tick_without_a_lease
    a_failed_tick_is_claimed_again a_tick_given_back_was_never_begun leaving_gives_a_tick_back
    a_tick_stands_by_who_is_alive ticks_have_their_window a_key_has_one_run a_key_is_forgotten_though_its_claimant_has_the_lease
    too_many_open_ticks_give_up_the_oldest
    a_tick_needs_the_latest_route one_of_many_claims_a_tick_of_the_arbiter
    a_repair_goes_two_epochs_up a_repair_writes_a_route_where_there_is_none after_a_repair_ticks_are_over
    after_a_repair_nothing_is_carried a_repair_leaves_keys_alone
}

fn arbiter_of(subject: &Subject) -> &dyn Arbiter {
    subject.store().as_arbiter().expect("the store can be an arbiter")
}

fn terms() -> RouteTerms {
    RouteTerms {
        lease: Duration::from_millis(10_250),
        drift: 10_000,
        max_ttl: Duration::from_secs(3600),
        primary: "redis://somewhere:6379/3, namespace ü".to_owned(),
    }
}

fn to_primary(epoch: u64) -> Route {
    Route { epoch: Epoch::new(epoch), target: Target::Primary(Incarnation::new("run 'a' \\ replid \"b\"")) }
}

fn to_arbiter(epoch: u64) -> Route {
    Route { epoch: Epoch::new(epoch), target: Target::Arbiter }
}

async fn found(arbiter: &dyn Arbiter, route: &Route) {
    arbiter.found(route, &terms()).await.expect("a route is founded");
}

async fn arm(arbiter: &dyn Arbiter, epoch: Epoch, drain: Duration) {
    arbiter.arm(epoch, drain).await.expect("a route is armed");
}

/// It is in force now.
async fn found_in_force(arbiter: &dyn Arbiter, route: &Route) {
    found(arbiter, route).await;
    arm(arbiter, route.epoch, Duration::ZERO).await;
}

async fn try_switch(arbiter: &dyn Arbiter, from: Epoch, to: &Target, dwell: Duration) -> bool {
    let switch = Switch { from, to: to.clone(), dwell, patience: Duration::from_millis(60_500) };
    arbiter.switch(&switch).await.expect("a switch is answered")
}

/// Goes to the next route, which is not armed.
#[track_caller]
fn switched<'a>(arbiter: &'a dyn Arbiter, route: &'a Route) -> impl Future<Output = ()> + 'a {
    let at = std::panic::Location::caller();
    async move {
        let from = Epoch::new(route.epoch.number() - 1);
        assert!(try_switch(arbiter, from, &route.target, Duration::ZERO).await, "{at}: it was in force");
    }
}

/// Goes to the next route, which comes into force in a minute.
async fn switched_and_pending(arbiter: &dyn Arbiter, route: &Route) {
    switched(arbiter, route).await;
    arm(arbiter, route.epoch, DRAIN).await;
}

/// Goes to the next route, which is in force now.
async fn switched_in_force(arbiter: &dyn Arbiter, route: &Route) {
    switched(arbiter, route).await;
    arm(arbiter, route.epoch, Duration::ZERO).await;
}

async fn try_read(arbiter: &dyn Arbiter) -> Option<Reading> {
    arbiter.route().await.expect("the route is read")
}

async fn read(arbiter: &dyn Arbiter) -> Reading {
    try_read(arbiter).await.expect("there is a route")
}

/// Waits until the latest route is in force. It is armed.
async fn comes_into_force(arbiter: &dyn Arbiter) {
    while !matches!(read(arbiter).await.force, Force::Since(_)) {
        sleep(LOOK).await;
    }
}

async fn claim(arbiter: &dyn Arbiter, who: &Claimant, under: &Route) -> Result<Attempt, Refusal> {
    arbiter.claim(&who.claim(LONG), under).await.expect("a claim is answered")
}

#[track_caller]
fn takes<'a>(arbiter: &'a dyn Arbiter, who: &'a Claimant, under: &'a Route) -> impl Future<Output = FencingToken> + 'a {
    let at = std::panic::Location::caller();
    async move {
        match claim(arbiter, who, under).await {
            Ok(Attempt::Granted(grant)) => grant.token,
            other => panic!("{at}: not granted under {under:?}: {other:?}"),
        }
    }
}

#[track_caller]
fn is_held_off<'a>(arbiter: &'a dyn Arbiter, who: &'a Claimant, under: &'a Route) -> impl Future<Output = ()> + 'a {
    let at = std::panic::Location::caller();
    async move {
        let answer = claim(arbiter, who, under).await;
        assert!(matches!(answer, Ok(Attempt::Held(_))), "{at}: it is not held: {answer:?}");
    }
}

async fn renew(arbiter: &dyn Arbiter, who: &Claimant, under: &Route) -> Renewal {
    let mut answers = arbiter.renew_under(&[(who.key(), LONG)], under).await;
    assert_eq!(answers.len(), 1, "one answer for one lease");
    answers.remove(0).expect("a renewal is answered").expect("nothing is refused")
}

async fn carry(arbiter: &dyn Arbiter, who: &Claimant, token: FencingToken, to: &Route) -> Result<(), Refusal> {
    carry_for(arbiter, who, token, LONG, to).await
}

async fn carry_for(
    arbiter: &dyn Arbiter,
    who: &Claimant,
    token: FencingToken,
    ttl: Duration,
    to: &Route,
) -> Result<(), Refusal> {
    let carried = Carried { key: who.key(), label: who.label.clone(), token, ttl };
    arbiter.carry(&carried, to).await.expect("a carry is answered")
}

async fn claim_tick(arbiter: &dyn Arbiter, who: &Claimant, due: Due, epoch: Epoch) -> Result<TickClaim, Refusal> {
    let claim = TickOf { lease: who.key(), due, again: false };
    arbiter.claim_tick(&claim, epoch).await.expect("a claim of a tick is answered")
}

#[track_caller]
fn runs<'a>(arbiter: &'a dyn Arbiter, who: &'a Claimant, due: Due) -> impl Future<Output = (u32, Option<Tick>)> + 'a {
    let at = std::panic::Location::caller();
    async move {
        match claim_tick(arbiter, who, due, Epoch::FIRST).await {
            Ok(TickClaim::Claimed { attempt, gave_up }) => (attempt, gave_up),
            other => panic!("{at}: the tick was not given: {other:?}"),
        }
    }
}

#[track_caller]
fn is_not_due<'a>(arbiter: &'a dyn Arbiter, who: &'a Claimant, due: Due) -> impl Future<Output = NotDue> + 'a {
    let at = std::panic::Location::caller();
    async move {
        match claim_tick(arbiter, who, due, Epoch::FIRST).await {
            Ok(TickClaim::NotDue(why)) => why,
            other => panic!("{at}: the tick was due: {other:?}"),
        }
    }
}

async fn standing(arbiter: &dyn Arbiter, name: &LockName, due: Due, alive: Option<&Claimant>) -> Standing {
    let alive = alive.map(|who| who.holder);
    arbiter.standing(name, due, alive).await.expect("a look at a tick is answered")
}

/// Releases what it holds here.
async fn frees(arbiter: &dyn Arbiter, who: &Claimant) {
    assert_eq!(who.releases(arbiter).await, Release::Released);
}

/// Says how its tick went; its lease is in the primary.
async fn tells(arbiter: &dyn Arbiter, who: &Claimant, verdict: Verdict) {
    assert_eq!(who.says(arbiter, verdict).await, Release::NotHeld);
}

/// A token as a primary would have given it out.
fn token_of(epoch: u64, counter: u64) -> FencingToken {
    Epoch::new(epoch).token(counter).expect("it fits")
}

fn is_of(token: FencingToken, epoch: u64) -> bool {
    (token_of(epoch, 0)..token_of(epoch + 1, 0)).contains(&token)
}

/// Nothing is done before there is one.
pub async fn at_first_there_is_no_route(arbiter: &dyn Arbiter) {
    let (who, route) = (Claimant::of(&fresh_name("no route")), to_arbiter(1));
    let due = once(Ticks::of(arbiter).await.nth(0));
    assert_eq!(try_read(arbiter).await, None);
    arm(arbiter, Epoch::FIRST, Duration::ZERO).await;
    arbiter.complain().await.expect("a complaint is taken");
    assert!(!try_switch(arbiter, Epoch::FIRST, &Target::Arbiter, Duration::ZERO).await);
    assert_eq!(claim(arbiter, &who, &route).await.unwrap_err(), Refusal::OtherRoute);
    assert_eq!(carry(arbiter, &who, token_of(1, 1), &route).await, Err(Refusal::OtherRoute));
    assert_eq!(claim_tick(arbiter, &who, due, Epoch::FIRST).await, Err(Refusal::OtherRoute));
    assert_eq!(standing(arbiter, &who.name, due, None).await, Standing::ForClaim);
    assert_eq!(try_read(arbiter).await, None, "none of these writes one");
}

/// Whoever comes second changes nothing.
pub async fn the_first_route_is_written_once(arbiter: &dyn Arbiter) {
    found(arbiter, &to_primary(1)).await;
    let other = RouteTerms { lease: Duration::from_secs(99), ..terms() };
    arbiter.found(&to_arbiter(7), &other).await.expect("it is answered");
    let expected = Reading {
        route: to_primary(1),
        force: Force::Unarmed,
        terms: terms(),
        patience: Duration::ZERO,
        complained: None,
    };
    assert_eq!(read(arbiter).await, expected);
}

/// In all its parts, also after a switch.
pub async fn a_route_is_read_as_it_was_written(arbiter: &dyn Arbiter) {
    found_in_force(arbiter, &to_arbiter(41)).await;
    switched(arbiter, &to_primary(42)).await;
    let Reading { route, force, terms: read, patience, .. } = read(arbiter).await;
    assert_eq!((route, force, read), (to_primary(42), Force::Unarmed, terms()));
    assert_eq!(patience, Duration::from_millis(60_500));
    arm(arbiter, Epoch::new(42), Duration::ZERO).await;
    switched(arbiter, &to_arbiter(43)).await;
    assert_eq!(self::read(arbiter).await.route, to_arbiter(43));
}

/// It counts down, and then up.
pub async fn a_route_comes_into_force_after_its_drain(arbiter: &dyn Arbiter) {
    let drain = Duration::from_millis(700);
    found(arbiter, &to_primary(1)).await;
    sleep(LOOK).await;
    assert_eq!(read(arbiter).await.force, Force::Unarmed, "not by itself");
    let sent = Instant::now();
    arm(arbiter, Epoch::FIRST, drain).await;
    let armed = Instant::now();
    loop {
        let force = read(arbiter).await.force;
        let now = Instant::now();
        match force {
            Force::In(rest) => {
                assert!(rest <= drain);
                assert!(now + rest + LOOK >= sent + drain, "it comes too soon: {rest:?}");
            }
            Force::Since(age) => {
                assert!(now >= sent + drain, "it came too soon");
                assert!(now + LOOK >= sent + drain + age, "it is older than it can be: {age:?}");
                break;
            }
            Force::Unarmed => panic!("it was armed"),
        }
        assert!(armed.elapsed() < surely_over(drain), "it never comes");
        sleep(LOOK).await;
    }
    sleep(LOOK).await;
    assert!(matches!(read(arbiter).await.force, Force::Since(age) if age >= LOOK), "it goes on");
}

/// The first time stands.
pub async fn it_is_armed_once(arbiter: &dyn Arbiter) {
    found(arbiter, &to_primary(1)).await;
    arm(arbiter, Epoch::FIRST, DRAIN).await;
    arm(arbiter, Epoch::FIRST, Duration::ZERO).await;
    arm(arbiter, Epoch::FIRST, DRAIN * 2).await;
    let force = read(arbiter).await.force;
    assert!(matches!(force, Force::In(rest) if rest <= DRAIN && rest > DRAIN / 2), "{force:?}");
}

/// Whoever arms another route, late or early, arms none.
pub async fn and_only_the_latest(arbiter: &dyn Arbiter) {
    found_in_force(arbiter, &to_primary(1)).await;
    switched(arbiter, &to_arbiter(2)).await;
    for epoch in [1, 3] {
        arm(arbiter, Epoch::new(epoch), Duration::ZERO).await;
        assert_eq!(read(arbiter).await.force, Force::Unarmed);
    }
}

/// Neither one that is not armed nor one that is to come.
pub async fn a_switch_needs_a_route_that_is_in_force(arbiter: &dyn Arbiter) {
    found(arbiter, &to_primary(1)).await;
    assert!(!try_switch(arbiter, Epoch::FIRST, &Target::Arbiter, Duration::ZERO).await, "it is not armed");
    arm(arbiter, Epoch::FIRST, DRAIN).await;
    assert!(!try_switch(arbiter, Epoch::FIRST, &Target::Arbiter, Duration::ZERO).await, "it is pending");
    assert_eq!(read(arbiter).await.route, to_primary(1));
}

/// The dwell is counted from when it came into force.
pub async fn a_switch_needs_one_that_has_been_for_long_enough(arbiter: &dyn Arbiter) {
    let dwell = Duration::from_millis(600);
    let before = Instant::now();
    found_in_force(arbiter, &to_primary(1)).await;
    let start = Instant::now();
    assert!(!try_switch(arbiter, Epoch::FIRST, &Target::Arbiter, DRAIN).await);
    while !try_switch(arbiter, Epoch::FIRST, &Target::Arbiter, dwell).await {
        assert!(start.elapsed() < surely_over(dwell), "it is never long enough");
        sleep(LOOK).await;
    }
    assert!(before.elapsed() + LOOK * 4 >= dwell, "it switched after {:?}", before.elapsed());
    assert_eq!(read(arbiter).await.route, to_arbiter(2));
}

/// Late ones and early ones change nothing.
pub async fn a_switch_is_from_the_latest_route(arbiter: &dyn Arbiter) {
    found_in_force(arbiter, &to_primary(5)).await;
    for from in [4, 6] {
        assert!(!try_switch(arbiter, Epoch::new(from), &Target::Arbiter, Duration::ZERO).await);
    }
    switched_in_force(arbiter, &to_arbiter(6)).await;
    assert!(!try_switch(arbiter, Epoch::new(5), &Target::Arbiter, Duration::ZERO).await, "it has been done");
    assert_eq!(read(arbiter).await.route, to_arbiter(6));
}

/// However many try at the same time.
pub async fn one_of_many_switches_wins(arbiter: &dyn Arbiter) {
    found_in_force(arbiter, &to_primary(1)).await;
    for epoch in 1..=5 {
        let from = Epoch::new(epoch);
        let all = (0..8).map(|_| try_switch(arbiter, from, &Target::Arbiter, Duration::ZERO));
        let won = join_all(all).await.into_iter().filter(|won| *won).count();
        assert_eq!(won, 1);
        assert_eq!(read(arbiter).await.route, to_arbiter(epoch + 1));
        join_all((0..8).map(|_| arm(arbiter, from.later(1), Duration::ZERO))).await;
    }
}

/// How long ago, over a switch, too.
pub async fn a_complaint_is_remembered(arbiter: &dyn Arbiter) {
    found_in_force(arbiter, &to_arbiter(1)).await;
    assert_eq!(read(arbiter).await.complained, None);
    let start = Instant::now();
    arbiter.complain().await.expect("a complaint is taken");
    sleep(LOOK * 4).await;
    let ago = read(arbiter).await.complained.expect("somebody complained");
    assert!(ago >= LOOK * 3 && ago <= start.elapsed() + LOOK * 20, "{ago:?}");
    switched(arbiter, &to_primary(2)).await;
    assert!(read(arbiter).await.complained.is_some_and(|later| later >= ago));
    arbiter.complain().await.expect("a complaint is taken");
    assert!(read(arbiter).await.complained.is_some_and(|ago| ago < start.elapsed()));
}

/// Over connections of its own.
pub async fn the_keeper_reads_the_same_route(arbiter: &dyn Arbiter) {
    found_in_force(arbiter, &to_primary(1)).await;
    let keeper = arbiter.for_keeper();
    let keepers = keeper.as_arbiter().expect("it is the same store");
    assert_eq!(read(keepers).await.route, to_primary(1));
    switched(keepers, &to_arbiter(2)).await;
    assert_eq!(read(arbiter).await.route, to_arbiter(2));
}

/// Not armed, pending, over, another target: nothing is granted.
pub async fn a_claim_needs_its_route_in_force(arbiter: &dyn Arbiter) {
    let who = Claimant::of(&fresh_name("claim"));
    let refused = async |under: &Route| {
        assert_eq!(claim(arbiter, &who, under).await.unwrap_err(), Refusal::OtherRoute, "{under:?}");
        assert_eq!(inspect(arbiter, &who.name).await, None, "nothing was done");
    };
    let drain = Duration::from_millis(500);
    found(arbiter, &to_arbiter(1)).await;
    refused(&to_arbiter(1)).await;
    let sent = Instant::now();
    arm(arbiter, Epoch::FIRST, drain).await;
    let early = claim(arbiter, &who, &to_arbiter(1)).await;
    // Asked later, on a machine that is that busy, it may be granted.
    assert!(matches!(early, Err(Refusal::OtherRoute)) || sent.elapsed() >= drain, "{early:?}");
    who.leaves(arbiter).await;
    comes_into_force(arbiter).await;
    refused(&to_arbiter(0)).await;
    refused(&to_arbiter(2)).await;
    takes(arbiter, &who, &to_arbiter(1)).await;
    frees(arbiter, &who).await;
    switched_in_force(arbiter, &to_primary(2)).await;
    refused(&to_arbiter(1)).await;
    refused(&to_arbiter(2)).await;
}

/// Above the counter: later routes make larger ones.
pub async fn tokens_have_the_epoch(arbiter: &dyn Arbiter) {
    let name = fresh_name("tokens");
    found_in_force(arbiter, &to_arbiter(1)).await;
    let mut last = token_of(1, 0);
    for epoch in 1..=3 {
        for _ in 0..3 {
            let who = Claimant::of(&name);
            let token = takes(arbiter, &who, &to_arbiter(epoch)).await;
            assert!(is_of(token, epoch) && token > last, "{token} after {last} in epoch {epoch}");
            last = token;
            frees(arbiter, &who).await;
        }
        switched_in_force(arbiter, &to_arbiter(epoch + 1)).await;
    }
}

/// As without a route.
pub async fn the_same_claim_under_a_route_is_the_same_grant(arbiter: &dyn Arbiter) {
    let (who, route) = (Claimant::of(&fresh_name("same")), to_arbiter(1));
    found_in_force(arbiter, &route).await;
    let token = takes(arbiter, &who, &route).await;
    assert_eq!(takes(arbiter, &who, &route).await, token);
    let longer = arbiter.claim(&who.claim(LONG * 2), &route).await.expect("it is answered");
    assert!(matches!(longer, Ok(Attempt::Granted(grant)) if grant.token == token));
    assert!(remaining(arbiter, &who.name).await > LONG);
    takes(arbiter, &who, &route).await;
    assert!(remaining(arbiter, &who.name).await > LONG, "it is never cut");
}

/// Whoever claims next gets the lock, and the old holder has nothing any more.
pub async fn a_lease_of_an_earlier_route_is_dead(arbiter: &dyn Arbiter) {
    let name = fresh_name("dead");
    let (old, new, late) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
    found_in_force(arbiter, &to_arbiter(1)).await;
    let first = takes(arbiter, &old, &to_arbiter(1)).await;
    is_held_off(arbiter, &new, &to_arbiter(1)).await;
    switched_in_force(arbiter, &to_arbiter(2)).await;
    let second = takes(arbiter, &new, &to_arbiter(2)).await;
    assert!(second > first);
    is_held_off(arbiter, &late, &to_arbiter(2)).await;
    is_held_off(arbiter, &old, &to_arbiter(2)).await;
    assert_eq!(renew(arbiter, &old, &to_arbiter(1)).await, Renewal::Gone);
    assert_eq!(old.renews(arbiter, LONG).await, Renewal::Gone);
    assert_eq!(old.releases(arbiter).await, Release::NotHeld);
    assert_eq!(renew(arbiter, &new, &to_arbiter(2)).await, Renewal::Renewed);
    // And its own holder is granted it anew.
    switched_in_force(arbiter, &to_arbiter(3)).await;
    assert!(is_of(takes(arbiter, &new, &to_arbiter(3)).await, 3));
}

/// A minimum hold is over with its route.
pub async fn a_tombstone_of_an_earlier_route_is_dead(arbiter: &dyn Arbiter) {
    let name = fresh_name("tombstone");
    let (old, new) = (Claimant::of(&name), Claimant::of(&name));
    found_in_force(arbiter, &to_arbiter(1)).await;
    takes(arbiter, &old, &to_arbiter(1)).await;
    assert_eq!(old.releases_but_keeps(arbiter, LONG).await, Release::Released);
    is_held_off(arbiter, &new, &to_arbiter(1)).await;
    switched_in_force(arbiter, &to_arbiter(2)).await;
    takes(arbiter, &new, &to_arbiter(2)).await;
}

/// It is none of a fallback's.
pub async fn what_has_no_tag_lives(arbiter: &dyn Arbiter) {
    let name = fresh_name("untagged");
    let (plain, tagged) = (Claimant::of(&name), Claimant::of(&name));
    found_in_force(arbiter, &to_arbiter(9)).await;
    plain.takes(arbiter, LONG).await;
    is_held_off(arbiter, &tagged, &to_arbiter(9)).await;
    assert_eq!(renew(arbiter, &plain, &to_arbiter(9)).await, Renewal::Gone, "it has another tag: none");
    assert_eq!(plain.renews(arbiter, LONG).await, Renewal::Renewed);
    frees(arbiter, &plain).await;
    takes(arbiter, &tagged, &to_arbiter(9)).await;
}

/// They live beside a fallback: held is held, and what they are granted has no tag, though the last lease had.
pub async fn plain_claims_know_no_tags(arbiter: &dyn Arbiter) {
    let name = fresh_name("plain");
    let (tagged, plain, later) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
    found_in_force(arbiter, &to_arbiter(1)).await;
    takes(arbiter, &tagged, &to_arbiter(1)).await;
    plain.is_refused(arbiter).await;
    frees(arbiter, &tagged).await;
    plain.takes(arbiter, LONG).await;
    switched_in_force(arbiter, &to_arbiter(2)).await;
    is_held_off(arbiter, &later, &to_arbiter(2)).await;
    assert_eq!(renew(arbiter, &plain, &to_arbiter(1)).await, Renewal::Gone);
}

/// Those of another route are gone, and stay as they are.
pub async fn renewals_are_of_one_route(arbiter: &dyn Arbiter) {
    let who = Claimant::of(&fresh_name("renewal"));
    found_in_force(arbiter, &to_arbiter(1)).await;
    let claim = who.claim(arbiter.traits().smallest_ttl * 10);
    assert!(matches!(arbiter.claim(&claim, &to_arbiter(1)).await, Ok(Ok(Attempt::Granted(_)))));
    for other in [0, 2] {
        assert_eq!(renew(arbiter, &who, &to_arbiter(other)).await, Renewal::Gone);
        assert!(remaining(arbiter, &who.name).await < LONG / 2, "it was not moved");
    }
    switched_and_pending(arbiter, &to_primary(2)).await;
    assert_eq!(renew(arbiter, &who, &to_arbiter(1)).await, Renewal::Renewed, "while a switch is pending, too");
    assert!(remaining(arbiter, &who.name).await > LONG / 2);
}

/// An overtaken one doesn't take back what a later one promised.
pub async fn a_tagged_renewal_never_cuts(arbiter: &dyn Arbiter) {
    let (who, route) = (Claimant::of(&fresh_name("cut")), to_arbiter(1));
    found_in_force(arbiter, &route).await;
    takes(arbiter, &who, &route).await;
    let shorter = [(who.key(), arbiter.traits().smallest_ttl)];
    assert!(matches!(arbiter.renew_under(&shorter, &route).await[..], [Ok(Ok(Renewal::Renewed))]));
    assert!(remaining(arbiter, &who.name).await > LONG / 2);
}

/// Whatever is among them.
pub async fn a_tagged_batch_answers_each_in_order(arbiter: &dyn Arbiter) {
    let route = to_arbiter(1);
    let [held, plain, free, revoked] = ["held", "plain", "free", "revoked"].map(|what| Claimant::of(&fresh_name(what)));
    found_in_force(arbiter, &route).await;
    takes(arbiter, &held, &route).await;
    plain.takes(arbiter, LONG).await;
    takes(arbiter, &revoked, &route).await;
    revoked.is_revoked(arbiter, Revoke::Gently).await;
    let batch = [&free, &held, &plain, &revoked, &held].map(|who| (who.key(), LONG));
    let answers: Vec<_> =
        arbiter.renew_under(&batch, &route).await.into_iter().map(|one| one.unwrap().unwrap()).collect();
    let (gone, renewed) = (Renewal::Gone, Renewal::Renewed);
    assert_eq!(answers, [gone, renewed, gone, Renewal::Revoked, renewed]);
    assert!(arbiter.renew_under(&[], &route).await.is_empty());
}

/// Nor granted again.
pub async fn a_revoked_tagged_lease_is_not_renewed(arbiter: &dyn Arbiter) {
    let (who, route) = (Claimant::of(&fresh_name("revoked")), to_arbiter(1));
    found_in_force(arbiter, &route).await;
    takes(arbiter, &who, &route).await;
    assert!(who.is_revoked(arbiter, Revoke::Gently).await.is_some());
    assert_eq!(renew(arbiter, &who, &route).await, Renewal::Revoked);
    is_held_off(arbiter, &who, &route).await;
}

/// However many try at the same time, over the dead lease of an earlier route, too.
pub async fn one_of_many_claims_under_a_route(arbiter: &dyn Arbiter) {
    let name = fresh_name("crowd");
    found_in_force(arbiter, &to_arbiter(1)).await;
    for epoch in 1..=4 {
        let route = to_arbiter(epoch);
        let crowd: Vec<_> = (0..8).map(|_| Claimant::of(&name)).collect();
        let answers = join_all(crowd.iter().map(|who| claim(arbiter, who, &route))).await;
        let granted = answers.iter().filter(|answer| matches!(answer, Ok(Attempt::Granted(_)))).count();
        assert_eq!(granted, 1, "{answers:?}");
        switched_in_force(arbiter, &to_arbiter(epoch + 1)).await;
    }
}

/// Not armed, in force, another epoch, another target: nothing is written.
pub async fn a_carry_needs_its_route_pending(arbiter: &dyn Arbiter) {
    let who = Claimant::of(&fresh_name("carry"));
    let refused = async |to: &Route| {
        assert_eq!(carry(arbiter, &who, token_of(1, 7), to).await, Err(Refusal::OtherRoute), "{to:?}");
        assert_eq!(inspect(arbiter, &who.name).await, None, "nothing was done");
    };
    found_in_force(arbiter, &to_primary(1)).await;
    refused(&to_arbiter(1)).await;
    switched(arbiter, &to_arbiter(2)).await;
    refused(&to_arbiter(2)).await;
    let (drain, sent) = (Duration::from_millis(1500), Instant::now());
    arm(arbiter, Epoch::new(2), drain).await;
    refused(&to_arbiter(1)).await;
    refused(&to_arbiter(3)).await;
    match carry(arbiter, &who, token_of(1, 7), &to_arbiter(2)).await {
        Ok(()) => frees(arbiter, &who).await,
        // On a busy machine it may be in force by then. What is pending takes a lease in: the next case.
        refused => assert!(refused == Err(Refusal::OtherRoute) && sent.elapsed() >= drain, "{refused:?}"),
    }
    comes_into_force(arbiter).await;
    refused(&to_arbiter(2)).await;
    switched_and_pending(arbiter, &to_primary(3)).await;
    refused(&to_arbiter(3)).await;
}

/// Carries a lease with this counter from a primary to the arbiter, by a route that comes into force soon. On a busy machine that
/// may be too soon: then along a later one. Answers its token and the route.
async fn carried_in_time(arbiter: &dyn Arbiter, who: &Claimant, counter: u64) -> (FencingToken, Route) {
    let drain = Duration::from_millis(1500);
    found_in_force(arbiter, &to_primary(1)).await;
    for epoch in [1, 3, 5, 7, 9] {
        let (token, to, sent) = (token_of(epoch, counter), to_arbiter(epoch + 1), Instant::now());
        switched(arbiter, &to).await;
        arm(arbiter, to.epoch, drain).await;
        match carry(arbiter, who, token, &to).await {
            Ok(()) => return (token, to),
            refused => assert!(refused == Err(Refusal::OtherRoute) && sent.elapsed() >= drain, "{refused:?}"),
        }
        switched_in_force(arbiter, &to_primary(epoch + 2)).await;
    }
    panic!("five times, the route was in force before a lease was carried along it");
}

/// And counts under the new route from then on.
pub async fn a_carried_lease_keeps_its_token(arbiter: &dyn Arbiter) {
    let name = fresh_name("carried");
    let (who, other) = (Claimant::of(&name), Claimant::of(&name));
    let (token, route) = carried_in_time(arbiter, &who, 4711).await;
    let held = inspect(arbiter, &name).await.expect("it is held");
    assert_eq!((held.holder, held.token, held.label.as_str()), (Some(who.holder), token, who.label.as_str()));
    assert_eq!(renew(arbiter, &who, &route).await, Renewal::Renewed, "before the route is in force, too");
    comes_into_force(arbiter).await;
    is_held_off(arbiter, &other, &route).await;
    assert_eq!(takes(arbiter, &who, &route).await, token, "the same grant");
    frees(arbiter, &who).await;
    assert!(is_of(takes(arbiter, &other, &route).await, route.epoch.number()));
}

/// Not even its own lease.
pub async fn a_carry_never_cuts(arbiter: &dyn Arbiter) {
    let who = Claimant::of(&fresh_name("twice"));
    found_in_force(arbiter, &to_primary(1)).await;
    switched_and_pending(arbiter, &to_arbiter(2)).await;
    assert_eq!(carry_for(arbiter, &who, token_of(1, 7), LONG * 2, &to_arbiter(2)).await, Ok(()));
    assert_eq!(carry_for(arbiter, &who, token_of(1, 7), LONG, &to_arbiter(2)).await, Ok(()));
    assert!(remaining(arbiter, &who.name).await > LONG);
    assert_eq!(carry_for(arbiter, &who, token_of(1, 7), LONG * 3, &to_arbiter(2)).await, Ok(()));
    assert!(remaining(arbiter, &who.name).await > LONG * 2);
}

/// Who was carried first has it; and those whose lease has no tag.
pub async fn a_carry_takes_no_lease_from_anybody(arbiter: &dyn Arbiter) {
    let [name, plain_name] = ["first", "plain"].map(fresh_name);
    let (first, second) = (Claimant::of(&name), Claimant::of(&name));
    let (plain, third) = (Claimant::of(&plain_name), Claimant::of(&plain_name));
    plain.takes(arbiter, LONG).await;
    found_in_force(arbiter, &to_primary(1)).await;
    switched_and_pending(arbiter, &to_arbiter(2)).await;
    assert_eq!(carry(arbiter, &first, token_of(1, 7), &to_arbiter(2)).await, Ok(()));
    assert_eq!(carry(arbiter, &second, token_of(1, 8), &to_arbiter(2)).await, Err(Refusal::HeldByAnother));
    assert_eq!(carry(arbiter, &third, token_of(1, 9), &to_arbiter(2)).await, Err(Refusal::HeldByAnother));
    assert_eq!(renew(arbiter, &first, &to_arbiter(2)).await, Renewal::Renewed);
    assert_eq!(plain.renews(arbiter, LONG).await, Renewal::Renewed);
}

/// Of those who were left behind two switches ago.
pub async fn a_carry_takes_the_place_of_the_dead(arbiter: &dyn Arbiter) {
    let name = fresh_name("over the dead");
    let (dead, who) = (Claimant::of(&name), Claimant::of(&name));
    found_in_force(arbiter, &to_arbiter(1)).await;
    takes(arbiter, &dead, &to_arbiter(1)).await;
    switched_in_force(arbiter, &to_primary(2)).await;
    switched_and_pending(arbiter, &to_arbiter(3)).await;
    assert_eq!(carry(arbiter, &who, token_of(2, 1), &to_arbiter(3)).await, Ok(()));
    assert_eq!(renew(arbiter, &dead, &to_arbiter(1)).await, Renewal::Gone);
    assert_eq!(inspect(arbiter, &name).await.and_then(|held| held.holder), Some(who.holder));
}

/// As long as it lives.
pub async fn a_revoked_lease_is_not_carried(arbiter: &dyn Arbiter) {
    let (who, plain) = (Claimant::of(&fresh_name("revoked")), Claimant::of(&fresh_name("plain")));
    found_in_force(arbiter, &to_primary(1)).await;
    switched_and_pending(arbiter, &to_arbiter(2)).await;
    assert_eq!(carry(arbiter, &who, token_of(1, 7), &to_arbiter(2)).await, Ok(()));
    plain.takes(arbiter, LONG).await;
    for revoked in [&who, &plain] {
        assert!(revoked.is_revoked(arbiter, Revoke::Gently).await.is_some());
        assert_eq!(carry(arbiter, revoked, token_of(1, 7), &to_arbiter(2)).await, Err(Refusal::Revoked));
    }
    assert_eq!(renew(arbiter, &who, &to_arbiter(2)).await, Renewal::Revoked, "nothing was undone");
}

/// By time.
pub async fn a_carried_lease_ends_as_others_do(arbiter: &dyn Arbiter) {
    let who = Claimant::of(&fresh_name("ends"));
    let ttl = arbiter.traits().smallest_ttl;
    found_in_force(arbiter, &to_primary(1)).await;
    switched_and_pending(arbiter, &to_arbiter(2)).await;
    assert_eq!(carry_for(arbiter, &who, token_of(1, 7), ttl, &to_arbiter(2)).await, Ok(()));
    outlive(ttl).await;
    who.is_gone(arbiter).await;
    assert_eq!(renew(arbiter, &who, &to_arbiter(2)).await, Renewal::Gone);
    let other = Claimant::of(&who.name);
    assert_eq!(carry(arbiter, &other, token_of(1, 8), &to_arbiter(2)).await, Ok(()));
}

/// Its holder is dead for ever.
pub async fn a_release_ends_a_lease_of_any_route(arbiter: &dyn Arbiter) {
    let (released, left) = (Claimant::of(&fresh_name("released")), Claimant::of(&fresh_name("left")));
    found_in_force(arbiter, &to_arbiter(1)).await;
    takes(arbiter, &released, &to_arbiter(1)).await;
    takes(arbiter, &left, &to_arbiter(1)).await;
    switched_and_pending(arbiter, &to_primary(2)).await;
    frees(arbiter, &released).await;
    left.leaves(arbiter).await;
    for who in [released, left] {
        assert_eq!(renew(arbiter, &who, &to_arbiter(1)).await, Renewal::Gone);
        assert!(inspect(arbiter, &who.name).await.is_none_or(|look| look.holder.is_none()));
    }
}

/// Counters are each store's own.
pub async fn tokens_grow_though_a_carried_one_was_larger(arbiter: &dyn Arbiter) {
    let name = fresh_name("foreign counter");
    let (carried, next) = (Claimant::of(&name), Claimant::of(&name));
    let (largest, route) = carried_in_time(arbiter, &carried, (1 << 46) - 1).await;
    frees(arbiter, &carried).await;
    comes_into_force(arbiter).await;
    let token = takes(arbiter, &next, &route).await;
    assert!(token > largest && is_of(token, route.epoch.number()), "{token}");
}

/// The arbiter doesn't look at leases.
pub async fn a_tick_is_claimed_once_wherever_the_lease_is(arbiter: &dyn Arbiter) {
    let name = fresh_name("tick");
    let (who, other) = (Claimant::of(&name), Claimant::of(&name));
    let ticks = Ticks::of(arbiter).await;
    found_in_force(arbiter, &to_primary(1)).await;
    assert_eq!(runs(arbiter, &who, once(ticks.nth(1))).await, (1, None));
    assert_eq!(is_not_due(arbiter, &other, once(ticks.nth(1))).await, unfinished(ticks.nth(1)));
    assert_eq!(is_not_due(arbiter, &other, once(ticks.nth(0))).await, finished(ticks.nth(1)));
    assert_eq!(inspect(arbiter, &name).await, None, "a mark is no lease");
    assert_eq!(runs(arbiter, &other, once(ticks.nth(2))).await, (1, None));
}

/// The first answer may have been lost.
pub async fn a_tick_asked_for_again_is_answered_the_same(arbiter: &dyn Arbiter) {
    let name = fresh_name("again");
    let (who, other) = (Claimant::of(&name), Claimant::of(&name));
    let ticks = Ticks::of(arbiter).await;
    found_in_force(arbiter, &to_primary(1)).await;
    let again = async |who: &Claimant, due: Due| {
        let claim = TickOf { lease: who.key(), due, again: true };
        arbiter.claim_tick(&claim, Epoch::FIRST).await.expect("it is answered")
    };
    for due in [once(ticks.nth(1)), retried(ticks.nth(2))] {
        assert_eq!(runs(arbiter, &who, due).await, (1, None));
        for _ in 0..2 {
            assert_eq!(again(&who, due).await, Ok(TickClaim::Claimed { attempt: 1, gave_up: None }));
        }
    }
    let of_nobody = again(&other, once(ticks.nth(3))).await;
    assert_eq!(of_nobody, Ok(TickClaim::Claimed { attempt: 1, gave_up: None }), "the first was never heard");
    assert_eq!(again(&who, once(ticks.nth(3))).await, Ok(TickClaim::NotDue(unfinished(ticks.nth(3)))));
}

/// What it began before may be half done.
pub async fn the_same_holder_granted_anew_is_another_attempt(arbiter: &dyn Arbiter) {
    let who = Claimant::of(&fresh_name("anew"));
    let ticks = Ticks::of(arbiter).await;
    found_in_force(arbiter, &to_primary(1)).await;
    assert_eq!(runs(arbiter, &who, retried(ticks.nth(1))).await.0, 1);
    assert_eq!(runs(arbiter, &who, retried(ticks.nth(1))).await.0, 2);
    assert_eq!(runs(arbiter, &who, once(ticks.nth(2))).await.0, 1);
    assert_eq!(is_not_due(arbiter, &who, once(ticks.nth(2))).await, unfinished(ticks.nth(2)));
}

/// An open one stays open beside it.
pub async fn a_newer_tick_closes_older_ones(arbiter: &dyn Arbiter) {
    let name = fresh_name("newer");
    let who = [0, 1, 2].map(|_| Claimant::of(&name));
    let ticks = Ticks::of(arbiter).await;
    found_in_force(arbiter, &to_primary(1)).await;
    runs(arbiter, &who[0], retried(ticks.nth(1))).await;
    runs(arbiter, &who[1], once(ticks.nth(5))).await;
    assert_eq!(is_not_due(arbiter, &who[2], retried(ticks.nth(3))).await, finished(ticks.nth(5)));
    assert_eq!(runs(arbiter, &who[2], retried(ticks.nth(1))).await.0, 2);
}

/// The lease is in the primary.
pub async fn done_closes_a_tick_without_a_lease(arbiter: &dyn Arbiter) {
    let name = fresh_name("done");
    let (who, other) = (Claimant::of(&name), Claimant::of(&name));
    let tick = Ticks::of(arbiter).await.nth(0);
    found_in_force(arbiter, &to_primary(1)).await;
    runs(arbiter, &who, retried(tick)).await;
    tells(arbiter, &who, Verdict::Done(tick)).await;
    assert_eq!(is_not_due(arbiter, &other, retried(tick)).await, finished(tick));
    assert_eq!(standing(arbiter, &name, retried(tick), None).await, Standing::Over(finished(tick)));
}

/// Where that was wanted.
pub async fn a_failed_tick_is_claimed_again(arbiter: &dyn Arbiter) {
    let (name, strict) = (fresh_name("failed"), fresh_name("failed once"));
    let tick = Ticks::of(arbiter).await.nth(0);
    found_in_force(arbiter, &to_primary(1)).await;
    for attempt in 1..=3 {
        let who = Claimant::of(&name);
        assert_eq!(runs(arbiter, &who, retried(tick)).await, (attempt, None));
        tells(arbiter, &who, Verdict::Failed).await;
    }
    let (who, other) = (Claimant::of(&strict), Claimant::of(&strict));
    runs(arbiter, &who, once(tick)).await;
    tells(arbiter, &who, Verdict::Failed).await;
    assert_eq!(is_not_due(arbiter, &other, retried(tick)).await, finished(tick));
}

/// It counts for nobody.
pub async fn a_tick_given_back_was_never_begun(arbiter: &dyn Arbiter) {
    let name = fresh_name("given back");
    let (who, stranger, other) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
    let tick = Ticks::of(arbiter).await.nth(0);
    found_in_force(arbiter, &to_primary(1)).await;
    runs(arbiter, &who, once(tick)).await;
    tells(arbiter, &stranger, Verdict::NotStarted).await;
    assert_eq!(is_not_due(arbiter, &other, once(tick)).await, unfinished(tick), "it was not the stranger's");
    tells(arbiter, &who, Verdict::NotStarted).await;
    assert_eq!(standing(arbiter, &name, once(tick), None).await, Standing::ForClaim);
    assert_eq!(runs(arbiter, &other, once(tick)).await, (1, None));
}

/// As not started.
pub async fn leaving_gives_a_tick_back(arbiter: &dyn Arbiter) {
    let name = fresh_name("left");
    let (who, other) = (Claimant::of(&name), Claimant::of(&name));
    let tick = Ticks::of(arbiter).await.nth(0);
    found_in_force(arbiter, &to_primary(1)).await;
    runs(arbiter, &who, once(tick)).await;
    who.leaves(arbiter).await;
    assert_eq!(runs(arbiter, &other, once(tick)).await, (1, None));
}

/// The caller knows who has the lease.
pub async fn a_tick_stands_by_who_is_alive(arbiter: &dyn Arbiter) {
    let name = fresh_name("standing");
    let (who, other) = (Claimant::of(&name), Claimant::of(&name));
    let ticks = Ticks::of(arbiter).await;
    found_in_force(arbiter, &to_primary(1)).await;
    assert_eq!(standing(arbiter, &name, once(ticks.nth(1)), None).await, Standing::ForClaim);
    runs(arbiter, &who, once(ticks.nth(1))).await;
    let tick = once(ticks.nth(1));
    assert_eq!(standing(arbiter, &name, tick, Some(&who)).await, Standing::Running);
    let over = Standing::Over(unfinished(ticks.nth(1)));
    assert_eq!(standing(arbiter, &name, tick, Some(&other)).await, over);
    assert_eq!(standing(arbiter, &name, tick, None).await, over);
    assert_eq!(standing(arbiter, &name, once(ticks.nth(0)), Some(&who)).await, Standing::Over(finished(ticks.nth(1))));
    assert_eq!(standing(arbiter, &name, once(ticks.nth(2)), Some(&who)).await, Standing::ForClaim);
    // Both it and the one before want it tried again.
    runs(arbiter, &who, retried(ticks.nth(3))).await;
    let retry = retried(ticks.nth(3));
    assert_eq!(standing(arbiter, &name, retry, Some(&who)).await, Standing::Running);
    assert_eq!(standing(arbiter, &name, retry, None).await, Standing::ForClaim);
    // What has a lease here says nothing.
    other.takes(arbiter, LONG).await;
    runs(arbiter, &other, once(ticks.nth(4))).await;
    assert_eq!(standing(arbiter, &name, once(ticks.nth(4)), None).await, Standing::Over(unfinished(ticks.nth(4))));
}

/// By the arbiter's clock.
pub async fn ticks_have_their_window(arbiter: &dyn Arbiter) {
    let who = Claimant::of(&fresh_name("window"));
    let now = time(arbiter).await;
    found_in_force(arbiter, &to_primary(1)).await;
    let minute = Duration::from_secs(60);
    let ahead = once(tick_at(now + TICK_SLACK + minute));
    assert!(matches!(is_not_due(arbiter, &who, ahead).await, NotDue::InFuture { ahead } if ahead > TICK_SLACK));
    let old = Due { keep: TICK_SLACK + minute * 10, ..once(tick_at(now - minute * 11)) };
    assert!(matches!(is_not_due(arbiter, &who, old).await, NotDue::TooOld { behind } if behind > minute * 10));
    for due in [ahead, old] {
        assert!(matches!(standing(arbiter, &who.name, due, None).await, Standing::Over(_)));
    }
    let young = Due { keep: TICK_SLACK + minute * 12, ..old };
    assert_eq!(runs(arbiter, &who, young).await, (1, None), "it left no mark");
}

/// And no time.
pub async fn a_key_has_one_run(arbiter: &dyn Arbiter) {
    let name = fresh_name("key");
    let (who, other) = (Claimant::of(&name), Claimant::of(&name));
    found_in_force(arbiter, &to_primary(1)).await;
    assert_eq!(runs(arbiter, &who, retried(Tick::ONLY)).await, (1, None));
    assert_eq!(standing(arbiter, &name, retried(Tick::ONLY), Some(&who)).await, Standing::Running);
    tells(arbiter, &who, Verdict::Failed).await;
    assert_eq!(runs(arbiter, &other, retried(Tick::ONLY)).await, (2, None));
    tells(arbiter, &other, Verdict::Done(Tick::ONLY)).await;
    assert_eq!(is_not_due(arbiter, &who, retried(Tick::ONLY)).await, finished(Tick::ONLY));
}

/// Whoever claims has the lease first, here. Not in memory, which forgets nothing while the process runs.
pub async fn a_key_is_forgotten_though_its_claimant_has_the_lease(arbiter: &dyn Arbiter) {
    if arbiter.traits().kind == "memory" {
        return;
    }
    let (route, keep) = (to_arbiter(1), Duration::from_millis(1500));
    let due = Due { keep, ..retried(Tick::ONLY) };
    found_in_force(arbiter, &route).await;
    let (name, second, late, done) = loop {
        let name = fresh_name("key again");
        let (first, second, late) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
        takes(arbiter, &first, &route).await;
        assert_eq!(runs(arbiter, &first, due).await, (1, None));
        let before = Instant::now();
        assert_eq!(first.says(arbiter, Verdict::Done(Tick::ONLY)).await, Release::Released);
        let done = Instant::now();
        takes(arbiter, &second, &route).await;
        let early = claim_tick(arbiter, &second, due, Epoch::FIRST).await;
        if early == Ok(TickClaim::NotDue(finished(Tick::ONLY))) {
            break (name, second, late, done);
        }
        // On a busy machine it may be forgotten by then.
        assert!(before.elapsed() >= keep, "{early:?}");
    };
    late.leaves(arbiter).await;
    sleep(keep / 2).await;
    late.leaves(arbiter).await; // Ends nothing, so the key is remembered no longer for it.
    sleep((keep + LOOK).saturating_sub(done.elapsed())).await;
    assert_eq!(standing(arbiter, &name, due, Some(&second)).await, Standing::ForClaim);
    assert_eq!(runs(arbiter, &second, due).await, (1, None));
    assert_eq!(standing(arbiter, &name, due, Some(&second)).await, Standing::Running);
}

/// And say which.
pub async fn too_many_open_ticks_give_up_the_oldest(arbiter: &dyn Arbiter) {
    let name = fresh_name("many");
    let ticks = Ticks::of(arbiter).await;
    found_in_force(arbiter, &to_primary(1)).await;
    for nth in 0..OPEN_TICKS {
        assert_eq!(runs(arbiter, &Claimant::of(&name), retried(ticks.nth(nth))).await, (1, None));
    }
    let last = retried(ticks.nth(OPEN_TICKS));
    assert_eq!(runs(arbiter, &Claimant::of(&name), last).await, (1, Some(ticks.nth(0))));
    let who = Claimant::of(&name);
    assert_eq!(is_not_due(arbiter, &who, retried(ticks.nth(0))).await, finished(ticks.nth(OPEN_TICKS)));
    assert_eq!(runs(arbiter, &who, retried(ticks.nth(1))).await, (2, None));
}

/// Or, while that is not in force, the one before.
pub async fn a_tick_needs_the_latest_route(arbiter: &dyn Arbiter) {
    let who = Claimant::of(&fresh_name("route of a tick"));
    let ticks = Ticks::of(arbiter).await;
    let mut asked = 0;
    let mut tried = async |epoch: u64| {
        asked += 1;
        claim_tick(arbiter, &who, once(ticks.nth(asked)), Epoch::new(epoch)).await
    };
    let claimed = Ok(TickClaim::Claimed { attempt: 1, gave_up: None });
    let refused = Err(Refusal::OtherRoute);
    found(arbiter, &to_primary(5)).await;
    assert_eq!([tried(3).await, tried(4).await, tried(5).await, tried(6).await], [refused, claimed, claimed, refused]);
    arm(arbiter, Epoch::new(5), Duration::ZERO).await;
    assert_eq!([tried(4).await, tried(5).await, tried(6).await], [refused, claimed, refused]);
    switched(arbiter, &to_arbiter(6)).await;
    assert_eq!([tried(4).await, tried(5).await, tried(6).await], [refused, claimed, claimed]);
    arm(arbiter, Epoch::new(6), DRAIN).await;
    assert_eq!([tried(4).await, tried(5).await, tried(6).await, tried(7).await], [refused, claimed, claimed, refused]);
}

/// Whatever they believe to hold.
pub async fn one_of_many_claims_a_tick_of_the_arbiter(arbiter: &dyn Arbiter) {
    let name = fresh_name("crowd");
    let ticks = Ticks::of(arbiter).await;
    found_in_force(arbiter, &to_primary(1)).await;
    for nth in 0..5 {
        let crowd: Vec<_> = (0..8).map(|_| Claimant::of(&name)).collect();
        let due = once(ticks.nth(nth));
        let answers = join_all(crowd.iter().map(|who| claim_tick(arbiter, who, due, Epoch::FIRST))).await;
        let claimed = answers.iter().filter(|answer| matches!(answer, Ok(TickClaim::Claimed { .. }))).count();
        assert_eq!(claimed, 1, "{answers:?}");
    }
}

async fn repair(arbiter: &dyn Arbiter, seen: u64) -> Epoch {
    let other = RouteTerms { lease: Duration::from_secs(99), ..terms() };
    arbiter.repair(Epoch::new(seen), &other).await.expect("a repair is answered")
}

/// Above its own, and above what was seen; it has to be armed again, and nothing else changes.
pub async fn a_repair_goes_two_epochs_up(arbiter: &dyn Arbiter) {
    found_in_force(arbiter, &to_primary(5)).await;
    for (seen, next) in [(0, 7), (7, 9), (20, 22), (3, 24)] {
        assert_eq!(repair(arbiter, seen).await, Epoch::new(next));
        let Reading { route, force, terms: read, .. } = read(arbiter).await;
        assert_eq!((route, force, read), (to_primary(next), Force::Unarmed, terms()));
    }
    arm(arbiter, Epoch::new(24), Duration::ZERO).await;
    switched(arbiter, &to_arbiter(25)).await;
}

/// To the arbiter, with the terms that are given.
pub async fn a_repair_writes_a_route_where_there_is_none(arbiter: &dyn Arbiter) {
    assert_eq!(arbiter.repair(Epoch::new(4), &terms()).await.expect("it is answered"), Epoch::new(6));
    let Reading { route, force, terms: read, .. } = read(arbiter).await;
    assert_eq!((route, force, read), (to_arbiter(6), Force::Unarmed, terms()));
}

/// Also those of names that the backup doesn't know; and for as long as clocks may be ahead.
pub async fn after_a_repair_ticks_are_over(arbiter: &dyn Arbiter) {
    let (known, unknown) = (fresh_name("known"), fresh_name("unknown"));
    let (who, other) = (Claimant::of(&known), Claimant::of(&unknown));
    let ticks = Ticks::of(arbiter).await;
    found_in_force(arbiter, &to_primary(1)).await;
    runs(arbiter, &who, retried(ticks.nth(0))).await;
    let before = time(arbiter).await;
    let epoch = repair(arbiter, 1).await;
    let after = time(arbiter).await;
    let ahead = tick_at(before + TICK_SLACK - Duration::from_secs(5));
    let is_over = |answer: NotDue| match answer {
        NotDue::Claimed { newest, unfinished: false } => {
            let floor = tick_at(before + TICK_SLACK)..=tick_at(after + TICK_SLACK);
            assert!(floor.contains(&newest), "{newest}");
        }
        other => panic!("not over as it should be: {other:?}"),
    };
    for who in [&who, &other] {
        for tick in [ticks.nth(0), ticks.nth(1), ahead] {
            match claim_tick(arbiter, who, retried(tick), epoch).await {
                Ok(TickClaim::NotDue(why)) => is_over(why),
                other => panic!("not over: {other:?}"),
            }
            match standing(arbiter, &who.name, retried(tick), Some(who)).await {
                Standing::Over(why) => is_over(why),
                other => panic!("not over: {other:?}"),
            }
        }
    }
    let again = TickOf { lease: who.key(), due: retried(ticks.nth(0)), again: true };
    let answer = arbiter.claim_tick(&again, epoch).await.expect("it is answered");
    assert!(matches!(answer, Ok(TickClaim::NotDue(_))), "what stood open is dropped: {answer:?}");
}

/// The route that leases were to go along with is not even the one before.
pub async fn after_a_repair_nothing_is_carried(arbiter: &dyn Arbiter) {
    let who = Claimant::of(&fresh_name("lost"));
    found_in_force(arbiter, &to_primary(1)).await;
    switched_and_pending(arbiter, &to_arbiter(2)).await;
    let epoch = repair(arbiter, 2).await;
    arm(arbiter, epoch, DRAIN).await;
    for to in [2, 3] {
        assert_eq!(carry(arbiter, &who, token_of(1, 7), &to_arbiter(to)).await, Err(Refusal::OtherRoute));
    }
    let tick = once(Ticks::of(arbiter).await.nth(0));
    assert_eq!(claim_tick(arbiter, &who, tick, Epoch::new(2)).await, Err(Refusal::OtherRoute));
}

/// What the backup knows of them stands, for they have no time.
pub async fn a_repair_leaves_keys_alone(arbiter: &dyn Arbiter) {
    let (open, done) = (fresh_name("open key"), fresh_name("done key"));
    let (who, other) = (Claimant::of(&open), Claimant::of(&done));
    found_in_force(arbiter, &to_primary(1)).await;
    runs(arbiter, &who, retried(Tick::ONLY)).await;
    runs(arbiter, &other, retried(Tick::ONLY)).await;
    tells(arbiter, &other, Verdict::Done(Tick::ONLY)).await;
    let epoch = repair(arbiter, 1).await;
    let asked = async |name: &LockName| {
        let claim = TickOf { lease: Claimant::of(name).key(), due: retried(Tick::ONLY), again: false };
        arbiter.claim_tick(&claim, epoch).await.expect("it is answered")
    };
    assert_eq!(asked(&open).await, Ok(TickClaim::Claimed { attempt: 2, gave_up: None }));
    assert_eq!(asked(&done).await, Ok(TickClaim::NotDue(finished(Tick::ONLY))));
    assert_eq!(asked(&fresh_name("new key")).await, Ok(TickClaim::Claimed { attempt: 1, gave_up: None }));
}
