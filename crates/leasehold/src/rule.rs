//! Rules of the protocols of quorum and fallback that a simulation breaks, one at a time, to show that it would find out.

/// A rule that can be broken. The words in brackets are those of the models in which a protocol without it was violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A quorum raises tokens in a second phase (r02).
    ASecondPhase,
    /// Which counts if a majority acknowledges it (r03).
    SecondPhasesNeedAMajority,
    /// A member that came back empty is not full until it has adopted (r06, q07).
    TheEmptyAreNotFull,
    /// Each round of an acquisition has an identity of its own (q01).
    RoundsHaveIdentities,
    /// A member that came back empty adopts only when its restart guard is over (q04).
    AdoptedOnlyAfterTheGuard,
    /// It adopts from as many others as are a majority (q05).
    AdoptedFromAMajority,
    /// And only from those that are full (q06).
    AdoptedFromTheFull,
    /// One that was swept has adopted what the others remember.
    TheSweptHaveAdopted,
    /// And those were as many others as are a majority.
    SweptFromAMajority,
    /// A member acknowledges a tick only after a look at its mark (q09).
    MarksAreCompared,
    /// A majority is one of all members, not of those that answered.
    MajoritiesOfAllMembers,
    /// A lease is renewed if a majority has renewed it.
    RenewalsNeedAMajority,
    /// The validity of a lease counts from the send of the request.
    LeasesCountFromTheSend,
    /// A carried lease outlasts the old route on the store that it leaves (H1, v11).
    CarryNeedsALeaseUntilLate,
    /// Whether it does is judged by LATE, not by EARLY (s01).
    CarryIsJudgedByLate,
    /// Nobody acquires before LATE (s02).
    AcquireOnlyAfterLate,
    /// A route comes into force only when all route leases on the one before are over (n01).
    ADrain,
    /// And not a little before (n02, v10).
    AWholeDrain,
    /// A guard ends with the route lease (n03).
    GuardsHeedTheRoute,
    /// A route lease counts from the send of the read (n04).
    RouteLeasesCountFromTheSend,
    /// A guard remembers its epoch, and dead it stays dead (s03, n07).
    GuardsRememberTheirEpoch,
    /// A token has the epoch in it (v14).
    TokensHaveTheEpoch,
    /// A store's restart that empties it is another incarnation (H5, v13).
    RestartsAreSeen,
    /// A carry sets the deadline, though it may fall (b03).
    ACarrySetsTheDeadline,
    /// An answer counts only in the store to which the request was sent (b02).
    LateAnswersOfTheSourceAreDropped,
    /// Each holder has a bound of its own (b06).
    BoundsAreNotShared,
    /// A source lease is not cleaned up behind a guard's back (H4, q04).
    NoCleanUpBehindACarry,
    /// A tag, and a watermark, is never lowered (H3, q01).
    TagsAreNeverLowered,
    /// A restored arbiter begins two epochs later, and nobody reads the route before (H6, x04).
    ARestoredArbiterSkipsAnEpoch,
    /// An arbiter compares the route of each claim with its own (x07).
    TheArbiterComparesTheRoute,
    /// The marks of a restored arbiter are raised (f07).
    RestoredMarksAreRaised,
}

#[cfg(feature = "simulation")]
mod broken {
    use std::cell::Cell;

    use super::Rule;

    thread_local! {
        static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    /// From here on this thread does not keep to `rule`; to all of them if there is none.
    pub fn break_rule(rule: Option<Rule>) {
        BROKEN.set(rule);
    }

    impl Rule {
        /// Whether this thread keeps to it.
        #[must_use]
        pub fn holds(self) -> bool {
            BROKEN.get() != Some(self)
        }
    }
}

#[cfg(feature = "simulation")]
pub use broken::break_rule;

#[cfg(not(feature = "simulation"))]
impl Rule {
    /// Nobody can break it.
    pub const fn holds(self) -> bool {
        true
    }
}
