//! The 52 vectors that say what a schedule means, daylight saving included.

mod common;

use common::{at, texts};
use leasehold_schedule::Schedule;
use serde::Deserialize;

#[derive(Deserialize)]
struct Vector {
    id: String,
    expr: String,
    tz: String,
    from: String,
    next: Vec<String>,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

#[test]
fn every_vector_holds() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 52);
    for Vector { id, expr, tz, from, next } in vectors {
        let schedule = Schedule::parse(&expr, Some(&tz)).unwrap();
        let found: Vec<_> = schedule.ticks_after(at(&from)).take(next.len()).collect();
        assert_eq!(texts(&found), next, "{id}");
    }
}

#[test]
fn every_vector_holds_backwards_and_from_each_of_its_ticks() {
    for Vector { id, expr, tz, from, next } in vectors() {
        let schedule = Schedule::parse(&expr, Some(&tz)).unwrap();
        let second = jiff::SignedDuration::from_secs(1);
        for (place, tick) in next.iter().map(|tick| at(tick)).enumerate() {
            assert_eq!(schedule.latest_at(tick), Some(tick), "{id}");
            let before = schedule.latest_at(tick - second);
            if place > 0 {
                assert_eq!(before, Some(at(&next[place - 1])), "{id}");
            } else {
                assert!(before.is_none_or(|before| before <= at(&from)), "{id}");
            }
            let following = next.get(place + 1).map(|next| at(next));
            assert!(following.is_none() || schedule.next_after(tick) == following, "{id}");
        }
    }
}
