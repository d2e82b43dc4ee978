//! Faults that a simulation puts into the code, to show that it would find them.

/// A rule that is left out. Each was found, in a model or in somebody's code, to make two holders, tokens that don't grow
/// or ticks that run twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// The second phase of a quorum is left out (r02).
    NoSecondPhase,
    /// The second phase counts if one member acknowledges it (r03).
    SecondPhaseOnOne,
    /// A member that came back empty counts as full (r06, q07).
    EmptyIsFull,
    /// The rounds of one acquisition share its identity (q01).
    RoundsShareAnIdentity,
    /// A member that came back empty adopts while its restart guard lasts (q04).
    AdoptedUnderGuard,
    /// It adopts from one other (q05).
    AdoptedFromOne,
    /// It adopts from others that came back empty, too (q06).
    AdoptedFromTheEmpty,
    /// A member acknowledges a tick without looking at its mark (q09).
    MarksAreNotCompared,
    /// A majority of the members that answered is enough.
    MajorityOfTheAnswers,
    /// A lease is renewed if one member has renewed it.
    RenewedByOne,
    /// The validity counts from the answer.
    CountedFromTheAnswer,
}

/// Whether a rule is left out: never, but in a simulation that says so.
#[cfg(not(feature = "simulation"))]
pub(crate) const fn has(_: Flaw) -> bool {
    false
}

#[cfg(feature = "simulation")]
pub(crate) fn has(flaw: Flaw) -> bool {
    crate::simulation::has(flaw)
}
