//! What the answers to a claim come to.

use super::view::in_the_middle;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Attempt, FencingToken, HolderId, Holding};
use crate::rule::Rule;
use crate::store::Ballot;

/// The answers so far.
#[derive(Debug, Default)]
pub(super) struct Votes {
    /// Of how many.
    pub all: usize,
    /// By whom it was granted, and under which token.
    pub granted: Vec<(usize, FencingToken)>,
    /// Where somebody else has it.
    pub held: Vec<(usize, Holding)>,
    pub failed: Vec<(usize, Error)>,
}

/// How it came out.
#[derive(Debug)]
pub(super) enum Verdict {
    /// A majority has granted it; its token is the largest of theirs.
    Won(FencingToken),
    /// A majority says that somebody else holds it.
    Held(Holding),
    /// Nobody has a majority, as far as is known: others are asking at the same time, or members are missing. One of
    /// those who were in the way.
    Split(Holding),
    /// Too few have answered: why the others have not.
    Outage(Vec<(usize, Error)>),
}

impl Votes {
    pub fn of(all: usize) -> Self {
        Self { all, ..Self::default() }
    }

    pub fn count(&mut self, member: usize, answer: Result<Attempt>) {
        match answer {
            Ok(Attempt::Granted(grant)) => self.granted.push((member, grant.token)),
            Ok(Attempt::Held(holding)) => self.held.push((member, holding)),
            Ok(Attempt::NotDue(why)) => {
                let message = format!("a claim without a tick is not due: {why}");
                self.failed.push((member, Error::new(ErrorKind::Internal, message).maybe_applied()));
            }
            Err(error) => self.failed.push((member, error)),
        }
    }

    /// Whether no answer that is still to come can change the verdict.
    pub fn are_decided(&self) -> bool {
        let are_all = self.granted.len() + self.held.len() + self.failed.len() == self.all;
        are_all || self.has_won() || self.is_held()
    }

    pub fn verdict(mut self) -> Verdict {
        if self.has_won() {
            let largest = self.granted.iter().map(|(_, token)| *token).max();
            return Verdict::Won(largest.unwrap_or_default());
        }
        if self.is_outage() {
            return Verdict::Outage(self.failed);
        }
        let is_held = self.is_held();
        let (_, most) = self.most_named();
        // One that was ratified late may have a larger token than the one that was granted.
        let theirs = self.held.iter().filter(|(_, holding)| holding.holder == most);
        let token = in_the_middle(theirs.map(|(_, holding)| holding.token)).unwrap_or_default();
        let at = self.held.iter().position(|(_, holding)| holding.holder == most).unwrap_or_default();
        let holding = Holding { token, ..self.held.swap_remove(at).1 };
        if is_held { Verdict::Held(holding) } else { Verdict::Split(holding) }
    }

    /// How each of them voted.
    pub fn ballots(&self) -> Vec<Ballot> {
        let mut ballots = vec![Ballot::Late; self.all];
        self.granted.iter().for_each(|(member, _)| ballots[*member] = Ballot::Granted);
        self.held.iter().for_each(|(member, _)| ballots[*member] = Ballot::Refused);
        self.failed.iter().for_each(|(member, _)| ballots[*member] = Ballot::Failed);
        ballots
    }

    fn majority(&self) -> usize {
        if !Rule::MajoritiesOfAllMembers.holds() {
            return (self.granted.len() + self.held.len()) / 2 + 1;
        }
        self.all / 2 + 1
    }

    fn has_won(&self) -> bool {
        self.granted.len() >= self.majority()
    }

    fn is_held(&self) -> bool {
        self.most_named().0 >= self.majority()
    }

    fn is_outage(&self) -> bool {
        self.granted.len() + self.held.len() < self.majority()
    }

    /// Who is named as its holder by most, and by how many. A minimum hold has no holder.
    fn most_named(&self) -> (usize, Option<HolderId>) {
        let count = |named| self.held.iter().filter(|(_, holding)| holding.holder == named).count();
        self.held.iter().map(|(_, holding)| (count(holding.holder), holding.holder)).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Grant, Holder};
    use crate::name::LockName;

    fn granted(token: u64) -> Result<Attempt> {
        Ok(Attempt::Granted(Grant::of(FencingToken::new(token))))
    }

    fn held(holder: HolderId) -> Result<Attempt> {
        let holder = Holder { holder: Some(holder), ..Holder::default() };
        Ok(Attempt::Held(Holding::of(LockName::new("job").unwrap(), 1, vec![holder])))
    }

    fn failed() -> Result<Attempt> {
        Err(Error::new(ErrorKind::Unavailable, "away"))
    }

    fn votes(answers: impl IntoIterator<Item = Result<Attempt>>) -> Votes {
        let mut votes = Votes::of(3);
        answers.into_iter().enumerate().for_each(|(member, answer)| votes.count(member, answer));
        votes
    }

    #[test]
    fn it_is_decided_as_soon_as_nothing_can_change_it() {
        let (a, b) = (HolderId::fresh(), HolderId::fresh());
        assert!(!votes([granted(1)]).are_decided());
        assert!(votes([granted(1), granted(2)]).are_decided());
        assert!(votes([held(a), held(a)]).are_decided());
        assert!(!votes([held(a), held(b)]).are_decided());
        assert!(!votes([granted(1), failed()]).are_decided());
    }

    #[test]
    fn the_token_of_who_holds_it_is_what_most_say_and_of_two_the_smaller() {
        let holder = HolderId::fresh();
        let with = |token| {
            held(holder).map(|attempt| match attempt {
                Attempt::Held(holding) => Attempt::Held(Holding { token: FencingToken::new(token), ..holding }),
                other => other,
            })
        };
        for tokens in [vec![9, 7], vec![7, 9], vec![9, 7, 7]] {
            let verdict = votes(tokens.iter().map(|token| with(*token))).verdict();
            assert!(matches!(verdict, Verdict::Held(held) if held.token == FencingToken::new(7)), "{tokens:?}");
        }
    }

    #[test]
    fn each_has_a_ballot() {
        let held = held(HolderId::fresh());
        assert_eq!(votes([held, failed()]).ballots(), [Ballot::Refused, Ballot::Failed, Ballot::Late]);
        assert_eq!(votes([granted(1), granted(2)]).ballots(), [Ballot::Granted, Ballot::Granted, Ballot::Late]);
    }

    #[test]
    fn a_majority_is_one_of_all_members() {
        let (a, b) = (HolderId::fresh(), HolderId::fresh());
        let token = FencingToken::new(7);
        assert!(matches!(votes([granted(1), granted(7), failed()]).verdict(), Verdict::Won(most) if most == token));
        assert!(matches!(votes([granted(1), failed(), failed()]).verdict(), Verdict::Outage(_)));
        assert!(matches!(votes([held(a), failed(), failed()]).verdict(), Verdict::Outage(_)));
        assert!(
            matches!(votes([granted(1), held(a), held(a)]).verdict(), Verdict::Held(told) if told.holder == Some(a))
        );
        assert!(matches!(votes([granted(1), held(a), held(b)]).verdict(), Verdict::Split(_)));
        assert!(matches!(votes([granted(1), held(a), failed()]).verdict(), Verdict::Split(_)));
    }
}
