//! The suite finds what it is there to find: stores that break one line of the contract each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::store::{Store, Tables, Traits, WakeUps};
use leasehold::stores::Memory;
use leasehold::{
    Attempt, Claim, Ended, Error, ErrorKind, FencingToken, Finding, Grant, HolderId, Holding, LeaseKey, LockName,
    Place, Release, Renewal, Result, Revoke,
};
use leasehold_testkit::conformance::{Subject, run_paused};
use leasehold_testkit::{PausedClock, conformance};

/// What is wrong with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    Nothing,
    EverybodyIsGranted,
    ContentionIsAnError,
    ContentionNamesNobody,
    TokensStay,
    RenewalsChangeTheToken,
    TheSameClaimKeepsTheEnd,
    TheSameClaimIsContended,
    RenewalsAcquire,
    RenewalsIgnoreTheHolder,
    RenewalsDoNothing,
    ReleasesIgnoreTheHolder,
    LateReleasesClaimSuccess,
    LeasesNeverEnd,
    LeasesEndEarly,
    NamesFoldCase,
    NamesAreTrimmed,
    NamesAreCut,
    NamesAreDecoded,
    StrangersOvertake,
    TheLastComesFirst,
    TicketsAreForgotten,
    DeadWaitersStay,
    WaitersDieYoung,
    LeavingKeepsThePlace,
    LeavingKeepsTheGrant,
    LeavingFreesAnybodys,
    NobodyIsWoken,
    MinimumHoldsAreIgnored,
    MinimumHoldsKeepTheHolder,
    GentleRevocationsCut,
    GentleRevocationsDoNothing,
    GentleRevocationsEndWithAClaim,
    RevocationsAreGentle,
    TheListIsBackwards,
    TheListForgetsWaiters,
    BatchesAreReversed,
    BatchesAreCut,
    TheKeeperIsElsewhere,
    ClaimsComeLate,
}
use Flaw::*;

/// A store with a flaw, over one without.
#[derive(Debug, Clone)]
struct Mutant {
    flaw: Flaw,
    inner: Memory,
    /// Claims that came before, for flaws that remember them.
    waited: Arc<Mutex<Vec<Claim>>>,
    grants: Arc<Mutex<u64>>,
}

impl Mutant {
    fn new(flaw: Flaw) -> Self {
        let inner = Memory::new(Arc::new(PausedClock::start()));
        Self { flaw, inner, waited: Arc::default(), grants: Arc::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn misread(&self, name: &LockName) -> LockName {
        let name = name.as_str();
        let misread = match self.flaw {
            NamesFoldCase => name.to_lowercase(),
            NamesAreTrimmed => name.trim_end_matches(' ').to_owned(),
            NamesAreCut => name.chars().take(190).collect(),
            NamesAreDecoded => name.replace("%2F", "/").replace("%25", "%"),
            _ => name.to_owned(),
        };
        LockName::new(&misread).unwrap()
    }

    fn key(&self, lease: &LeaseKey) -> LeaseKey {
        LeaseKey { name: self.misread(&lease.name), ..lease.clone() }
    }

    async fn holder_of(&self, name: &LockName) -> Option<HolderId> {
        self.inner.inspect(name).await.unwrap().and_then(|holding| holding.holder)
    }

    async fn acquire(&self, claim: &Claim) -> Result<Attempt> {
        let mut claim = Claim { name: self.misread(&claim.name), ..claim.clone() };
        let is_the_holders = self.holder_of(&claim.name).await == Some(claim.holder);
        match self.flaw {
            EverybodyIsGranted => {
                let mut grants = self.grants.lock().unwrap();
                *grants += 1;
                return Ok(Attempt::Granted(grant(FencingToken::new(*grants))));
            }
            TheSameClaimKeepsTheEnd if is_the_holders => {
                let token = self.inner.inspect(&claim.name).await?.unwrap().token;
                return Ok(Attempt::Granted(grant(token)));
            }
            TheSameClaimIsContended if is_the_holders => claim.holder = HolderId::fresh(),
            GentleRevocationsEndWithAClaim if is_the_holders => {
                let token = self.inner.inspect(&claim.name).await?.unwrap().token;
                return Ok(Attempt::Granted(grant(token)));
            }
            LeasesNeverEnd => claim.ttl *= 1000,
            LeasesEndEarly => claim.ttl = claim.ttl * 8 / 10,
            StrangersOvertake if claim.queue.is_none() => return self.overtake(claim).await,
            TheLastComesFirst if claim.queue == Some(Place { ticket: None }) => {
                let ticket = Some(u64::MAX / 2 - self.count());
                claim.queue = Some(Place { ticket });
            }
            TicketsAreForgotten => claim.queue = claim.queue.map(|_| Place { ticket: None }),
            DeadWaitersStay => self.refresh_all(&claim).await,
            WaitersDieYoung => self.drop_all_but(&claim).await,
            ClaimsComeLate => return self.come_late(claim).await,
            _ => {}
        }
        let answer = self.inner.try_acquire(&claim).await?;
        self.misreport(answer)
    }

    fn count(&self) -> u64 {
        let mut grants = self.grants.lock().unwrap();
        *grants += 1;
        *grants
    }

    fn misreport(&self, answer: Attempt) -> Result<Attempt> {
        Ok(match answer {
            Attempt::Held(_) if self.has(ContentionIsAnError) => {
                return Err(Error::new(ErrorKind::Unavailable, "somebody else has it"));
            }
            Attempt::Held(holding) if self.has(ContentionNamesNobody) => {
                Attempt::Held(Holding { label: String::new(), holder: None, ..holding })
            }
            Attempt::Granted(grant) if self.has(TokensStay) => {
                Attempt::Granted(Grant { token: FencingToken::new(7), ..grant })
            }
            Attempt::Granted(grant) if self.has(RenewalsChangeTheToken) => {
                Attempt::Granted(Grant { token: FencingToken::new(self.count()), ..grant })
            }
            answer => answer,
        })
    }

    /// As the first of the queue, and out of it again.
    async fn overtake(&self, mut claim: Claim) -> Result<Attempt> {
        claim.queue = Some(Place { ticket: Some(0) });
        let answer = self.inner.try_acquire(&claim).await?;
        if matches!(answer, Attempt::Held(_)) {
            self.inner.leave(&key_of(&claim)).await?;
        }
        Ok(answer)
    }

    async fn refresh_all(&self, claim: &Claim) {
        let waited: Vec<Claim> = self.waited.lock().unwrap().clone();
        for waiter in waited.iter().filter(|waiter| waiter.holder != claim.holder && waiter.name == claim.name) {
            let _ = self.inner.try_acquire(waiter).await.unwrap();
        }
        if claim.queue.is_some() {
            self.waited.lock().unwrap().push(claim.clone());
        }
    }

    async fn drop_all_but(&self, claim: &Claim) {
        let waited = std::mem::replace(&mut *self.waited.lock().unwrap(), vec![claim.clone()]);
        for waiter in waited.iter().filter(|waiter| waiter.holder != claim.holder && waiter.name == claim.name) {
            if self.holder_of(&waiter.name).await != Some(waiter.holder) {
                self.inner.leave(&key_of(waiter)).await.unwrap();
            }
        }
    }

    /// Sends it from a task that isn't stopped when nobody waits for the answer.
    async fn come_late(&self, claim: Claim) -> Result<Attempt> {
        let inner = self.inner.clone();
        let late = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            inner.try_acquire(&claim).await
        });
        late.await.unwrap()
    }

    async fn renew_one(&self, lease: &LeaseKey, ttl: Duration) -> Result<Renewal> {
        let lease = self.key(lease);
        let holder = self.holder_of(&lease.name).await;
        let mut answer = self.renew_inner(&lease, ttl).await?;
        if answer == Renewal::Gone && self.has(RenewalsAcquire) {
            let label = "by renewal".into();
            let claim = Claim::new(lease.name.clone(), lease.holder, label, ttl);
            if let Attempt::Granted(_) = self.inner.try_acquire(&claim).await? {
                answer = Renewal::Renewed;
            }
        }
        if let (Renewal::Gone, Some(holder), RenewalsIgnoreTheHolder) = (answer, holder, self.flaw) {
            answer = self.renew_inner(&LeaseKey { holder, ..lease }, ttl).await?;
        }
        Ok(answer)
    }

    async fn renew_inner(&self, lease: &LeaseKey, ttl: Duration) -> Result<Renewal> {
        if self.has(RenewalsDoNothing) {
            let is_the_holders = self.holder_of(&lease.name).await == Some(lease.holder);
            return Ok(if is_the_holders { Renewal::Renewed } else { Renewal::Gone });
        }
        self.inner.renew(&[(lease.clone(), ttl)]).await.remove(0)
    }

    async fn release_one(&self, lease: &LeaseKey, how: Ended) -> Result<Release> {
        let mut lease = self.key(lease);
        match self.flaw {
            ReleasesIgnoreTheHolder => {
                if let Some(holder) = self.holder_of(&lease.name).await {
                    lease.holder = holder;
                }
            }
            MinimumHoldsAreIgnored => return self.inner.release(&lease, Ended::default()).await,
            MinimumHoldsKeepTheHolder if !how.keep_for.is_zero() => return Ok(Release::Released),
            _ => {}
        }
        let answer = self.inner.release(&lease, how).await?;
        Ok(if self.has(LateReleasesClaimSuccess) { Release::Released } else { answer })
    }

    async fn leave_one(&self, waiter: &LeaseKey) -> Result<()> {
        let mut waiter = self.key(waiter);
        let holder = self.holder_of(&waiter.name).await;
        let is_the_holders = holder == Some(waiter.holder);
        match self.flaw {
            LeavingKeepsThePlace if !is_the_holders => return Ok(()),
            LeavingKeepsTheGrant if is_the_holders => return Ok(()),
            LeavingFreesAnybodys => waiter.holder = holder.unwrap_or(waiter.holder),
            _ => {}
        }
        self.inner.leave(&waiter).await
    }

    async fn revoke_it(&self, name: &LockName, holder: Option<HolderId>, how: Revoke) -> Result<Option<Holding>> {
        match (self.flaw, how) {
            (GentleRevocationsCut, Revoke::Gently) => self.inner.revoke(name, holder, Revoke::Now).await,
            (GentleRevocationsDoNothing, Revoke::Gently) => self.inner.inspect(name).await,
            (RevocationsAreGentle, Revoke::Now) => self.inner.revoke(name, holder, Revoke::Gently).await,
            _ => self.inner.revoke(name, holder, how).await,
        }
    }

    async fn list_all(&self) -> Result<Vec<Holding>> {
        let mut list = self.inner.list().await?;
        match self.flaw {
            TheListIsBackwards => list.reverse(),
            TheListForgetsWaiters => list.retain(|holding| holding.holder.is_some()),
            _ => {}
        }
        Ok(list)
    }
}

fn grant(token: FencingToken) -> Grant {
    Grant { token, attempt: 0, gave_up: None }
}

fn key_of(claim: &Claim) -> LeaseKey {
    LeaseKey { name: claim.name.clone(), holder: claim.holder }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Mutant {
    fn traits(&self) -> Traits {
        self.inner.traits()
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(if self.has(TheKeeperIsElsewhere) { Self::new(Nothing) } else { self.clone() })
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.acquire(claim))
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.leave_one(waiter))
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for (lease, ttl) in leases {
                answers.push(self.renew_one(lease, *ttl).await);
            }
            match self.flaw {
                BatchesAreReversed => answers.reverse(),
                BatchesAreCut => answers.truncate(100),
                _ => {}
            }
            answers
        })
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.release_one(lease, how))
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        if self.has(NobodyIsWoken) {
            return Box::pin(async { Ok(WakeUps::silent()) });
        }
        self.inner.subscribe(name)
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async { self.inner.inspect(&self.misread(name)).await })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(self.list_all())
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.revoke_it(name, holder, how))
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        self.inner.time()
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        self.inner.diagnose()
    }

    fn tables(&self) -> Option<Tables> {
        self.inner.tables()
    }
}

// Without a flaw it passes: what the cases below find is the flaw, not the wrapper.
conformance!(without_a_flaw, paused, Arc::new(Mutant::new(Flaw::Nothing)) as Arc<dyn Store>);

/// One test for each flaw, by its name: each case that is named beside it finds it.
macro_rules! found {
    ($($flaw:ident by $($case:ident),+;)*) => {$(
        #[test]
        fn $flaw() {
            $(
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    run_paused(
                        async { Subject::new(Arc::new(Mutant::new(Flaw::$flaw))) },
                        async |subject: &Subject| leasehold_testkit::conformance::$case(subject.store()).await,
                    );
                }));
                assert!(outcome.is_err(), "{} did not find it", stringify!($case));
            )+
        }
    )*};
}

#[allow(non_snake_case, reason = "tests are called like the flaws")]
mod found {
    use super::*;

    found! {
        EverybodyIsGranted by exclusive, one_of_many_is_granted, a_crowd_takes_turns;
        ContentionIsAnError by exclusive, contention_says_who;
        ContentionNamesNobody by contention_says_who;
        TokensStay by tokens_grow_over_releases, tokens_grow_over_expiry, tokens_grow_over_revocation,
            tokens_grow_for_a_returning_holder;
        RenewalsChangeTheToken by renewals_keep_the_token, the_same_claim_gets_the_same_token;
        TheSameClaimKeepsTheEnd by the_same_claim_moves_the_end;
        TheSameClaimIsContended by the_same_claim_gets_the_same_token, a_holder_does_not_queue;
        RenewalsAcquire by renewal_never_acquires, an_expired_lease_is_gone_though_nobody_took_it;
        RenewalsIgnoreTheHolder by a_past_holders_renewal_is_harmless, a_batch_answers_each_in_order;
        RenewalsDoNothing by a_renewed_lease_lives_on;
        ReleasesIgnoreTheHolder by a_past_holders_release_is_harmless, a_release_without_a_lease_is_harmless;
        LateReleasesClaimSuccess by a_past_holders_release_is_harmless, a_release_without_a_lease_is_harmless;
        LeasesNeverEnd by a_lease_ends_after_its_ttl, an_expired_lease_is_gone_though_nobody_took_it;
        LeasesEndEarly by a_lease_ends_after_its_ttl;
        NamesFoldCase by different_names_are_different_locks, long_names_are_told_apart;
        NamesAreTrimmed by different_names_are_different_locks;
        NamesAreCut by long_names_are_told_apart;
        NamesAreDecoded by different_names_are_different_locks;
        StrangersOvertake by a_stranger_does_not_overtake, a_waiter_counts_until_its_entry_ends;
        TheLastComesFirst by first_come_first_served, contention_says_how_many_are_ahead;
        TicketsAreForgotten by a_waiter_comes_back_at_its_old_place;
        DeadWaitersStay by a_dead_waiter_is_skipped;
        WaitersDieYoung by a_waiter_counts_until_its_entry_ends, first_come_first_served;
        LeavingKeepsThePlace by leaving_gives_up_the_place;
        LeavingKeepsTheGrant by leaving_releases_a_grant, a_given_up_waiter_is_undone_by_leaving;
        LeavingFreesAnybodys by leaving_by_a_stranger_is_harmless, leaving_gives_up_the_place;
        NobodyIsWoken by a_release_rings, a_revocation_rings, leaving_with_a_grant_rings;
        MinimumHoldsAreIgnored by a_minimum_hold_keeps_the_name, a_minimum_hold_ends;
        MinimumHoldsKeepTheHolder by a_minimum_hold_keeps_the_name;
        GentleRevocationsCut by revoked_gently_it_is_not_renewed, revoked_gently_it_ends_with_its_ttl;
        GentleRevocationsDoNothing by revoked_gently_it_is_not_renewed;
        GentleRevocationsEndWithAClaim by revoked_gently_it_is_not_granted_again;
        RevocationsAreGentle by revoked_now_it_is_free, tokens_grow_over_revocation;
        TheListIsBackwards by the_list_is_in_order;
        TheListForgetsWaiters by the_list_is_in_order;
        BatchesAreReversed by a_batch_answers_each_in_order;
        BatchesAreCut by a_batch_answers_each_in_order;
        TheKeeperIsElsewhere by the_keeper_sees_the_same_store;
        ClaimsComeLate by a_given_up_claim_is_undone_by_a_release, a_given_up_waiter_is_undone_by_leaving;
    }
}
