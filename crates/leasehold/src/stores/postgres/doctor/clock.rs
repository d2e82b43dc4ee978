//! The server's clock, and how far away it is.

use std::time::Instant;

use super::Patient;
use crate::finding::Finding;
use crate::stores::sql::{self, clock};

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let (mut trips, mut shown) = (Vec::new(), 0);
    for _ in 0..clock::TRIPS {
        let began = Instant::now();
        let micros = patient.ask_for::<i64>("select (extract(epoch from clock_timestamp()) * 1000000)::bigint").await;
        let Some(micros) = micros else { return Vec::new() };
        trips.push(began.elapsed());
        shown = micros;
    }
    clock::findings(sql::span(shown), trips).into()
}
