//! A store and memory are asked the same at random, and answer the same.

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::{Carried, Epoch, Force, Incarnation, Route, Switch, Target, TickClaim, TickOf};
use leasehold::stores::Memory;
use leasehold::{
    Attempt, Claim, Due, Ended, HolderId, LeaseKey, NotDue, Result, Revoke, Standing, Store, Tick, Verdict,
};
use leasehold_testkit::Random;

use super::stories::{LONG, arbiter, claim, terms};

const STEPS: usize = 250;

/// One thing that is asked of both.
#[derive(Debug, Clone)]
enum Question {
    Claim(Claim, Route),
    PlainClaim(Claim),
    Renew(LeaseKey, Route),
    PlainRenew(LeaseKey),
    Carry(Carried, Route),
    Release(LeaseKey, Ended),
    Leave(LeaseKey),
    Revoke(LeaseKey, Revoke),
    Inspect(LeaseKey),
    Switch(Switch),
    Arm(Epoch, Duration),
    Tick(TickOf, Epoch),
    Standing(LeaseKey, Due, Option<HolderId>),
    Repair(Epoch),
    Read,
}

/// Who and what there is to ask for.
struct Cast {
    claims: Vec<Claim>,
    first_tick: i64,
    random: Random,
}

impl Cast {
    async fn of(store: &dyn Store, seed: u64) -> Self {
        let claims = (0..8).map(|nth| claim(if nth % 2 == 0 { "one" } else { "other" })).collect();
        let hour_ago = store.time().await.unwrap() - Duration::from_secs(3600);
        Self { claims, first_tick: hour_ago.as_millis() as i64, random: Random::new(seed) }
    }

    fn claim(&mut self) -> Claim {
        let nth = self.random.below(self.claims.len());
        self.claims[nth].clone()
    }

    fn key(&mut self) -> LeaseKey {
        let claim = self.claim();
        LeaseKey { name: claim.name, holder: claim.holder }
    }

    fn tick(&mut self) -> Tick {
        let nth = self.random.below(6) as i64;
        if nth == 0 { Tick::ONLY } else { Tick::from_unix_millis(self.first_tick + nth * 1000).unwrap() }
    }

    fn due(&mut self) -> Due {
        let (tick, retry_failed) = (self.tick(), self.random.one_in(2));
        Due { tick, retry_failed, keep: Duration::from_secs(86_400) }
    }

    /// Mostly the latest, else one near it.
    fn epoch(&mut self, latest: Epoch) -> Epoch {
        match self.random.below(8) {
            0 => latest.later(1),
            1 | 2 => Epoch::new(latest.number() - 1),
            _ => latest,
        }
    }

    fn route(&mut self, latest: Epoch) -> Route {
        Route { epoch: self.epoch(latest), target: Target::Arbiter }
    }

    fn ended(&mut self) -> Ended {
        let verdict = match self.random.below(4) {
            0 => Some(Verdict::Done(self.tick())),
            1 => Some(Verdict::Failed),
            2 => Some(Verdict::NotStarted),
            _ => None,
        };
        let keep_for = if self.random.one_in(6) { LONG } else { Duration::ZERO };
        Ended { keep_for, verdict }
    }

    fn question(&mut self, latest: Epoch) -> Question {
        match self.random.below(24) {
            0..=3 => Question::Claim(self.claim(), self.route(latest)),
            4 => {
                let due = self.random.one_in(2).then(|| self.due());
                Question::PlainClaim(Claim { due, ..self.claim() })
            }
            5 | 6 => Question::Renew(self.key(), self.route(latest)),
            7 => Question::PlainRenew(self.key()),
            8 | 9 => {
                let (claim, token) = (self.claim(), Epoch::FIRST.token(self.random.draw() >> 20).unwrap());
                let key = LeaseKey { name: claim.name, holder: claim.holder };
                Question::Carry(Carried { key, label: "test".into(), token, ttl: LONG }, self.route(latest))
            }
            10..=12 => Question::Release(self.key(), self.ended()),
            13 => Question::Leave(self.key()),
            14 => {
                let how = if self.random.one_in(3) { Revoke::Now } else { Revoke::Gently };
                Question::Revoke(self.key(), how)
            }
            15 => Question::Inspect(self.key()),
            16 | 17 => {
                let incarnation = Incarnation::new(format!("start {}", self.random.below(3) + 7));
                let to = if self.random.one_in(3) { Target::Primary(incarnation) } else { Target::Arbiter };
                let dwell = if self.random.one_in(4) { LONG } else { Duration::ZERO };
                Question::Switch(Switch { from: self.epoch(latest), to, dwell, patience: LONG })
            }
            18 => {
                let drain = if self.random.one_in(5) { LONG } else { Duration::ZERO };
                Question::Arm(self.epoch(latest), drain)
            }
            19..=21 => {
                let claim = TickOf { lease: self.key(), due: self.due(), again: self.random.one_in(2) };
                Question::Tick(claim, self.epoch(latest))
            }
            22 => {
                let alive = self.random.one_in(2).then(|| self.key().holder);
                Question::Standing(self.key(), self.due(), alive)
            }
            _ if self.random.one_in(6) => Question::Repair(self.epoch(latest)),
            _ => Question::Read,
        }
    }
}

/// What an answer says that doesn't depend on when it was given, nor on where counters began.
async fn answer(store: &Arc<dyn Store>, question: &Question) -> String {
    let arbiter = arbiter(store);
    match question {
        Question::Claim(claim, under) => match arbiter.claim(claim, under).await.unwrap() {
            Ok(attempt) => told(Ok(attempt)),
            Err(refusal) => format!("{refusal:?}"),
        },
        Question::PlainClaim(claim) => match store.try_acquire(claim).await {
            // It asks for no tick, and hears of none.
            Ok(Attempt::Granted(_)) if claim.due.is_none() => "granted".to_owned(),
            answer => told(answer),
        },
        Question::Renew(key, under) => {
            format!("{:?}", arbiter.renew_under(&[(key.clone(), LONG)], under).await.remove(0).unwrap())
        }
        Question::PlainRenew(key) => format!("{:?}", store.renew(&[(key.clone(), LONG)]).await.remove(0).unwrap()),
        Question::Carry(lease, to) => format!("{:?}", arbiter.carry(lease, to).await.unwrap()),
        Question::Release(key, how) => format!("{:?}", store.release(key, *how).await.unwrap()),
        Question::Leave(key) => format!("{:?}", store.leave(key).await.unwrap()),
        Question::Revoke(key, how) => {
            let hit = store.revoke(&key.name, Some(key.holder), *how).await.unwrap();
            format!("{:?}", hit.map(|hit| (hit.holder, hit.revoked)))
        }
        Question::Inspect(key) => {
            let held = store.inspect(&key.name).await.unwrap();
            format!("{:?}", held.map(|held| (held.holder, held.revoked, held.label)))
        }
        Question::Switch(switch) => format!("{}", arbiter.switch(switch).await.unwrap()),
        Question::Arm(epoch, drain) => format!("{:?}", arbiter.arm(*epoch, *drain).await.unwrap()),
        Question::Tick(claim, epoch) => match arbiter.claim_tick(claim, *epoch).await.unwrap() {
            // Memory tells of the first one that is open for this holder; there is one in truth.
            Ok(TickClaim::Claimed { .. }) if claim.again => "claimed".to_owned(),
            answer => untimed(&format!("{answer:?}")),
        },
        Question::Standing(key, due, alive) => match arbiter.standing(&key.name, *due, *alive).await.unwrap() {
            Standing::Over(NotDue::Claimed { newest, unfinished }) => {
                untimed(&format!("over {} {unfinished}", newest.as_unix_millis()))
            }
            standing => format!("{standing:?}"),
        },
        Question::Repair(seen) => format!("{}", arbiter.repair(*seen, &terms()).await.unwrap()),
        Question::Read => {
            let reading = arbiter.route().await.unwrap().unwrap();
            let force = match reading.force {
                Force::Unarmed => "unarmed",
                Force::In(_) => "coming",
                Force::Since(_) => "in force",
            };
            format!("{:?} {force} {:?}", reading.route, reading.patience)
        }
    }
}

fn told(attempt: Result<Attempt>) -> String {
    match attempt.unwrap() {
        Attempt::Granted(grant) => format!("granted, {} {:?}", grant.attempt, grant.gave_up),
        Attempt::Held(held) => format!("held by {:?}, revoked {}", held.holder, held.revoked),
        Attempt::NotDue(why) => format!("{why:?}"),
    }
}

/// A floor is where the clock of the repair was.
fn untimed(answer: &str) -> String {
    let is_time = |word: &&str| word.len() < 12 || !word.bytes().all(|byte| byte.is_ascii_digit());
    answer.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_time).collect::<Vec<_>>().join(" ")
}

/// Asks both, of a namespace that nobody has used.
pub async fn answers_as_memory_does(store: &Arc<dyn Store>, seed: u64) {
    let memory = Arc::new(Memory::default()) as Arc<dyn Store>;
    let mut cast = Cast::of(&**store, seed).await;
    let first = Route { epoch: Epoch::new(10), target: Target::Arbiter };
    for twin in [store, &memory] {
        arbiter(twin).found(&first, &terms()).await.unwrap();
        arbiter(twin).arm(first.epoch, Duration::ZERO).await.unwrap();
    }
    let mut asked = Vec::new();
    for step in 0..STEPS {
        let latest = arbiter(&memory).route().await.unwrap().unwrap().route.epoch;
        let question = cast.question(latest);
        let answers = [answer(store, &question).await, answer(&memory, &question).await];
        asked.push(format!("{question:?} -> {}", answers[1]));
        let before = asked[asked.len().saturating_sub(25)..].join("\n");
        assert_eq!(
            answers[0], answers[1],
            "seed {seed}, step {step}: a store that differs from memory, after\n{before}"
        );
    }
}
