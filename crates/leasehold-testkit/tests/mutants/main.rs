//! The suite finds what it is there to find: stores that break one line of the contract each.

mod marks;
mod permits;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::member::Member;
use leasehold::store::{Arbiter, Listener, Notes, Primary, Store, Tables, Traits, WakeUps};
use leasehold::stores::Memory;
use leasehold::validity::Moment;
use leasehold::{
    Attempt, Claim, Ended, Error, ErrorKind, FencingToken, Finding, Grant, HolderId, Holding, LeaseKey, LockName,
    Place, Release, Renewal, Result, Revoke, Verdict, Waiter,
};
use leasehold_testkit::conformance::{Subject, run_paused};
use leasehold_testkit::ticks::Play;
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
    NothingIsHandedOver,
    HandOversCountFromAnotherClaim,
    HandOversAreShort,
    TicksAreHandedOver,
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
    TheQueueIsBackwards,
    TheQueueHasTheFirstOnly,
    TheQueueHasTheHolder,
    TheQueueHasTheDead,
    TheQueueIsOfAllNames,
    TheQueueMixesUpLabels,
    PlacesAreNew,
    PlacesAreOld,
    BatchesAreReversed,
    BatchesAreCut,
    TheKeeperIsElsewhere,
    ClaimsComeLate,
    // marks
    OnlyTheNewestTickIsRefused,
    MarksFollowTheClaim,
    MarksAreShared,
    RefusedClaimsMoveTheMark,
    PlainClaimsForgetTicks,
    RevocationsForgetTicks,
    RevocationsCloseTicks,
    FutureTicksAreGranted,
    FutureTicksMoveTheMark,
    OldTicksAreGranted,
    KeysHaveAWindow,
    HeldComesFirst,
    RunningIsNotDue,
    RunningIsForAnybody,
    RunningNamesNobody,
    RunningSaysThatNobodyWaits,
    RefusedTicksStayInLine,
    RetriesTakeFromOnce,
    OnceTakesFromRetries,
    NothingIsRetried,
    UnfinishedIsNotTold,
    AttemptsAreNotCounted,
    TheSameClaimCountsAgain,
    OpenTicksPileUp,
    FewTicksStayOpen,
    GivingUpIsSilent,
    TheNewestIsGivenUp,
    ResetsForgetNothing,
    ResetsKeepWhatIsOpen,
    ResetsForgetAllNames,
    ResetsEndTheLease,
    ResetsAlwaysFindAMark,
    // verdicts
    NotStartedIsIgnored,
    NotStartedInTimeOnly,
    NotStartedByAnybody,
    NotStartedByAnEarlierHolder,
    NotStartedAfterDone,
    NotStartedBringsTheMarkBack,
    NotStartedKeepsTheAttempt,
    NotStartedCountsTwice,
    NotStartedStaysPromised,
    LeavingKeepsTheTick,
    LateDoneIsIgnored,
    DoneByItsHolderOnly,
    DoneClosesAll,
    DoneClosesOlderOnes,
    DoneEndsAnyLease,
    FailedStaysOpen,
    FailedIsNeverRetried,
    FailedIsNotStarted,
    FailedByAnybody,
    LateFailuresAreIgnored,
    SilenceIsDone,
    SilenceIsNotStarted,
    // permits
    PermitsAreUnlimited,
    OneMorePermit,
    PermitsAreIgnored,
    PermitsDisagree,
    PermitsNeverShrink,
    TokensPerPermit,
    OthersAreNotTold,
    OthersComeInNoOrder,
    OthersHaveTheFirstOnesToken,
    PermitsAreNotTold,
    TheListHasAnEntryForEachHolder,
    RenewalsRenewAll,
    ReleasesFreeAll,
    RevokingOneEndsAll,
    RevokingAllEndsOne,
    SurplusIsWithheld,
    WaitersGetOnePermitOnly,
    PermitsHaveNoQueue,
    MinimumHoldsKeepAllPermits,
    LaterPermitsAreSilent,
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
    marks: Arc<Mutex<marks::Marks>>,
    slots: Arc<Mutex<permits::Slots>>,
    /// The most permits that were ever asked for.
    most: Arc<AtomicU32>,
}

impl Mutant {
    fn new(flaw: Flaw) -> Self {
        let inner = Memory::new(Arc::new(PausedClock::start()));
        Self {
            flaw,
            inner,
            waited: Arc::default(),
            grants: Arc::default(),
            marks: Arc::default(),
            slots: Arc::default(),
            most: Arc::default(),
        }
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
            TheLastComesFirst if claim.queue.is_some_and(|place| place.ticket.is_none()) => {
                let ticket = Some(u64::MAX / 2 - self.count());
                claim.queue = Some(Place { ticket, sent: None });
            }
            TicketsAreForgotten => claim.queue = claim.queue.map(|place| Place { ticket: None, ..place }),
            NothingIsHandedOver => claim.queue = claim.queue.map(|place| Place { sent: None, ..place }),
            HandOversCountFromAnotherClaim => {
                let other = Some(Moment::from_nanos(7));
                claim.queue = claim.queue.map(|place| Place { sent: place.sent.and(other), ..place });
            }
            HandOversAreShort if claim.queue.is_some_and(|place| place.sent.is_some()) => claim.ttl /= 4,
            DeadWaitersStay => self.refresh_all(&claim).await,
            TheQueueHasTheDead if claim.queue.is_some() => self.waited.lock().unwrap().push(claim.clone()),
            WaitersDieYoung => self.drop_all_but(&claim).await,
            ClaimsComeLate => return self.come_late(claim).await,
            _ => {}
        }
        if let Some(answer) = self.miscount(&mut claim).await? {
            return Ok(answer);
        }
        let alive = self.inner.inspect(&claim.name).await?.as_ref().map(holders).unwrap_or_default();
        let answer = match claim.due {
            Some(due) => self.acquire_tick(&claim, due).await?,
            None => self.inner.try_acquire(&claim).await?,
        };
        match self.flaw {
            PlainClaimsForgetTicks if claim.due.is_none() => self.forget_ticks(&claim.name),
            WaitersGetOnePermitOnly => self.stands_in_line(&claim, &answer),
            _ => {}
        }
        self.misreport(&claim, answer, &alive)
    }

    fn count(&self) -> u64 {
        let mut grants = self.grants.lock().unwrap();
        *grants += 1;
        *grants
    }

    fn misreport(&self, claim: &Claim, answer: Attempt, alive: &[HolderId]) -> Result<Attempt> {
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
            Attempt::Granted(grant) if self.has(TokensPerPermit) => {
                Attempt::Granted(self.number_by_permit(claim, grant, alive))
            }
            Attempt::Held(holding) => Attempt::Held(self.retold(holding)),
            answer => answer,
        })
    }

    /// As the first of the queue, and out of it again.
    async fn overtake(&self, mut claim: Claim) -> Result<Attempt> {
        claim.queue = Some(Place { ticket: Some(0), sent: None });
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
        if self.has(RenewalsRenewAll) {
            for holder in self.inner.inspect(&lease.name).await?.as_ref().map(holders).unwrap_or_default() {
                let _ = self.renew_inner(&LeaseKey { holder, ..lease.clone() }, ttl).await?;
            }
        }
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
            MinimumHoldsKeepAllPermits if !how.keep_for.is_zero() => return self.keep_all(&lease, how).await,
            _ => {}
        }
        self.judge(&lease, how.verdict).await;
        let answer = self.inner.release(&lease, Ended { verdict: None, ..how }).await?;
        let ends_all = match self.flaw {
            ReleasesFreeAll => answer == Release::Released,
            DoneEndsAnyLease => matches!(how.verdict, Some(Verdict::Done(_))),
            _ => false,
        };
        if ends_all {
            self.inner.revoke(&lease.name, None, Revoke::Now).await?;
        }
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
        if !self.has(LeavingKeepsTheTick) {
            self.judge(&waiter, Some(Verdict::NotStarted)).await;
        }
        self.inner.leave(&waiter).await
    }

    async fn revoke_it(&self, name: &LockName, holder: Option<HolderId>, how: Revoke) -> Result<Option<Holding>> {
        match self.flaw {
            RevocationsForgetTicks => self.forget_ticks(name),
            RevocationsCloseTicks => self.close_ticks(name),
            _ => {}
        }
        match (self.flaw, how) {
            (RevokingOneEndsAll, _) if self.inner.revoke(name, holder, Revoke::Gently).await?.is_some() => {
                self.inner.revoke(name, None, how).await
            }
            (RevokingAllEndsOne, _) => {
                let first = self.holder_of(name).await;
                self.inner.revoke(name, holder.or(first), how).await
            }
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
            TheListHasAnEntryForEachHolder => return Ok(list.iter().flat_map(Self::spread).collect()),
            _ => {}
        }
        Ok(list.into_iter().map(|holding| self.retold(holding)).collect())
    }

    async fn line(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let mut line = self.inner.queue(&self.misread(name)).await?;
        let waiter = |holder, label: &str| Waiter { holder: Some(holder), label: label.to_owned(), waited: None };
        match self.flaw {
            TheQueueIsBackwards => line.reverse(),
            TheQueueHasTheFirstOnly => line.truncate(1),
            TheQueueHasTheHolder => {
                line.splice(0..0, self.holder_of(name).await.map(|holder| waiter(holder, "")));
            }
            TheQueueHasTheDead => {
                for claim in self.waited.lock().unwrap().iter().filter(|claim| claim.name == *name) {
                    if line.iter().all(|known| known.holder != Some(claim.holder)) {
                        line.push(waiter(claim.holder, &claim.label));
                    }
                }
            }
            TheQueueIsOfAllNames => {
                line.clear();
                for held in self.inner.list().await? {
                    line.extend(self.inner.queue(&held.name).await?);
                }
            }
            TheQueueMixesUpLabels if line.len() > 1 => {
                let last = line[line.len() - 1].label.clone();
                line[0].label = last;
            }
            PlacesAreNew => line.iter_mut().for_each(|waiter| waiter.waited = Some(Duration::ZERO)),
            PlacesAreOld => line.iter_mut().for_each(|waiter| waiter.waited = Some(Duration::from_secs(3600))),
            _ => {}
        }
        Ok(line)
    }

    async fn look(&self, name: &LockName) -> Result<Option<Holding>> {
        Ok(self.inner.inspect(&self.misread(name)).await?.map(|holding| self.retold(holding)))
    }

    async fn listen(&self, name: &LockName) -> Result<WakeUps> {
        let is_many = self.inner.inspect(name).await?.is_some_and(|holding| holding.others.len() > 1);
        if self.has(NobodyIsWoken) || (self.has(LaterPermitsAreSilent) && is_many) {
            return Ok(WakeUps::silent());
        }
        self.inner.subscribe(name).await
    }
}

fn holders(holding: &Holding) -> Vec<HolderId> {
    holding.holder.into_iter().chain(holding.others.iter().filter_map(|other| other.holder)).collect()
}

fn grant(token: FencingToken) -> Grant {
    Grant::of(token)
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
        Box::pin(self.listen(name))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.look(name))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(self.list_all())
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(self.line(name))
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.revoke_it(name, holder, how))
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.reset(name))
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        self.inner.time()
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        self.inner.diagnose()
    }

    fn listen(&self, listener: Weak<Listener>) {
        self.inner.listen(listener);
    }

    fn tables(&self) -> Option<Tables> {
        self.inner.tables()
    }

    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        None
    }

    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        None
    }
}

// Without a flaw it passes: what the cases below find is the flaw, not the wrapper.
conformance!(without_a_flaw, paused, Arc::new(Mutant::new(Flaw::Nothing)) as Arc<dyn Store>);

#[test]
fn without_a_flaw_marks_are_forgotten() {
    for (name, case) in conformance::RESETS {
        println!("{name}");
        run_paused(async { Subject::new(Arc::new(Mutant::new(Flaw::Nothing))) }, async |subject: &Subject| {
            case(subject).await;
        });
    }
}

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
        LeasesNeverEnd by a_lease_ends_after_its_ttl, an_expired_lease_is_gone_though_nobody_took_it, each_permit_runs_out_on_its_own;
        LeasesEndEarly by a_lease_ends_after_its_ttl;
        NamesFoldCase by different_names_are_different_locks, long_names_are_told_apart;
        NamesAreTrimmed by different_names_are_different_locks;
        NamesAreCut by long_names_are_told_apart;
        NamesAreDecoded by different_names_are_different_locks;
        StrangersOvertake by a_stranger_does_not_overtake, a_waiter_counts_until_its_entry_ends, a_stranger_takes_only_the_surplus;
        TheLastComesFirst by first_come_first_served, contention_says_how_many_are_ahead;
        TicketsAreForgotten by a_waiter_comes_back_at_its_old_place;
        DeadWaitersStay by a_dead_waiter_is_skipped;
        WaitersDieYoung by a_waiter_counts_until_its_entry_ends, first_come_first_served;
        NothingIsHandedOver by a_release_hands_over, leaving_hands_on, a_revocation_hands_over, the_dead_are_handed_nothing;
        HandOversCountFromAnotherClaim by a_release_hands_over;
        TicksAreHandedOver by a_tick_is_not_handed_over;
        HandOversAreShort by what_is_handed_over_lasts_its_ttl;
        LeavingKeepsThePlace by leaving_gives_up_the_place;
        LeavingKeepsTheGrant by leaving_releases_a_grant, a_given_up_waiter_is_undone_by_leaving;
        LeavingFreesAnybodys by leaving_by_a_stranger_is_harmless, leaving_gives_up_the_place;
        NobodyIsWoken by a_release_rings, a_revocation_rings, leaving_with_a_grant_rings;
        MinimumHoldsAreIgnored by a_minimum_hold_keeps_the_name, a_minimum_hold_ends, a_minimum_hold_keeps_one_permit;
        MinimumHoldsKeepTheHolder by a_minimum_hold_keeps_the_name;
        GentleRevocationsCut by revoked_gently_it_is_not_renewed, revoked_gently_it_ends_with_its_ttl;
        GentleRevocationsDoNothing by revoked_gently_it_is_not_renewed;
        GentleRevocationsEndWithAClaim by revoked_gently_it_is_not_granted_again;
        RevocationsAreGentle by revoked_now_it_is_free, tokens_grow_over_revocation;
        TheListIsBackwards by the_list_is_in_order;
        TheListForgetsWaiters by the_list_is_in_order;
        TheQueueIsBackwards by who_waits_is_told_in_line, who_got_it_or_left_is_told_no_more;
        TheQueueHasTheFirstOnly by who_waits_is_told_in_line, who_got_it_or_left_is_told_no_more;
        TheQueueHasTheHolder by who_waits_is_told_in_line, nobody_waits;
        TheQueueHasTheDead by the_dead_are_not_told, who_got_it_or_left_is_told_no_more;
        TheQueueIsOfAllNames by queues_of_look_alikes_are_apart;
        TheQueueMixesUpLabels by who_waits_is_told_in_line;
        PlacesAreNew by a_place_is_as_old_as_its_first_claim;
        PlacesAreOld by who_waits_is_told_in_line;
        BatchesAreReversed by a_batch_answers_each_in_order;
        BatchesAreCut by a_batch_answers_each_in_order;
        TheKeeperIsElsewhere by the_keeper_sees_the_same_store;
        ClaimsComeLate by a_given_up_claim_is_undone_by_a_release, a_given_up_waiter_is_undone_by_leaving;

        OnlyTheNewestTickIsRefused by a_newer_tick_is_granted_and_no_older_one, done_of_an_older_tick_leaves_newer_ones_alone;
        MarksFollowTheClaim by a_dead_holders_tick_is_granted_again, not_started_never_brings_the_mark_back;
        MarksAreShared by marks_of_different_names_are_apart;
        RefusedClaimsMoveTheMark by a_newer_tick_waits_for_the_lock;
        PlainClaimsForgetTicks by plain_claims_leave_ticks_alone;
        RevocationsForgetTicks by a_tick_outlives_a_revocation, a_failure_counts_late;
        RevocationsCloseTicks by a_tick_outlives_a_revocation;
        FutureTicksAreGranted by a_tick_in_the_future_is_refused_and_stops_nobody;
        FutureTicksMoveTheMark by a_tick_in_the_future_is_refused_and_stops_nobody;
        OldTicksAreGranted by a_tick_that_may_be_forgotten_is_refused;
        KeysHaveAWindow by the_only_tick_has_no_window;
        HeldComesFirst by a_tick_that_is_over_is_not_worth_waiting_for, a_refused_tick_leaves_no_place;
        RunningIsNotDue by a_tick_that_runs_elsewhere_is_held, the_only_tick_has_no_window, one_of_many_claims_a_tick;
        RunningIsForAnybody by a_tick_that_runs_elsewhere_is_held, ticks_run_beside_one_another,
            one_of_many_claims_a_tick;
        RunningNamesNobody by a_tick_that_runs_elsewhere_is_held;
        RunningSaysThatNobodyWaits by a_running_tick_says_how_many_wait;
        RefusedTicksStayInLine by a_refused_tick_leaves_no_place;
        RetriesTakeFromOnce by a_tick_whose_holder_died_is_over_at_most_once, a_tick_outlives_a_revocation;
        OnceTakesFromRetries by a_failed_tick_is_granted_again, a_dead_holders_tick_is_granted_again,
            not_started_counts_once;
        NothingIsRetried by a_failed_tick_is_granted_again, a_dead_holders_tick_is_granted_again,
            the_only_tick_has_no_window;
        UnfinishedIsNotTold by a_tick_whose_holder_died_is_over_at_most_once, a_failed_tick_is_granted_again;
        AttemptsAreNotCounted by a_failed_tick_is_granted_again, a_dead_holders_tick_is_granted_again;
        TheSameClaimCountsAgain by the_same_claim_gets_the_same_attempt, not_started_after_done_is_harmless;
        OpenTicksPileUp by the_oldest_of_too_many_is_given_up;
        FewTicksStayOpen by the_oldest_of_too_many_is_given_up;
        GivingUpIsSilent by the_oldest_of_too_many_is_given_up;
        TheNewestIsGivenUp by the_oldest_of_too_many_is_given_up;

        ResetsForgetNothing by a_forgotten_tick_is_claimed_anew;
        ResetsKeepWhatIsOpen by what_stands_open_is_forgotten_with_the_mark;
        ResetsForgetAllNames by a_forgotten_tick_is_claimed_anew;
        ResetsEndTheLease by who_runs_a_forgotten_tick_goes_on;
        ResetsAlwaysFindAMark by without_a_mark_there_is_nothing_to_forget;

        NotStartedIsIgnored by not_started_frees_the_tick_for_everybody, not_started_counts_late,
            leaving_counts_as_not_started;
        NotStartedInTimeOnly by not_started_counts_late, leaving_counts_as_not_started,
            not_started_never_brings_the_mark_back;
        NotStartedByAnybody by not_started_by_another_is_harmless, not_started_is_too_late_once_another_has_it;
        NotStartedByAnEarlierHolder by not_started_is_too_late_once_another_has_it;
        NotStartedAfterDone by not_started_after_done_is_harmless, not_started_is_too_late_once_another_has_it;
        NotStartedBringsTheMarkBack by not_started_never_brings_the_mark_back;
        NotStartedKeepsTheAttempt by not_started_frees_the_tick_for_everybody, not_started_counts_once;
        NotStartedCountsTwice by not_started_counts_once;
        NotStartedStaysPromised by not_started_frees_the_tick_for_everybody, not_started_counts_late;
        LeavingKeepsTheTick by leaving_counts_as_not_started;
        LateDoneIsIgnored by done_counts_late, done_counts_though_another_has_begun_it_again,
            done_of_an_older_tick_leaves_newer_ones_alone;
        DoneByItsHolderOnly by done_counts_though_another_has_begun_it_again;
        DoneClosesAll by done_of_an_older_tick_leaves_newer_ones_alone;
        DoneClosesOlderOnes by not_started_never_brings_the_mark_back, a_dead_holders_tick_is_granted_again;
        DoneEndsAnyLease by done_counts_late, done_counts_though_another_has_begun_it_again;
        FailedStaysOpen by a_tick_that_failed_is_over_at_most_once, a_failure_counts_late;
        FailedIsNeverRetried by a_failed_tick_is_granted_again, ticks_run_beside_one_another, a_failure_counts_late;
        FailedIsNotStarted by a_tick_that_failed_is_over_at_most_once, a_failed_tick_is_granted_again;
        FailedByAnybody by a_late_failure_is_harmless;
        LateFailuresAreIgnored by a_failure_counts_late;
        SilenceIsDone by a_release_without_a_verdict_leaves_the_tick_open;
        SilenceIsNotStarted by a_release_without_a_verdict_leaves_the_tick_open;

        PermitsAreUnlimited by so_many_may_hold_it, no_more_of_many_are_granted, a_stranger_takes_only_the_surplus;
        OneMorePermit by so_many_may_hold_it, no_more_of_many_are_granted, each_permit_runs_out_on_its_own;
        PermitsAreIgnored by so_many_may_hold_it, ticks_run_beside_one_another, tokens_grow_over_all_permits;
        PermitsDisagree by holders_agree_on_the_permits;
        PermitsNeverShrink by fewer_permits_are_fewer, holders_agree_on_the_permits;
        TokensPerPermit by tokens_grow_over_all_permits;
        OthersAreNotTold by so_many_may_hold_it, a_look_names_every_holder_once,
            whose_lease_ends_first_is_named_first;
        OthersHaveTheFirstOnesToken by a_look_names_every_holder_once;
        PermitsAreNotTold by so_many_may_hold_it, holders_agree_on_the_permits, a_look_names_every_holder_once;
        TheListHasAnEntryForEachHolder by a_look_names_every_holder_once;
        RenewalsRenewAll by a_holder_keeps_its_own_permit;
        ReleasesFreeAll by a_release_frees_one_permit, a_look_names_every_holder_once;
        RevokingOneEndsAll by revoking_one_holder_leaves_the_others,
            revoking_one_holder_gently_stops_its_renewals_only;
        RevokingAllEndsOne by revoking_all_holders_frees_all_permits;
        SurplusIsWithheld by a_stranger_takes_only_the_surplus;
        WaitersGetOnePermitOnly by the_first_so_many_waiters_are_granted;
        PermitsHaveNoQueue by the_first_so_many_waiters_are_granted, a_waiter_has_one_place_for_all_permits;
        MinimumHoldsKeepAllPermits by a_minimum_hold_keeps_one_permit;
        OthersComeInNoOrder by whose_lease_ends_first_is_named_first;
        LaterPermitsAreSilent by each_freed_permit_rings;
    }
}

/// The random plays find it, too, without having been told what to look for.
macro_rules! found_by_chance {
    ($($flaw:ident)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $flaw() {
            for seed in 0..1000 {
                let mutant = Mutant::new(Flaw::$flaw);
                let play = Play { time_passes: true, ..Play::new(seed) };
                if play.over(|| Arc::new(mutant.clone())).await.is_err() {
                    return;
                }
            }
            panic!("no play found it");
        }
    )*};
}

#[allow(non_snake_case, reason = "tests are called like the flaws")]
mod found_by_chance {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_where_nothing_is() {
        for seed in 0..200 {
            let mutant = Mutant::new(Nothing);
            let play = Play { time_passes: true, ..Play::new(seed) };
            if let Err(violation) = play.over(|| Arc::new(mutant.clone())).await {
                panic!("{violation}");
            }
        }
    }

    found_by_chance! {
        OnlyTheNewestTickIsRefused MarksFollowTheClaim RefusedClaimsMoveTheMark RevocationsForgetTicks
        RunningIsForAnybody RetriesTakeFromOnce NothingIsRetried AttemptsAreNotCounted TheSameClaimCountsAgain
        NotStartedIsIgnored NotStartedByAnybody NotStartedByAnEarlierHolder NotStartedAfterDone
        NotStartedBringsTheMarkBack LateDoneIsIgnored DoneByItsHolderOnly DoneClosesAll DoneClosesOlderOnes FailedIsNotStarted
        FailedIsNeverRetried FailedByAnybody
        OnceTakesFromRetries NotStartedCountsTwice NotStartedInTimeOnly NotStartedStaysPromised
        PermitsAreUnlimited OneMorePermit TokensPerPermit
    }
}
