//! Whatever befalls those who claim ticks, every store gives the answers that the judge allows.

use std::sync::Arc;

use leasehold::stores::Memory;
use leasehold_testkit::PausedClock;
use leasehold_testkit::ticks::{Play, Played};

#[tokio::test(start_paused = true)]
async fn memory_stands_any_play() {
    let mut total = Played::default();
    for seed in 0..600 {
        let memory = Memory::new(Arc::new(PausedClock::start()));
        let play = Play { time_passes: true, ..Play::new(seed) };
        match play.over(|| Arc::new(memory.clone())).await {
            Ok(played) => {
                total.granted += played.granted;
                total.begun += played.begun;
                total.done += played.done;
                total.again += played.again;
            }
            Err(violation) => panic!("{violation}"),
        }
    }
    // Else it would prove nothing.
    assert!(total.begun < total.granted && total.done < total.begun && total.again > 600, "{total:?}");
    println!("{total:?}");
}

/// Claims sent twice whose second answer finds its acquisition over, which says that it never began although it did
/// (m03, n04): that is the one thing that a store must be able to believe.
#[tokio::test(start_paused = true)]
async fn a_lie_is_found() {
    let mut found = 0;
    for seed in 0..300 {
        let memory = Memory::new(Arc::new(PausedClock::start()));
        let play = Play { lies: true, ..Play::new(seed) };
        found += usize::from(play.over(|| Arc::new(memory.clone())).await.is_err());
    }
    assert!(found > 0, "the judge doesn't see it");
    println!("{found}");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn sqlite_stands_any_play() {
    for seed in 0..12 {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let url = format!("sqlite://{}/locks.db", directory.path().display());
        let play = Play::new(1000 + seed);
        let played = play.over(|| leasehold::stores::open(&url).expect("the file can be opened")).await;
        if let Err(violation) = played {
            panic!("{violation}");
        }
    }
}
