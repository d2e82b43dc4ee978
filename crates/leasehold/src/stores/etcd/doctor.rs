//! What an operator should know about the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};

use super::Core;
use super::calls::Limit;
use super::fault::{Fault, told};
use super::generated::{AlarmType, KeyValue, RangeRequest, StatusResponse};
use super::txn::{Txn, one};
use super::value::Value;
use crate::error::{ErrorKind, Result};
use crate::finding::{Finding, Severity};

/// How long a member may take to say how it is.
const PATIENCE: Duration = Duration::from_millis(1500);

/// How many round trips are measured.
const TRIPS: usize = 9;

/// Slower than this, round trips eat into short TTLs.
const SLOW: Duration = Duration::from_millis(50);

/// A call for a lease with the smallest TTL, of two seconds, is given up after so long.
const TOO_SLOW: Duration = Duration::from_millis(2000 / 7);

/// How many keys are looked at, how many leases, and how many are named.
const KEYS: usize = 10_000;
const LEASES: usize = 500;
const NAMED: usize = 5;

/// A lease that ends later than in an hour is told: so long is the largest TTL that the client grants by default.
const LONGEST: Duration = Duration::from_secs(3600 + 1);

/// Where so many changes are kept, it is for too long, however many come in an hour.
const LONG_HISTORY: i64 = 1_000_000;

/// Of a history that is shorter nothing can be said yet; a longer one of which all is kept was never compacted.
const SHORT_HISTORY: i64 = 100_000;

/// How far a member may lag behind in what it has applied.
const LAG: u64 = 5000;

impl Core {
    pub(super) async fn diagnose(&self) -> Result<Vec<Finding>> {
        let asked = self
            .members
            .addresses()
            .enumerate()
            .map(|(at, address)| async move { (address.to_string(), self.members.status(at, PATIENCE).await) });
        let asked = join_all(asked).await;
        if asked.iter().all(|(_, status)| status.is_err()) {
            let fault = asked.into_iter().find_map(|(_, status)| status.err());
            return Err(self.told(fault.unwrap_or_else(|| Fault::strange("there is no member")).surely()));
        }
        let mut findings = vec![Finding::fine("cluster", self.options.shown.clone())];
        findings.extend(members(&asked));
        let ((alarms, listed), (rights, trips)) =
            join(join(self.alarms(), self.listed()), join(self.rights(), self.trips())).await;
        findings.extend(alarms);
        findings.extend(self.history().await);
        findings.extend(listed);
        findings.push(clock());
        findings.extend(rights);
        findings.extend(trips);
        findings.extend(self.keys().await);
        Ok(findings)
    }

    async fn alarms(&self) -> Vec<Finding> {
        let Ok(alarms) = self.members.alarms().await else { return Vec::new() };
        let told = alarms.alarms.iter().map(|alarm| match alarm.alarm() {
            AlarmType::Nospace => Finding::problem(
                "alarms",
                format!("NOSPACE at the member {:x}: the cluster takes no writes, and no lock is granted", alarm.member_id),
                "compact and defragment (etcdctl compact, defrag), or raise --quota-backend-bytes; then etcdctl alarm disarm",
            ),
            _ => Finding::problem(
                "alarms",
                format!("CORRUPT at the member {:x}: members differ in what they hold", alarm.member_id),
                "find the member that is wrong, remove it and add it anew",
            ),
        });
        let told: Vec<_> = told.collect();
        if told.is_empty() { vec![Finding::fine("alarms", "none")] } else { told }
    }

    /// Whether what was deleted is forgotten some day. The keys of all who have held a lock stand below its prefix until then.
    async fn history(&self) -> Option<Finding> {
        let (key, _) = self.options.keys.all();
        let looking = RangeRequest { key, count_only: true, ..RangeRequest::default() };
        let now = self.members.range(Limit::LONGEST, &looking).await.ok()?.header?.revision;
        if now < SHORT_HISTORY {
            return Some(history(now, true, true));
        }
        let is_much_kept = self.is_kept(&looking, now - SHORT_HISTORY).await?;
        let is_all_kept = self.is_kept(&looking, (now - LONG_HISTORY).max(1)).await?;
        Some(history(now, is_much_kept, is_all_kept))
    }

    /// Whether what was then is not compacted away; none if it can't be said now.
    async fn is_kept(&self, looking: &RangeRequest, then: i64) -> Option<bool> {
        let looking = RangeRequest { revision: then.max(1), ..looking.clone() };
        match self.members.range(Limit::LONGEST, &looking).await {
            Ok(_) => Some(true),
            Err(fault) if fault.is_of_the_past() => Some(false),
            Err(_) => None,
        }
    }

    /// Who belongs to the cluster, and whom the URL names of them.
    async fn listed(&self) -> Vec<Finding> {
        let Ok(listed) = self.members.member_list().await else { return Vec::new() };
        let voters = listed.members.iter().filter(|member| !member.is_learner).count();
        let named = self.members.addresses().count();
        let mut findings = vec![match voters {
            1 => Finding::warning(
                "quorum",
                "one member: while it is down nothing is granted or renewed, and what is held is lost",
                "three members carry on without one of them",
            ),
            2 => Finding::warning(
                "quorum",
                "two members: both are needed, so there is more that can fail than with one",
                "add a third member",
            ),
            _ => Finding::fine("quorum", format!("{voters} members, of which {} may be down", (voters - 1) / 2)),
        }];
        if named < voters {
            findings.push(Finding::warning(
                "members",
                format!("the URL names {named} of {voters}: while those are down the others are not found"),
                "name all of them: etcd://host1:2379,host2:2379,host3:2379",
            ));
        }
        findings
    }

    /// Whether we may do what locks need, and notes: the server checks what it would not do, too.
    async fn rights(&self) -> Vec<Finding> {
        let (from, _) = self.options.keys.all();
        let are_of_etcdctl = self.options.keys.are_of_etcdctl();
        let probe = if are_of_etcdctl { b"!leasehold-ticks/".to_vec() } else { from };
        let (ticks, notes) = (self.options.keys.ticks_of_all(), self.options.keys.notes_of_all());
        let needed = [(probe, "locks"), (ticks, "locks"), (notes, "schedules")];
        let try_out = |(key, what): (Vec<u8>, &'static str)| async move {
            let may_read = self.members.read(Limit::LONGEST, Txn::default().look([one(&key)])).await;
            let writing = Txn::default().if_never(&key).put(&key, Vec::new(), 0);
            (key, what, may_read, self.members.read(Limit::LONGEST, writing).await)
        };
        let tried = join_all(needed.into_iter().take(if are_of_etcdctl { 2 } else { 3 }).map(try_out)).await;
        let mut findings = Vec::new();
        for (key, what, may_read, may_write) in tried {
            let denied = |fault: &Fault| fault.kind == ErrorKind::AccessDenied;
            let shown = String::from_utf8_lossy(&key).into_owned();
            for (word, denied) in [
                ("read", may_read.err().is_some_and(|fault| denied(&fault))),
                ("write", may_write.err().is_some_and(|fault| denied(&fault))),
            ] {
                if denied {
                    let fix = format!("etcdctl role grant-permission ROLE --prefix readwrite '{shown}'");
                    let cost = if what == "schedules" { ": without, they run nothing" } else { "" };
                    let message = format!("this user may not {word} {shown}…, as {what} need it{cost}");
                    findings.push(Finding::problem("rights", message, fix));
                }
            }
        }
        if findings.is_empty() {
            findings.push(Finding::fine("rights", "all that locks and schedules need"));
        }
        findings
    }

    async fn trips(&self) -> Option<Finding> {
        let (from, _) = self.options.keys.all();
        let mut trips = Vec::new();
        for _ in 0..TRIPS {
            let began = Instant::now();
            self.members.read(Limit::LONGEST, Txn::default().look([one(&from)])).await.ok()?;
            trips.push(began.elapsed());
        }
        Some(latency(trips))
    }

    /// What stands among the locks' keys that should not.
    async fn keys(&self) -> Vec<Finding> {
        let Ok((mut keys, whole)) = self.all_keys(KEYS).await else { return Vec::new() };
        let leases: BTreeSet<_> = keys.iter().map(|key| key.lease).filter(|lease| *lease != 0).take(LEASES).collect();
        let asked =
            join_all(leases.into_iter().map(|lease| async move { (lease, self.members.rest_of(lease).await) })).await;
        let rests: BTreeMap<_, _> =
            asked.into_iter().filter_map(|(lease, rest)| Some((lease, rest.ok()?.map(|rest| rest.left)))).collect();
        let ended: BTreeSet<_> = rests.iter().filter(|(_, rest)| rest.is_none()).map(|(lease, _)| *lease).collect();
        if !ended.is_empty() {
            // Leases end all the time; it is those that are not cleared away that matter.
            tokio::time::sleep(CLEARED_BY).await;
            let Ok((still, _)) = self.all_keys(KEYS).await else { return Vec::new() };
            let still: BTreeSet<_> = still.iter().map(|key| (&key.key, key.lease)).collect();
            keys.retain(|key| !ended.contains(&key.lease) || still.contains(&(&key.key, key.lease)));
        }
        let looked_at = keys.len();
        let of_etcdctl = self.options.keys.are_of_etcdctl();
        let ill = keys.iter().filter_map(|key| {
            let of_a_lock = self.options.keys.read(&key.key).is_some();
            // Without a namespace of our own, what is no lock's is somebody else's business.
            if of_etcdctl && (!of_a_lock || key.lease == 0) {
                return None;
            }
            Some((Ailment::of(key, of_a_lock, of_etcdctl, rests.get(&key.lease).copied())?, key))
        });
        let ill: Vec<_> = ill.map(|(ailment, key)| (ailment, String::from_utf8_lossy(&key.key).into_owned())).collect();
        Ailment::told(&ill, looked_at, whole)
    }
}

/// What each member says of itself.
fn members(asked: &[(String, std::result::Result<StatusResponse, Fault>)]) -> Vec<Finding> {
    let up: Vec<_> = asked.iter().filter_map(|(name, status)| Some((name, status.as_ref().ok()?))).collect();
    let mut findings = Vec::new();
    for (name, status) in asked {
        if let Err(fault) = status {
            findings.push(Finding::problem(
                "members",
                told(fault.clone().surely(), name).to_string(),
                "see to it that it runs",
            ));
        }
    }
    let ids: BTreeSet<_> = up.iter().filter_map(|(_, status)| Some(status.header?.cluster_id)).collect();
    if ids.len() > 1 {
        let message = "the members are of different clusters: a lock in one of them is nothing to the others";
        findings.push(Finding::problem("members", message, "name the members of one cluster"));
    }
    let applied = up.iter().map(|(_, status)| status.raft_applied_index).max().unwrap_or_default();
    for (name, status) in &up {
        if status.leader == 0 {
            findings.push(Finding::problem(
                "leader",
                format!("{name} knows none"),
                "start its fellows; most are needed",
            ));
        }
        if applied - status.raft_applied_index.min(applied) > LAG {
            let message = format!("{name} is {} entries behind", applied - status.raft_applied_index);
            findings.push(Finding::warning("members", message, "see to its disk and its network"));
        }
        if status.is_learner {
            findings.push(Finding::warning(
                "members",
                format!("{name} is a learner and answers nothing"),
                "leave it out",
            ));
        }
    }
    let leaders: BTreeSet<_> = up.iter().map(|(_, status)| status.leader).filter(|leader| *leader != 0).collect();
    if leaders.len() == 1 && !findings.iter().any(|finding| finding.subject == "leader") {
        let leads =
            up.iter().find(|(_, status)| status.header.is_some_and(|header| leaders.contains(&header.member_id)));
        let who = leads.map_or_else(|| "one that the URL does not name".to_owned(), |(name, _)| (*name).clone());
        findings.push(Finding::fine("leader", who));
    }
    findings.extend(versions(&up.iter().map(|(_, status)| status.version.as_str()).collect()));
    findings
}

fn versions(versions: &BTreeSet<&str>) -> Option<Finding> {
    let shown = versions.iter().copied().collect::<Vec<_>>().join(", ");
    let number = |version: &str| {
        let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
        Some((parts.next()?, parts.next()?))
    };
    let oldest = versions.iter().filter_map(|version| number(version)).min()?;
    Some(if oldest < (3, 4) {
        let message = format!("etcd {shown}: older than 3.4, which this was made for");
        Finding::warning("version", message, "use a newer one")
    } else if versions.len() > 1 {
        Finding::warning("version", format!("members differ: etcd {shown}"), "finish the upgrade")
    } else {
        Finding::fine("version", format!("etcd {shown}"))
    })
}

/// There is none that we could ask.
fn clock() -> Finding {
    Finding::fine(
        "clock",
        "etcd tells nobody its clock: leases go by the cluster's, ticks by that of whoever claims them, so have all nodes' set \
         by NTP",
    )
}

fn latency(mut trips: Vec<Duration>) -> Finding {
    trips.sort_unstable();
    let (Some(&median), Some(&worst)) = (trips.get(trips.len() / 2), trips.last()) else {
        return Finding::fine("latency", "not measured");
    };
    let message = format!("{median:.1?} for a read that a majority confirms, {worst:.1?} at worst of {}", trips.len());
    if median > SLOW || worst > TOO_SLOW {
        let fix =
            "give locks a TTL of many round trips (the smallest is 2 s), or see to the members' disks and network";
        return Finding::warning("latency", message, fix);
    }
    Finding::fine("latency", message)
}

/// By when the cluster has cleared away what hung on a lease that has ended.
const CLEARED_BY: Duration = Duration::from_secs(2);

/// What may be wrong with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ailment {
    NoLease,
    DeadLease,
    TooLong,
    Foreign,
    Stray,
}

impl Ailment {
    const ALL: [Self; 5] = [Self::NoLease, Self::DeadLease, Self::TooLong, Self::Foreign, Self::Stray];

    /// `left` is what is left of its lease; none of it if that is no more, and none at all if nobody knows.
    fn of(key: &KeyValue, of_a_lock: bool, others_are_welcome: bool, left: Option<Option<Duration>>) -> Option<Self> {
        if !of_a_lock {
            return Some(Self::Stray);
        }
        if key.lease == 0 {
            return Some(Self::NoLease);
        }
        match left {
            Some(None) => return Some(Self::DeadLease),
            Some(Some(left)) if left > LONGEST => return Some(Self::TooLong),
            _ => {}
        }
        (Value::read(&key.value).is_none() && !others_are_welcome).then_some(Self::Foreign)
    }

    fn words(self) -> (Severity, &'static str, &'static str) {
        match self {
            Self::NoLease => (
                Severity::Problem,
                "without a lease, in a lock's place: nobody is ever granted the lock",
                "etcdctl del IT",
            ),
            Self::DeadLease => (
                Severity::Problem,
                "on a lease that has ended, and which the cluster does not clear away",
                "if it stays, have another member lead (etcdctl move-leader), or etcdctl del IT",
            ),
            Self::TooLong => (
                Severity::Warning,
                "on a lease that lasts longer than any TTL",
                "if its holder is dead: leasehold release NAME --force --now, or etcdctl del IT",
            ),
            Self::Foreign => (
                Severity::Warning,
                "of another program, which locks the same name",
                "nothing, if that is meant; else use another namespace",
            ),
            Self::Stray => {
                (Severity::Warning, "in our namespace, and no keys of ours", "use another namespace, or etcdctl del IT")
            }
        }
    }

    fn told(ill: &[(Self, String)], looked_at: usize, whole: bool) -> Vec<Finding> {
        let of = |what: Self| {
            let shown: Vec<_> =
                ill.iter().filter(|(ailment, _)| *ailment == what).map(|(_, key)| key.as_str()).collect();
            let (severity, means, fix) = what.words();
            let first = *shown.first()?;
            let more = if shown.len() > NAMED { format!(" and {} more", shown.len() - NAMED) } else { String::new() };
            let named = shown.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            let fix = Some(fix.replace("IT", &format!("'{first}'")));
            Some(Finding { severity, subject: "keys", message: format!("{named}{more}: {means}"), fix })
        };
        let mut findings: Vec<_> = Self::ALL.into_iter().filter_map(of).collect();
        let stopped = if whole { "" } else { "; there are more, which were not looked at" };
        if findings.is_empty() || !whole {
            findings.push(Finding::fine("keys", format!("{looked_at} looked at{stopped}")));
        }
        findings
    }
}

/// At a revision; whether what was long before that, or the first of all, is still kept.
/// One compaction by hand long ago is no habit: that it is compacted now and then shows in what came last.
fn history(now: i64, is_much_kept: bool, is_all_kept: bool) -> Finding {
    if now < SHORT_HISTORY {
        let message = format!("{now} changes so far: too few to tell whether it is compacted now and then");
        return Finding::fine("history", message);
    }
    if !is_much_kept || (!is_all_kept && now >= LONG_HISTORY) {
        return Finding::fine("history", "it is compacted now and then");
    }
    if !is_all_kept {
        let message = format!(
            "the last {SHORT_HISTORY} of {now} changes are kept, the first are not: too few to tell whether it is compacted now and then"
        );
        return Finding::fine("history", message);
    }
    let message = format!(
        "the last {} changes are all kept, those of deleted keys too: each claim of a lock passes by the keys of all who have held \
         it, and takes longer with each of them; and the disk fills up",
        now.min(LONG_HISTORY)
    );
    Finding::warning(
        "history",
        message,
        "start etcd with --auto-compaction-retention=1h, or run etcdctl compact now and then (where it is set, and more than 278 changes \
         come each second: to less)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_that_nobody_compacts_is_told() {
        for now in [SHORT_HISTORY, LONG_HISTORY * 2] {
            assert_eq!(history(now, true, true).severity, Severity::Warning);
        }
        assert_eq!(history(LONG_HISTORY * 2, false, false).severity, Severity::Fine);
    }

    #[test]
    fn one_compaction_long_ago_is_not_taken_for_a_habit() {
        let told = |now, is_much_kept, is_all_kept| history(now, is_much_kept, is_all_kept).message;
        for (now, is_much_kept) in [(SHORT_HISTORY, false), (LONG_HISTORY, true)] {
            assert_eq!(told(now, is_much_kept, false), "it is compacted now and then");
        }
        for now in [80_500, SHORT_HISTORY - 1, SHORT_HISTORY, LONG_HISTORY - 1] {
            assert!(told(now, true, false).contains("too few to tell"), "{now}");
        }
    }

    #[test]
    fn each_way_to_be_ill_is_seen() {
        let ours = b"leasehold/1 held 1 0 x".to_vec();
        let key = |lease, value: &[u8]| KeyValue { lease, value: value.to_vec(), ..KeyValue::default() };
        let minute = Some(Some(Duration::from_secs(60)));
        assert_eq!(Ailment::of(&key(1, &ours), true, false, minute), None);
        assert_eq!(Ailment::of(&key(1, &ours), true, false, None), None, "nobody knows");
        assert_eq!(Ailment::of(&key(0, &ours), true, false, None), Some(Ailment::NoLease));
        assert_eq!(Ailment::of(&key(1, &ours), true, false, Some(None)), Some(Ailment::DeadLease));
        assert_eq!(Ailment::of(&key(1, &ours), true, false, Some(Some(LONGEST * 2))), Some(Ailment::TooLong));
        assert_eq!(Ailment::of(&key(1, b""), true, false, minute), Some(Ailment::Foreign));
        assert_eq!(Ailment::of(&key(1, b""), true, true, minute), None, "they are welcome");
        assert_eq!(Ailment::of(&key(0, b""), false, false, None), Some(Ailment::Stray));
    }

    #[test]
    fn versions_are_told_if_they_are_old_or_differ() {
        let told = |all: &[&str]| versions(&all.iter().copied().collect()).map(|finding| finding.severity);
        assert_eq!(told(&["3.4.23"]), Some(Severity::Fine));
        assert_eq!(told(&["3.10.0"]), Some(Severity::Fine));
        assert_eq!(told(&["3.4.23", "3.5.1"]), Some(Severity::Warning));
        assert_eq!(told(&["3.3.9"]), Some(Severity::Warning));
        assert_eq!(told(&["?"]), None);
    }

    #[test]
    fn slow_round_trips_are_told_also_if_few_are() {
        let trips = |slow, span| {
            let trips = (0..9).map(|nth| Duration::from_millis(if nth < slow { span } else { 1 }));
            latency(trips.collect()).severity
        };
        assert_eq!(
            [trips(0, 0), trips(5, 60), trips(1, 60), trips(1, 300)].map(|told| told == Severity::Warning),
            [false, true, false, true]
        );
    }
}
