//! Who held the one lock when, and that it was one at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::measure::{Said, quantile};

pub struct Board {
    left: AtomicUsize,
    inside: AtomicBool,
    violations: AtomicU64,
    /// From, to (µs) and who.
    log: Mutex<Vec<(f64, f64, usize)>>,
    pub began: Instant,
}

impl Board {
    pub fn new(sections: usize) -> Self {
        Self {
            left: AtomicUsize::new(sections),
            inside: AtomicBool::new(false),
            violations: AtomicU64::new(0),
            log: Mutex::default(),
            began: Instant::now(),
        }
    }

    /// Whether there is a section left; takes it.
    pub fn take(&self) -> bool {
        self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    pub fn enter(&self) -> f64 {
        if self.inside.swap(true, SeqCst) {
            self.violations.fetch_add(1, SeqCst);
        }
        self.now()
    }

    /// To be called just before the release.
    pub fn leave(&self, entered: f64, who: usize) {
        self.inside.store(false, SeqCst);
        self.log.lock().expect("nobody panicked").push((entered, self.now(), who));
    }

    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1e6
    }

    pub fn report(&self, lib: &str, workers: usize, total: Duration, cpu: f64, said: Said) {
        let mut log = self.log.lock().expect("nobody panicked").clone();
        log.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut shares = vec![0_u32; workers];
        log.iter().for_each(|(_, _, who)| shares[*who] += 1);
        let gap = |two: &[(f64, f64, usize)]| (two[1].0 - two[0].1).max(0.0);
        let mut all: Vec<f64> = log.windows(2).map(gap).collect();
        let mut cross: Vec<f64> = log.windows(2).filter(|two| two[0].2 != two[1].2).map(gap).collect();
        println!(
            r#"{{"case":"{lib}","workers":{workers},"n":{},"total_s":{:.3},"held_s":{:.3},"handover_p50_us":{:.1},"handover_p99_us":{:.1},"cross_p50_us":{:.1},"cross_p99_us":{:.1},"min":{},"max":{},"same_worker":{},"violations":{},"cpu_s":{cpu:.3},"wire_per_section":{:.2},"cmds":"{}"}}"#,
            log.len(),
            total.as_secs_f64(),
            log.iter().map(|(from, to, _)| to - from).sum::<f64>() / 1e6,
            quantile(&mut all, 0.5),
            quantile(&mut all, 0.99),
            quantile(&mut cross, 0.5),
            quantile(&mut cross, 0.99),
            shares.iter().min().expect("some"),
            shares.iter().max().expect("some"),
            all.len() - cross.len(),
            self.violations.load(SeqCst),
            said.reads / log.len() as f64,
            said.commands(log.len() as f64),
        );
    }
}
