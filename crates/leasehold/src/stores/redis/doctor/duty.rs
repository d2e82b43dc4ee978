//! What a server is there for.

/// As what a server is examined: what is a fault of one on its own may be none of one among several stores, and the reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stores::redis) enum Duty {
    /// All locks are in it.
    Alone,
    /// It is one of a quorum: what it forgets the others remember, and it grants nothing until that is over.
    Member,
    /// It is the primary of a fallback: the route leads to one data set, and ticks are the arbiter's.
    Primary,
}
