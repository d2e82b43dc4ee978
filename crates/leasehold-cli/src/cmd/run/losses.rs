//! What the end of a job counts as lost.

use leasehold::{Guard, LossReason, MultiGuard};

use super::reason_of;
use crate::warden::{Cut, End};

/// The leases that were lost by this end, and why. What guards know counts; where the warden came first, which is stricter than they are,
/// what `is_due` says of each, or else `main` alone. A job that lives on holds nothing any more: all of its leases end by themselves.
pub fn of<'g>(
    guard: &'g MultiGuard,
    main: &'g Guard,
    end: &End,
    is_due: impl Fn(&Guard) -> bool,
) -> Vec<(&'g Guard, LossReason)> {
    let (why, lives_on) = match end {
        End::Cut { why, .. } | End::TooLate(why) => (Some(*why), false),
        End::Unkillable(_) => (None, true),
        _ => return Vec::new(),
    };
    let by_time = matches!(why, None | Some(Cut::Deadline | Cut::Lost));
    let loss = |guard: &Guard| match guard.loss() {
        None if by_time && is_due(guard) => Some(unreachable()),
        None if lives_on => Some(LossReason::Expired),
        known => known,
    };
    let lost: Vec<_> = guard.guards().iter().filter_map(|guard| Some((guard, loss(guard)?))).collect();
    match why.and_then(loss_of) {
        Some(reason) if lost.is_empty() => vec![(main, reason)],
        _ => lost,
    }
}

/// As what a cut counts of which no guard knows; none where nothing was lost.
fn loss_of(why: Cut) -> Option<LossReason> {
    match why {
        Cut::Deadline => Some(unreachable()),
        Cut::Lost => Some(LossReason::Gone),
        Cut::MaxHold => Some(LossReason::HeldTooLong),
        Cut::Stopped => None,
    }
}

fn unreachable() -> LossReason {
    LossReason::Unreachable(reason_of(Cut::Deadline).to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leasehold::stores::Memory;
    use leasehold::{Locks, MultiLock, Outcome};
    use nix::unistd::Pid;

    use super::*;

    /// Names and reasons of what is lost by this end of a job under `a`, `b` and `c`, of which these are due.
    async fn lost(end: End, due: &[&str]) -> Vec<(String, LossReason)> {
        let locks = Locks::over(Arc::new(Memory::default()));
        let all = ["a", "b", "c"].map(|name| locks.lock(name)).to_vec();
        let Outcome::Acquired(guard) = MultiLock::of(all).unwrap().try_acquire().await.unwrap() else {
            panic!("they are free")
        };
        let lost = of(&guard, &guard.guards()[0], &end, |guard| due.contains(&guard.name().as_str()));
        lost.into_iter().map(|(guard, reason)| (guard.name().to_string(), reason)).collect()
    }

    fn cut(why: Cut) -> End {
        End::Cut { why, job: None }
    }

    #[tokio::test]
    async fn all_leases_that_are_due_at_the_cut_are_lost() {
        let both = vec![("a".to_owned(), unreachable()), ("b".to_owned(), unreachable())];
        for end in [cut(Cut::Deadline), End::TooLate(Cut::Deadline), cut(Cut::Lost)] {
            assert_eq!(lost(end, &["a", "b"]).await, both);
        }
        assert_eq!(lost(cut(Cut::Deadline), &[]).await, both[..1], "somebody's time was over");
        assert_eq!(lost(cut(Cut::MaxHold), &["b"]).await, [("a".to_owned(), LossReason::HeldTooLong)]);
        for end in [cut(Cut::Stopped), End::Exited(0), End::WardenLost { started: true }] {
            assert_eq!(lost(end, &["a", "b"]).await, []);
        }
    }

    #[tokio::test]
    async fn a_job_that_can_not_be_killed_loses_all_it_holds() {
        let reasons = [LossReason::Expired, unreachable(), LossReason::Expired];
        let all: Vec<_> = ["a", "b", "c"].map(str::to_owned).into_iter().zip(reasons).collect();
        assert_eq!(lost(End::Unkillable(vec![Pid::from_raw(1)]), &["b"]).await, all);
    }
}
