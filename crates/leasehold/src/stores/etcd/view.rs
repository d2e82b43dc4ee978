//! Who contends for a lock: what a look at its keys has found, and what follows for a claim.

use std::time::Duration;

use super::generated::KeyValue;
use super::marks;
use super::ours::Ours;
use super::txn::Txn;
use super::value::{State, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Claim, HolderId, disagreement, foreign_label};
use crate::marks::Marks;
use crate::tick::{Due, NotDue, Standing};

/// A lock at one revision.
#[derive(Debug)]
pub(super) struct View {
    pub revision: i64,
    /// In order of their create revisions.
    pub contenders: Vec<Contender>,
    pub marks: Marked,
}

/// Somebody who has a key below the lock's prefix.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub key: Vec<u8>,
    pub created: i64,
    pub modified: i64,
    pub lease: i64,
    /// None of others.
    pub holder: Option<HolderId>,
    /// None of others.
    pub value: Option<Value>,
    /// One of this client's that counts no more: its time is over, or it has stopped asking.
    pub is_left_over: bool,
}

/// What is known of the lock's ticks, and under which key.
#[derive(Debug, Clone, Default)]
pub(super) struct Marked {
    pub marks: Marks,
    /// 0 where nothing is known yet.
    pub modified: i64,
    pub lease: i64,
}

/// What follows for a claim.
#[derive(Debug)]
pub(super) enum Step {
    /// It is granted already.
    Has(Contender),
    /// It holds it no more, and its key is to be gone before it can be granted anything.
    ClearOwn(Contender),
    /// It may be granted it, once these are out of the way: by a key of its own, or that by which it waits.
    Take {
        waits: Option<Contender>,
        clear: Vec<Contender>,
    },
    /// It is to stand in the queue, and does not yet.
    Enqueue,
    /// Somebody has it, or stands before: the last of these, and how many of them wait.
    Held {
        waits: Option<Contender>,
        ahead: u64,
        before: Option<Vec<u8>>,
    },
    /// Its tick runs elsewhere.
    Running,
    NotDue(NotDue),
}

impl Marked {
    pub fn read(found: Option<KeyValue>) -> Result<Self> {
        let Some(found) = found else { return Ok(Self::default()) };
        let marks = marks::read(&found.value).ok_or_else(|| {
            let key = String::from_utf8_lossy(&found.key).into_owned();
            Error::new(ErrorKind::Misconfigured, format!("the key {key} holds something else than ticks; delete it"))
        })?;
        Ok(Self { marks, modified: found.mod_revision, lease: found.lease })
    }
}

impl Contender {
    fn read(found: KeyValue, prefix: &[u8], ours: &Ours) -> Option<Self> {
        let rest = found.key.strip_prefix(prefix)?;
        if rest.contains(&b'/') {
            return None; // Of a lock whose name begins like this one's: it takes no part.
        }
        let value = Value::read(&found.value);
        let holder = std::str::from_utf8(rest).ok().and_then(HolderId::parse).filter(|_| value.is_some());
        let value = value.filter(|_| holder.is_some());
        // A minimum hold lasts as long as its lease. A lock may be granted whose holder has not heard of it yet, for which
        // it is not asleep.
        let is_left_over = match value.as_ref().map(|value| value.state) {
            Some(State::Held | State::Revoked) => ours.is_over(&found.key),
            Some(State::Waits) => ours.is_asleep(&found.key),
            Some(State::Kept) | None => false,
        };
        Some(Self {
            created: found.create_revision,
            modified: found.mod_revision,
            lease: found.lease,
            holder,
            value,
            is_left_over,
            key: found.key,
        })
    }

    pub fn state(&self) -> Option<State> {
        self.value.as_ref().map(|value| value.state)
    }

    pub fn is_foreign(&self) -> bool {
        self.value.is_none()
    }

    /// Whether one of ours holds it.
    pub fn is_held(&self) -> bool {
        matches!(self.state(), Some(State::Held | State::Revoked))
    }

    pub fn waits(&self) -> bool {
        self.state() == Some(State::Waits)
    }

    fn permits(&self) -> u32 {
        self.value.as_ref().map_or(1, |value| value.permits)
    }

    /// Whose key it is that isn't one of ours: etcd's concurrency package names keys by their leases.
    pub fn library(&self) -> Option<&'static str> {
        let by_lease = format!("/{:x}", self.lease);
        let is_theirs = self.is_foreign() && self.lease != 0 && self.key.ends_with(by_lease.as_bytes());
        is_theirs.then_some("etcdctl")
    }

    pub fn foreign_label(&self) -> String {
        foreign_label(self.library(), &self.shown_key())
    }

    /// What others call their key.
    pub fn shown_key(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }
}

impl View {
    pub fn read(
        revision: i64,
        found: Vec<KeyValue>,
        marks: Option<KeyValue>,
        prefix: &[u8],
        ours: &Ours,
    ) -> Result<Self> {
        let mut contenders: Vec<_> =
            found.into_iter().filter_map(|found| Contender::read(found, prefix, ours)).collect();
        contenders.sort_unstable_by_key(|contender| contender.created);
        Ok(Self { revision, contenders, marks: Marked::read(marks)? })
    }

    /// Those who count, in their order.
    pub fn live(&self) -> impl Iterator<Item = &Contender> {
        self.contenders.iter().filter(|contender| !contender.is_left_over)
    }

    pub fn of(&self, holder: HolderId) -> Option<&Contender> {
        self.contenders.iter().find(|contender| contender.holder == Some(holder))
    }

    pub fn is_alive(&self, holder: HolderId) -> bool {
        self.of(holder).is_some_and(|contender| contender.is_held() && !contender.is_left_over)
    }

    /// Who has a permit: ours who hold it, minimum holds, and of others who came first.
    pub fn holders(&self) -> impl Iterator<Item = &Contender> {
        let first = self.live().next().map(|first| first.created);
        self.live().filter(
            move |contender| {
                if contender.is_foreign() { Some(contender.created) == first } else { !contender.waits() }
            },
        )
    }

    pub fn waiters(&self) -> impl Iterator<Item = &Contender> {
        let first = self.live().next().map(|first| first.created);
        self.live()
            .filter(move |contender| contender.waits() || (contender.is_foreign() && Some(contender.created) != first))
    }

    /// How many permits there are, as those say who have them.
    pub fn permits(&self) -> u32 {
        self.holders().map(Contender::permits).max().unwrap_or(1)
    }

    /// What follows for a claim, `now` being the time of day.
    pub fn step(&self, claim: &Claim, now: Duration) -> Result<Step> {
        let own = self.of(claim.holder);
        let waits = own.filter(|own| own.waits());
        let mut is_revoked = false;
        if let Some(own) = own.filter(|own| !own.waits()) {
            match own.state() {
                Some(State::Held) if !own.is_left_over => return Ok(Step::Has(own.clone())),
                Some(State::Held | State::Revoked) if own.is_left_over => return Ok(Step::ClearOwn(own.clone())),
                _ => is_revoked = true, // Or kept: it is to have no other.
            }
        }
        self.agree_on_permits(claim)?;
        match claim.due.map(|due| self.standing(due, now)) {
            None | Some(Standing::ForClaim) => {}
            Some(Standing::Running) => return Ok(Step::Running),
            Some(Standing::Over(why)) => return Ok(Step::NotDue(why)),
        }
        let before: Vec<_> = self.before(claim.holder, waits).collect();
        let ahead = before.iter().filter(|other| !self.has_permit(other)).count() as u64;
        if !is_revoked && before.len() < claim.permits.get() as usize {
            return Ok(Step::Take { waits: waits.cloned(), clear: self.in_the_way_of(waits) });
        }
        if let Some(stray) = before.first().filter(|first| first.is_foreign() && first.lease == 0) {
            return Err(stray_key(claim, stray));
        }
        if waits.is_none() && claim.queue.is_some() && own.is_none() {
            return Ok(Step::Enqueue);
        }
        let last = before.last().map(|last| last.key.clone());
        Ok(Step::Held { waits: waits.cloned(), ahead, before: last })
    }

    /// All that have to be gone, or fewer than there are permits: everybody who has one, and who came before.
    fn before(&self, holder: HolderId, waits: Option<&Contender>) -> impl Iterator<Item = &Contender> {
        let place = waits.map_or(i64::MAX, |waits| waits.created);
        self.live().filter(move |other| {
            let is_self = other.holder == Some(holder);
            let has_it = !other.is_foreign() && !other.waits();
            !is_self && (has_it || other.created < place)
        })
    }

    fn has_permit(&self, contender: &Contender) -> bool {
        self.holders().any(|holder| holder.created == contender.created)
    }

    /// What counts no more, and would still come first for others.
    fn in_the_way_of(&self, waits: Option<&Contender>) -> Vec<Contender> {
        let place = waits.map_or(i64::MAX, |waits| waits.created);
        let in_the_way = |other: &&Contender| other.is_left_over && other.created < place;
        self.contenders.iter().filter(in_the_way).cloned().collect()
    }

    /// All holders must mean the same. Others always mean one.
    fn agree_on_permits(&self, claim: &Claim) -> Result<()> {
        let asked = claim.permits.get();
        let differs = |other: &&Contender| {
            if other.is_foreign() { asked > 1 } else { other.is_held() && other.permits() != asked }
        };
        match self.live().find(differs) {
            Some(other) => Err(disagreement(claim, other.permits())),
            None => Ok(()),
        }
    }

    fn standing(&self, due: Due, now: Duration) -> Standing {
        match due.tick.window(now, due.keep) {
            Ok(()) => self.marks.marks.standing(due, |holder| self.is_alive(holder)),
            Err(why) => Standing::Over(why),
        }
    }
}

/// What has no lease ends never, and nobody who locks puts it there.
fn stray_key(claim: &Claim, stray: &Contender) -> Error {
    let (name, key) = (&claim.name, stray.shown_key());
    Error::new(
        ErrorKind::Misconfigured,
        format!(
            "the key {key} stands under the lock {name}, has no lease and is no lock's: nobody is ever granted {name}; delete \
             it (etcdctl del '{key}'), or use another namespace"
        ),
    )
}

/// If nothing has changed of what is to be cleared away, it is.
pub(super) fn clearing(txn: Txn, clear: &[Contender]) -> Txn {
    clear.iter().fold(txn, |txn, other| txn.if_modified_at(&other.key, other.modified).delete(&other.key))
}

#[cfg(test)]
mod tests {
    use super::super::ours::{Held, Waits, What};
    use super::*;
    use crate::validity::{BootClock, Moment};

    const PREFIX: &[u8] = b"default/job/";

    fn is_left_over(state: State, what: What) -> bool {
        let ours = Ours::new(&BootClock);
        let value = Value { state, permits: 1, since: Duration::ZERO, label: "test".into() };
        let key = [PREFIX, HolderId::fresh().to_string().as_bytes()].concat();
        ours.note(&key, 1, what);
        let found = KeyValue { key, value: value.text(), create_revision: 7, mod_revision: 7, ..KeyValue::default() };
        let view = View::read(7, vec![found], None, PREFIX, &ours).unwrap();
        view.live().next().is_none()
    }

    #[test]
    fn what_counts_no_more_is_told_by_what_it_is_by_now() {
        let long_ago = Moment::from_nanos(0);
        let waits = What::Waits(Waits { created: 7, modified: 7, asked: long_ago, is_next: true });
        let held = What::Held(Held { created: 7, since: long_ago, ends: long_ago, marks: None });
        assert!(is_left_over(State::Waits, waits) && is_left_over(State::Held, held));
        assert!(!is_left_over(State::Held, waits), "it is being told that it has it");
        assert!(!is_left_over(State::Kept, held), "a minimum hold outlasts its holder's time");
    }
}
