//! Every store and layer passes the conformance suite.

use std::sync::Arc;

use leasehold::Store;
use leasehold::layers::Timeout;
use leasehold::stores::Memory;
use leasehold_testkit::{PausedClock, conformance};

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::default())
}

fn paused_memory() -> Arc<dyn Store> {
    Arc::new(Memory::new(Arc::new(PausedClock::start())))
}

conformance!(memory_in_real_time, memory());
conformance!(memory_in_paused_time, paused, paused_memory());
conformance!(timeout_over_memory, paused, Arc::new(Timeout::over(paused_memory())) as Arc<dyn Store>);

#[cfg(feature = "traced")]
conformance!(traced_over_memory, paused, Arc::new(leasehold::layers::Traced::over(paused_memory())) as Arc<dyn Store>);
