//! How far the end of a scheduler has got.

use tokio::sync::watch;

/// How far the end of a scheduler has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// It goes on.
    No,
    /// It begins nothing new; what runs may end.
    Soon,
    /// What runs is told to end.
    Now,
}

impl Ending {
    /// Resolves when the end has got so far, also if the scheduler is gone.
    pub async fn reached(self, ending: &watch::Receiver<Self>) {
        let mut ending = ending.clone();
        let _ = ending.wait_for(|ending| *ending >= self).await;
    }
}
