//! What a majority sees: for operators, and for whoever waits.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::future::{FutureExt, join3};

use super::refill::{ACCEPT_IT, Recalled, unfinished};
use super::round::Round;
use super::rounds::read_label;
use super::{Inner, LIMIT};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Finding, Severity};
use crate::lease::{HolderId, Holding, Revoke};
use crate::name::LockName;
use crate::store::WakeUps;

/// How often a revocation looks whether the holder has been granted another round meanwhile.
const LOOKS: usize = 4;

/// What the members that have answered say, and why the others have not.
pub(super) struct Seen<T> {
    pub answers: Vec<T>,
    failed: Vec<(usize, Error)>,
}

/// A holder as its client knows it: at the members it is a round, for which it is stands in its label.
pub(super) fn shown(holding: Holding) -> Holding {
    let (label, holder) = read_label(&holding.label);
    let (label, holder) = (label.to_owned(), holding.holder.and(holder).or(holding.holder));
    Holding { label, holder, waiting: 0, ticket: None, others: Vec::new(), permits: NonZeroU32::MIN, ..holding }
}

impl Inner {
    pub(super) async fn inspect(&self, name: &LockName) -> Result<Option<Holding>> {
        let calls = (0..self.nodes.len()).map(|member| (member, self.nodes[member].store.inspect(name)));
        let seen = self.see(Round::send(calls, LIMIT).await).await?;
        let held = seen.answers.into_iter().flatten().collect();
        Ok(self.held_by_a_majority(held, seen.failed.len()))
    }

    pub(super) async fn list(&self) -> Result<Vec<Holding>> {
        let calls = (0..self.nodes.len()).map(|member| (member, self.nodes[member].store.list()));
        let seen = self.see(Round::send(calls, LIMIT).await).await?;
        let mut names: BTreeMap<LockName, Vec<Holding>> = BTreeMap::new();
        for holding in seen.answers.into_iter().flatten() {
            names.entry(holding.name.clone()).or_default().push(holding);
        }
        let unknown = seen.failed.len();
        Ok(names.into_values().filter_map(|held| self.held_by_a_majority(held, unknown)).collect())
    }

    /// Ends the hold at every member; the answer is what a majority had. What was hit may be a round that its client has given up
    /// by then, and the next one of the same acquisition has been granted meanwhile: to whoever asks that is the same hold.
    pub(super) async fn revoke(
        &self,
        name: &LockName,
        whose: Option<HolderId>,
        how: Revoke,
    ) -> Result<Option<Holding>> {
        let Some(hit) = self.revoke_round(name, whose, how).await? else { return Ok(None) };
        // A minimum hold runs out by itself.
        if hit.holder.is_none() {
            return Ok(Some(hit));
        }
        for _ in 0..LOOKS {
            let now = self.inspect(name).await.map_err(Error::maybe_applied)?;
            if now.is_none_or(|now| now.holder != hit.holder || now.revoked) {
                return Ok(Some(hit));
            }
            self.revoke_round(name, hit.holder, how).await.map_err(Error::maybe_applied)?;
        }
        let message = format!("{name} was revoked and granted to the same holder anew, again and again");
        Err(Error::new(ErrorKind::Unavailable, message).maybe_applied())
    }

    async fn revoke_round(&self, name: &LockName, whose: Option<HolderId>, how: Revoke) -> Result<Option<Holding>> {
        let call = |member: usize| {
            let store = &self.nodes[member].store;
            let call = async move {
                let Some(whose) = whose else { return store.revoke(name, None, how).await };
                // There it is known by the round under which it was granted.
                let round = store.inspect(name).await?.and_then(|held| {
                    let is_meant = shown(held.clone()).holder == Some(whose);
                    held.holder.filter(|_| is_meant)
                });
                match round {
                    Some(round) => store.revoke(name, Some(round), how).await,
                    None => Ok(None),
                }
            };
            (member, call.boxed())
        };
        let Seen { answers, failed } = self.see(Round::send((0..self.nodes.len()).map(call), LIMIT).await).await?;
        let held: Vec<_> = answers.into_iter().flatten().collect();
        let surely = self.held_by_a_majority(held.clone(), 0);
        if surely.is_none() && self.held_by_a_majority(held, failed.len()).is_some() {
            // Others may have it, who would renew it; and those give it back to whom it was taken from.
            return Err(self.outage(&failed).maybe_applied());
        }
        Ok(surely)
    }

    /// The clock in the middle: of clocks that are right it is one, whatever a minority shows.
    pub(super) async fn time(&self) -> Result<Duration> {
        let calls = (0..self.nodes.len()).map(|member| (member, self.nodes[member].store.time()));
        let clocks = self.see(Round::send(calls, LIMIT).await).await?.answers;
        Ok(in_the_middle(clocks.into_iter()).unwrap_or_default())
    }

    /// A hint from any of them will do.
    pub(super) async fn subscribe(&self, name: &LockName) -> Result<WakeUps> {
        let calls = (0..self.nodes.len()).map(|member| (member, self.nodes[member].member().wake_ups(name)));
        let mut round = Round::send(calls, LIMIT).await;
        let (mut subscribed, mut failed) = (Vec::new(), Vec::new());
        while subscribed.len() < self.majority()
            && let Some((member, answer)) = round.next().await
        {
            match answer {
                Ok(wake_ups) => subscribed.push(wake_ups),
                Err(error) => failed.push((member, error)),
            }
        }
        if subscribed.is_empty() { Err(self.outage(&failed)) } else { Ok(WakeUps::any_of(subscribed)) }
    }

    /// # Errors
    /// No member can be asked.
    pub(super) async fn diagnose(&self) -> Result<Vec<Finding>> {
        let all = 0..self.nodes.len();
        let calls = all.clone().map(|member| (member, self.nodes[member].member().examine()));
        let examined = async { Round::send(calls, LIMIT * 5).await.rest().await };
        // Who they are was perhaps never asked; what they remember, with a name that nobody has used.
        let met = async { self.ask(all.collect(), LIMIT * 5).await.rest().await };
        let unused = LockName::new(&HolderId::fresh().to_string()).expect("digits are a name");
        let (mut answers, met, recalled) = join3(examined, met, self.recall(&unused, LIMIT * 5)).await;
        met.into_iter().for_each(|answer| _ = self.is_met(answer));
        let (mut findings, mut away) = (Vec::new(), Vec::new());
        answers.sort_unstable_by_key(|(member, _)| *member);
        for (member, answer) in answers {
            let name = &self.nodes[member].name;
            match answer {
                Ok(found) => findings.extend(
                    found.into_iter().map(|found| Finding { message: format!("{name}: {}", found.message), ..found }),
                ),
                Err(error) => away.push((member, error)),
            }
        }
        if away.len() == self.nodes.len() {
            return Err(self.outage(&away));
        }
        findings.splice(0..0, [Some(self.finding(&away)), self.about_memories(&recalled)].into_iter().flatten());
        if let Err(error) = self.check_members() {
            let fix = "name independent servers, each once, that are nobody's replicas and in no cluster";
            findings.insert(0, Finding::problem("quorum", error.to_string(), fix));
        }
        Ok(findings)
    }

    fn finding(&self, away: &[(usize, Error)]) -> Finding {
        let all = self.nodes.len();
        if away.is_empty() {
            return Finding::fine("quorum", format!("all of its {all} members answer"));
        }
        let severity = if all - away.len() < self.majority() { Severity::Problem } else { Severity::Warning };
        let fix = Some("bring them back: a quorum needs a majority of all its members".to_owned());
        Finding { severity, subject: "quorum", message: self.outage(away).to_string(), fix }
    }

    /// Whether names are granted of which nobody has asked yet. What each of the members says of itself is no answer to that.
    fn about_memories(&self, recalled: &Recalled) -> Option<Finding> {
        const SUBJECT: &str = "memories";
        let Recalled { answers, failed } = recalled;
        let (all, needed) = (self.nodes.len(), self.majority());
        let full = answers.iter().filter(|(_, memories)| memories.is_full).count();
        if full >= needed || answers.is_empty() {
            return None;
        }
        let are_blank = answers.iter().all(|(_, memories)| memories.is_blank);
        if are_blank && failed.is_empty() {
            return Some(Finding::fine(SUBJECT, "the quorum is new: whoever first asks for a lock founds it"));
        }
        if are_blank {
            let message = "the quorum is new, or has lost everything, and takes all its members to be founded: until then nothing \
                           is granted";
            return Some(Finding::problem(SUBJECT, message, "bring those back that are away"));
        }
        let unfounded = unfinished(answers).map_or(0, |(_, whom)| whom.len());
        if unfounded > 0 && full + unfounded >= needed {
            return Some(Finding::fine(SUBJECT, "the quorum is being founded, which the next claim finishes"));
        }
        let message = format!(
            "{full} of its {all} members remember all names, and {needed} are needed: locks of which too few know are refused, new \
             ones among them"
        );
        let away = if failed.is_empty() { "" } else { "bring back those that are away; where that doesn't help, " };
        Some(Finding::problem(SUBJECT, message, format!("{away}{ACCEPT_IT}")))
    }

    /// All answers, if a majority has answered.
    pub(super) async fn see<'a, T: Send + 'a>(&self, round: Round<'a, T>) -> Result<Seen<T>> {
        let mut seen = Seen { answers: Vec::new(), failed: Vec::new() };
        for (member, answer) in round.rest().await {
            match answer {
                Ok(answer) => seen.answers.push(answer),
                Err(error) => seen.failed.push((member, error)),
            }
        }
        if seen.answers.len() >= self.majority() {
            return Ok(seen);
        }
        // What was asked of all may have been done by some.
        let error = self.outage(&seen.failed);
        Err(if seen.answers.is_empty() { error } else { error.maybe_applied() })
    }

    /// The hold that a majority has, if those that are `unknown` have it too; none if there is none.
    fn held_by_a_majority(&self, held: Vec<Holding>, unknown: usize) -> Option<Holding> {
        let count = |round: Option<HolderId>| held.iter().filter(|holding| holding.holder == round).count();
        let most = held.iter().map(|holding| holding.holder).max_by_key(|round| (count(*round), *round))?;
        let mut theirs: Vec<_> = held.into_iter().filter(|holding| holding.holder == most).collect();
        if theirs.len() + unknown < self.majority() {
            return None;
        }
        theirs.sort_by_key(|holding| std::cmp::Reverse(holding.remaining));
        let token = in_the_middle(theirs.iter().map(|holding| holding.token)).unwrap_or_default();
        let held_for = theirs.iter().map(|holding| holding.held_for).max().unwrap_or_default();
        let revoked = theirs.iter().any(|holding| holding.revoked);
        // A majority has it until the first of that majority has it no longer.
        theirs.truncate(self.majority());
        let last = theirs.pop()?;
        Some(shown(Holding { token, held_for, revoked, ..last }))
    }
}

/// Of an even number, the smaller one of those in the middle.
pub(super) fn in_the_middle<T: Ord>(some: impl Iterator<Item = T>) -> Option<T> {
    let mut some: Vec<_> = some.collect();
    some.sort_unstable();
    let middle = some.len().checked_sub(1)? / 2;
    Some(some.swap_remove(middle))
}
