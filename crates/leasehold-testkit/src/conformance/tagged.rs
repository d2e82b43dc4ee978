//! The contract of [`Tagged`] as cases, for primaries and arbiters alike: what differs between them is how they come by a
//! route ([`Routes`]). Each case uses names of its own, and moves the route on: none may run beside another in the same
//! namespace.

use std::time::Duration;

use futures_util::future::{BoxFuture, LocalBoxFuture};
use leasehold::store::{Carried, Epoch, Primary, Refusal, Route, Tagged, Target};
use leasehold::{Attempt, Claim, FencingToken, HolderId, Holding, LeaseKey, LockName, Place, Release, Renewal, Revoke};

use super::scene::{ALL_OF_LONG, LONG, fresh_name, inspect, outlive, while_waiters_live};

/// How the store under test comes by routes.
pub trait Routes: Sync {
    /// The latest route, once it is in force.
    fn in_force(&self) -> BoxFuture<'_, Route>;

    /// The next route, to the same store; not in force yet where the store knows that.
    fn pending(&self) -> BoxFuture<'_, Route>;
}

/// Those of a primary, which knows of no time at which a route comes into force.
pub struct RoutesToPrimary<'a> {
    primary: &'a dyn Primary,
    epoch: std::sync::atomic::AtomicU64,
}

impl<'a> RoutesToPrimary<'a> {
    /// From the first epoch on.
    #[must_use]
    pub fn to(primary: &'a dyn Primary) -> Self {
        Self { primary, epoch: Epoch::FIRST.number().into() }
    }

    async fn route(&self, epoch: u64) -> Route {
        let serving = self.primary.serves().await.expect("it is there");
        Route { epoch: Epoch::new(epoch), target: Target::Primary(serving.incarnation) }
    }
}

impl Routes for RoutesToPrimary<'_> {
    fn in_force(&self) -> BoxFuture<'_, Route> {
        Box::pin(self.route(self.epoch.load(std::sync::atomic::Ordering::Relaxed)))
    }

    fn pending(&self) -> BoxFuture<'_, Route> {
        Box::pin(self.route(self.epoch.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1))
    }
}

/// A case, by its name.
pub type TaggedCase = (&'static str, for<'a> fn(&'a dyn Tagged, &'a dyn Routes) -> LocalBoxFuture<'a, ()>);

macro_rules! cases {
    ($($case:ident)*) => {
        /// All cases.
        pub const CASES: &[TaggedCase] = &[$((stringify!($case), |store, routes| Box::pin($case(store, routes)))),*];
    };
}

cases! {
    a_claim_is_granted_under_its_route the_same_claim_gets_the_same_token_under_a_route
    a_lease_of_this_route_is_held an_earlier_routes_lease_is_dead an_epoch_that_is_over_is_refused
    tokens_grow_with_the_epoch a_lease_under_a_route_ends_with_its_ttl each_of_a_batch_is_answered
    a_carried_lease_lives_on a_carry_is_refused_where_another_has_a_lease a_carry_never_cuts_a_lease
    a_carry_makes_a_lease_where_there_was_none a_late_carry_lowers_no_tag revoked_is_revoked
    a_lease_without_a_route_lives a_lease_under_a_route_keeps_others_out a_lease_under_a_route_is_given_back
    nothing_is_handed_over_under_a_route a_look_shows_a_lease_under_a_route
}

/// One acquisition by somebody.
struct Somebody {
    name: LockName,
    holder: HolderId,
}

impl Somebody {
    fn of(name: &LockName) -> Self {
        Self { name: name.clone(), holder: HolderId::fresh() }
    }

    fn key(&self) -> LeaseKey {
        LeaseKey { name: self.name.clone(), holder: self.holder }
    }

    fn claim(&self, ttl: Duration) -> Claim {
        Claim::new(self.name.clone(), self.holder, "host/1/job".into(), ttl)
    }

    async fn claims(&self, store: &dyn Tagged, under: &Route, ttl: Duration) -> Result<Attempt, Refusal> {
        Tagged::claim(store, &self.claim(ttl), under).await.expect("it is answered")
    }

    #[track_caller]
    fn takes<'a>(
        &'a self,
        store: &'a dyn Tagged,
        under: &'a Route,
        ttl: Duration,
    ) -> impl Future<Output = FencingToken> + 'a {
        let at = std::panic::Location::caller();
        async move {
            match self.claims(store, under, ttl).await {
                Ok(Attempt::Granted(grant)) => grant.token,
                other => panic!("{at}: it is free: {other:?}"),
            }
        }
    }

    #[track_caller]
    fn is_refused<'a>(&'a self, store: &'a dyn Tagged, under: &'a Route) -> impl Future<Output = Holding> + 'a {
        let at = std::panic::Location::caller();
        async move {
            match self.claims(store, under, LONG).await {
                Ok(Attempt::Held(holding)) => holding,
                other => panic!("{at}: it is held: {other:?}"),
            }
        }
    }

    async fn renews(&self, store: &dyn Tagged, under: &Route, ttl: Duration) -> Result<Renewal, Refusal> {
        let mut answers = store.renew_under(&[(self.key(), ttl)], under).await;
        assert_eq!(answers.len(), 1, "one answer for one lease");
        answers.remove(0).expect("it is answered")
    }

    async fn goes_along(
        &self,
        store: &dyn Tagged,
        to: &Route,
        token: FencingToken,
        ttl: Duration,
    ) -> Result<(), Refusal> {
        let lease = Carried { key: self.key(), label: "host/1/job".into(), token, ttl };
        store.carry(&lease, to).await.expect("it is answered")
    }

    async fn has_it(&self, store: &dyn Tagged) -> bool {
        inspect(store, &self.name).await.is_some_and(|held| held.holder == Some(self.holder))
    }
}

/// And its token has the epoch of that.
pub async fn a_claim_is_granted_under_its_route(store: &dyn Tagged, routes: &dyn Routes) {
    let (route, name) = (routes.in_force().await, fresh_name("granted"));
    let us = Somebody::of(&name);
    let token = us.takes(store, &route, LONG).await;
    let counter = (0..64).find(|bits| route.epoch.token((1 << bits) - 1).is_none()).expect("tokens have an end") - 1;
    assert_eq!(token.number() >> counter, route.epoch.number(), "{token}");
    assert_eq!(us.renews(store, &route, LONG).await, Ok(Renewal::Renewed));
    assert!(us.has_it(store).await);
}

/// And its whole TTL.
pub async fn the_same_claim_gets_the_same_token_under_a_route(store: &dyn Tagged, routes: &dyn Routes) {
    let (route, name) = (routes.in_force().await, fresh_name("same"));
    let us = Somebody::of(&name);
    let token = us.takes(store, &route, LONG / 2).await;
    assert_eq!(us.takes(store, &route, LONG).await, token);
    let left = inspect(store, &name).await.unwrap().remaining;
    assert!(left > LONG / 2, "{left:?}");
    assert_eq!(us.takes(store, &route, LONG / 4).await, token);
    assert!(inspect(store, &name).await.unwrap().remaining > LONG / 2);
}

/// Whoever else asks for it.
pub async fn a_lease_of_this_route_is_held(store: &dyn Tagged, routes: &dyn Routes) {
    let (route, name) = (routes.in_force().await, fresh_name("held"));
    let (us, others) = (Somebody::of(&name), Somebody::of(&name));
    let token = us.takes(store, &route, LONG).await;
    let held = others.is_refused(store, &route).await;
    assert_eq!((held.holder, held.token), (Some(us.holder), token));
    assert_eq!(others.renews(store, &route, LONG).await, Ok(Renewal::Gone));
}

/// It is overwritten, and can't be renewed.
pub async fn an_earlier_routes_lease_is_dead(store: &dyn Tagged, routes: &dyn Routes) {
    let (earlier, name) = (routes.in_force().await, fresh_name("dead"));
    let (us, others) = (Somebody::of(&name), Somebody::of(&name));
    us.takes(store, &earlier, LONG).await;
    routes.pending().await;
    let route = routes.in_force().await;
    others.takes(store, &route, LONG).await;
    assert_eq!(us.renews(store, &earlier, LONG).await, Ok(Renewal::Gone));
    assert!(others.has_it(store).await);
    assert_eq!(store.release(&us.key(), Default::default()).await.unwrap(), Release::NotHeld);
    assert_eq!(others.renews(store, &route, LONG).await, Ok(Renewal::Renewed));
}

/// Nothing is done for what comes late.
pub async fn an_epoch_that_is_over_is_refused(store: &dyn Tagged, routes: &dyn Routes) {
    let (earlier, name) = (routes.in_force().await, fresh_name("over"));
    routes.pending().await;
    let route = routes.in_force().await;
    Somebody::of(&fresh_name("seen")).takes(store, &route, LONG).await;
    let us = Somebody::of(&name);
    assert!(matches!(us.claims(store, &earlier, LONG).await, Err(Refusal::OtherRoute)));
    assert_eq!(us.goes_along(store, &earlier, FencingToken::new(7), LONG).await, Err(Refusal::OtherRoute));
    assert!(inspect(store, &name).await.is_none());
}

/// Whatever the counters say, and within an epoch too.
pub async fn tokens_grow_with_the_epoch(store: &dyn Tagged, routes: &dyn Routes) {
    let name = fresh_name("tokens");
    let mut last = FencingToken::default();
    for _ in 0..3 {
        let route = routes.in_force().await;
        for _ in 0..2 {
            let us = Somebody::of(&name);
            let token = us.takes(store, &route, LONG).await;
            assert!(token > last, "{token} after {last}");
            last = token;
            assert_eq!(store.release(&us.key(), Default::default()).await.unwrap(), Release::Released);
        }
        routes.pending().await;
    }
}

/// And not sooner.
pub async fn a_lease_under_a_route_ends_with_its_ttl(store: &dyn Tagged, routes: &dyn Routes) {
    let (route, name, ttl) = (routes.in_force().await, fresh_name("ends"), store.traits().smallest_ttl);
    let (us, others) = (Somebody::of(&name), Somebody::of(&name));
    let token = us.takes(store, &route, ttl).await;
    outlive(ttl).await;
    assert_eq!(us.renews(store, &route, LONG).await, Ok(Renewal::Gone), "a renewal never acquires");
    assert!(others.takes(store, &route, LONG).await > token);
}

/// In order.
pub async fn each_of_a_batch_is_answered(store: &dyn Tagged, routes: &dyn Routes) {
    let earlier = routes.in_force().await;
    let old = Somebody::of(&fresh_name("old"));
    old.takes(store, &earlier, LONG).await;
    routes.pending().await;
    let route = routes.in_force().await;
    let (one, other) = (Somebody::of(&fresh_name("one")), Somebody::of(&fresh_name("other")));
    let nobody = Somebody::of(&fresh_name("nobody"));
    let revoked = Somebody::of(&fresh_name("revoked"));
    for somebody in [&one, &other, &revoked] {
        somebody.takes(store, &route, LONG).await;
    }
    assert!(store.revoke(&revoked.name, None, Revoke::Gently).await.unwrap().is_some());
    let batch = [&one, &nobody, &old, &revoked, &other].map(|somebody| (somebody.key(), LONG));
    let answers: Vec<_> = store.renew_under(&batch, &route).await.into_iter().map(|answer| answer.unwrap()).collect();
    let [renewed, gone] = [Ok(Renewal::Renewed), Ok(Renewal::Gone)];
    assert_eq!(answers, [renewed, gone, gone, Ok(Renewal::Revoked), renewed]);
    assert!(store.renew_under(&[], &route).await.is_empty());
}

/// With its token, under the next route.
pub async fn a_carried_lease_lives_on(store: &dyn Tagged, routes: &dyn Routes) {
    let (from, name) = (routes.in_force().await, fresh_name("carried"));
    let (us, others) = (Somebody::of(&name), Somebody::of(&name));
    let token = us.takes(store, &from, LONG).await;
    let to = routes.pending().await;
    for _ in 0..2 {
        assert_eq!(us.goes_along(store, &to, token, LONG).await, Ok(()), "said again it is the same");
    }
    assert_eq!(us.renews(store, &from, LONG).await, Ok(Renewal::Gone));
    assert_eq!(us.renews(store, &to, LONG).await, Ok(Renewal::Renewed));
    let route = routes.in_force().await;
    let held = others.is_refused(store, &route).await;
    assert_eq!((held.holder, held.token), (Some(us.holder), token));
    assert_eq!(us.takes(store, &route, LONG).await, token, "asking again keeps the token");
    assert_eq!(store.release(&us.key(), Default::default()).await.unwrap(), Release::Released);
    assert!(others.takes(store, &route, LONG).await > token);
}

/// Of the same route. One of an earlier route is dead.
pub async fn a_carry_is_refused_where_another_has_a_lease(store: &dyn Tagged, routes: &dyn Routes) {
    let (from, name) = (routes.in_force().await, fresh_name("taken"));
    let (us, others, earlier) = (Somebody::of(&name), Somebody::of(&name), Somebody::of(&name));
    let token = earlier.takes(store, &from, LONG).await;
    let to = routes.pending().await;
    assert_eq!(us.goes_along(store, &to, token, LONG).await, Ok(()));
    assert_eq!(others.goes_along(store, &to, token, LONG).await, Err(Refusal::HeldByAnother));
    assert!(us.has_it(store).await);
}

/// It lasts as long as it was to last.
pub async fn a_carry_never_cuts_a_lease(store: &dyn Tagged, routes: &dyn Routes) {
    let (us, to) = (Somebody::of(&fresh_name("cut")), routes.pending().await);
    assert_eq!(us.goes_along(store, &to, FencingToken::new(9), LONG).await, Ok(()));
    assert_eq!(us.goes_along(store, &to, FencingToken::new(9), LONG / 4).await, Ok(()));
    let left = inspect(store, &us.name).await.unwrap().remaining;
    assert!(left > LONG / 2, "{left:?}");
}

/// It comes from another store, mostly.
pub async fn a_carry_makes_a_lease_where_there_was_none(store: &dyn Tagged, routes: &dyn Routes) {
    let (us, to, ttl) = (Somebody::of(&fresh_name("new")), routes.pending().await, store.traits().smallest_ttl);
    let (long, token) = (Somebody::of(&fresh_name("new and long")), FencingToken::new(i64::MAX.unsigned_abs()));
    assert_eq!(long.goes_along(store, &to, token, LONG).await, Ok(()));
    let held = inspect(store, &long.name).await.unwrap();
    assert_eq!((held.holder, held.token, &*held.label), (Some(long.holder), token, "host/1/job"));
    assert!(held.remaining <= ALL_OF_LONG && held.held_for < LONG, "{held:?}");
    assert_eq!(us.goes_along(store, &to, token, ttl).await, Ok(()));
    assert!(inspect(store, &us.name).await.is_none_or(|held| held.remaining <= ttl), "it has its own TTL");
    outlive(ttl).await;
    assert_eq!(us.renews(store, &to, LONG).await, Ok(Renewal::Gone));
    assert!(!us.has_it(store).await);
}

/// Nor a watermark.
pub async fn a_late_carry_lowers_no_tag(store: &dyn Tagged, routes: &dyn Routes) {
    let us = Somebody::of(&fresh_name("late"));
    let first = routes.pending().await;
    assert_eq!(us.goes_along(store, &first, FencingToken::new(9), LONG).await, Ok(()));
    routes.in_force().await;
    let second = routes.pending().await;
    assert_eq!(us.goes_along(store, &second, FencingToken::new(9), LONG).await, Ok(()));
    let late = us.goes_along(store, &first, FencingToken::new(9), LONG).await;
    assert!(matches!(late, Err(Refusal::OtherRoute | Refusal::NewerTag)), "{late:?}");
    assert_eq!(us.renews(store, &second, LONG).await, Ok(Renewal::Renewed));
}

/// Whoever carries it along finds that out.
pub async fn revoked_is_revoked(store: &dyn Tagged, routes: &dyn Routes) {
    let us = Somebody::of(&fresh_name("revoked"));
    let to = routes.pending().await;
    assert_eq!(us.goes_along(store, &to, FencingToken::new(9), LONG).await, Ok(()));
    let hit = store.revoke(&us.name, Some(us.holder), Revoke::Gently).await.unwrap().expect("it is there");
    assert_eq!((hit.holder, hit.token), (Some(us.holder), FencingToken::new(9)));
    assert_eq!(us.goes_along(store, &to, FencingToken::new(9), LONG).await, Err(Refusal::Revoked));
    assert_eq!(us.renews(store, &to, LONG).await, Ok(Renewal::Revoked));
    let route = routes.in_force().await;
    assert!(us.is_refused(store, &route).await.revoked, "nor is it granted again");
    assert!(store.revoke(&us.name, None, Revoke::Now).await.unwrap().is_some());
    Somebody::of(&us.name).takes(store, &route, LONG).await;
}

/// It is none of a fallback's.
pub async fn a_lease_without_a_route_lives(store: &dyn Tagged, routes: &dyn Routes) {
    let (route, name) = (routes.in_force().await, fresh_name("plain"));
    let (us, plain) = (Somebody::of(&name), Somebody::of(&name));
    assert!(matches!(store.try_acquire(&plain.claim(LONG)).await.unwrap(), Attempt::Granted(_)));
    assert_eq!(us.is_refused(store, &route).await.holder, Some(plain.holder));
    let to = routes.pending().await;
    assert_eq!(us.goes_along(store, &to, FencingToken::new(9), LONG).await, Err(Refusal::HeldByAnother));
    assert_eq!(plain.renews(store, &to, LONG).await, Ok(Renewal::Gone), "it has no tag");
    let renewed = store.renew(&[(plain.key(), LONG)]).await.remove(0).unwrap();
    assert_eq!(renewed, Renewal::Renewed);
    let route = routes.in_force().await;
    assert_eq!(us.is_refused(store, &route).await.holder, Some(plain.holder));
    assert_eq!(store.release(&plain.key(), Default::default()).await.unwrap(), Release::Released);
    us.takes(store, &route, LONG).await;
    // And where one of a fallback's was before.
    store.leave(&us.key()).await.unwrap();
    assert!(matches!(store.try_acquire(&plain.claim(LONG)).await.unwrap(), Attempt::Granted(_)));
    routes.pending().await;
    us.is_refused(store, &routes.in_force().await).await;
}

/// Also who knows of no route.
pub async fn a_lease_under_a_route_keeps_others_out(store: &dyn Tagged, routes: &dyn Routes) {
    let (route, name) = (routes.in_force().await, fresh_name("out"));
    let (us, plain) = (Somebody::of(&name), Somebody::of(&name));
    us.takes(store, &route, LONG).await;
    match store.try_acquire(&plain.claim(LONG)).await.unwrap() {
        Attempt::Held(held) => assert_eq!(held.holder, Some(us.holder)),
        other => panic!("it is held: {other:?}"),
    }
}

/// By `release` and `leave` of the store, whatever its tag is.
pub async fn a_lease_under_a_route_is_given_back(store: &dyn Tagged, routes: &dyn Routes) {
    let (route, name) = (routes.in_force().await, fresh_name("back"));
    let us = Somebody::of(&name);
    us.takes(store, &route, LONG).await;
    assert_eq!(store.release(&us.key(), Default::default()).await.unwrap(), Release::Released);
    assert_eq!(us.renews(store, &route, LONG).await, Ok(Renewal::Gone));
    let us = Somebody::of(&name);
    us.takes(store, &route, LONG).await;
    store.leave(&us.key()).await.unwrap();
    assert!(inspect(store, &name).await.is_none());
    Somebody::of(&name).takes(store, &route, LONG).await;
}

/// Who waits is woken, and asks.
pub async fn nothing_is_handed_over_under_a_route(store: &dyn Tagged, routes: &dyn Routes) {
    let route = routes.in_force().await;
    while_waiters_live(async |window| {
        let name = fresh_name("queue");
        let (us, waiter) = (Somebody::of(&name), Somebody::of(&name));
        us.takes(store, &route, LONG).await;
        let mut wake_ups = store.subscribe(&name).await.unwrap();
        let queuing = Claim { queue: Some(Place::default()), ..waiter.claim(LONG) };
        window.opens();
        let asked = Tagged::claim(store, &queuing, &route).await.unwrap();
        let Ok(Attempt::Held(held)) = asked else { panic!("it is held: {asked:?}") };
        assert!(held.ticket.is_some(), "{held:?}");
        assert_eq!(store.release(&us.key(), Default::default()).await.unwrap(), Release::Released);
        let was_alive = window.is_open();
        assert!(!waiter.has_it(store).await);
        if store.traits().wake_ups {
            match tokio::time::timeout(LONG / 6, wake_ups.next()).await {
                Ok(woken) => assert_eq!(woken, None, "it is given nothing"),
                // Who isn't alive need not be woken.
                Err(_) => {
                    assert!(!was_alive, "it is woken");
                    return Err("the waiter was too slow".to_owned());
                }
            }
        }
        let asked = Tagged::claim(store, &queuing, &route).await.unwrap();
        assert!(matches!(asked, Ok(Attempt::Granted(_))), "{asked:?}");
        Ok(())
    })
    .await;
}

/// As any other.
pub async fn a_look_shows_a_lease_under_a_route(store: &dyn Tagged, routes: &dyn Routes) {
    let (route, name) = (routes.in_force().await, fresh_name("shown"));
    let us = Somebody::of(&name);
    let token = us.takes(store, &route, LONG).await;
    let listed = store.list().await.unwrap().into_iter().find(|held| held.name == name).expect("it is listed");
    for held in [inspect(store, &name).await.unwrap(), listed] {
        assert_eq!((held.holder, held.token, &*held.label), (Some(us.holder), token, "host/1/job"));
        assert!(held.remaining > LONG / 2 && held.remaining <= ALL_OF_LONG && held.held_for < LONG / 2, "{held:?}");
    }
}
