//! Listening to the channel of one name, where nobody stands in a queue: what a quorum gives back is told there.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use super::Redis;
use super::bells::Bells;
use super::connection::Link;
use super::servers::Servers;
use crate::name::LockName;
use crate::store::WakeUps;

/// How long a channel is listened to when nobody waits any more: who has been woken may wait again.
const LINGERS: Duration = Duration::from_secs(1);

/// Somebody listens to a channel of this server until it is dropped.
struct Listening {
    bells: Arc<Bells>,
    link: Arc<Link>,
    channel: String,
}

impl Redis {
    /// A bell that rings when a lease of the name was concluded here. Whoever can't listen looks by itself.
    pub(super) async fn listen_for(&self, name: &LockName) -> WakeUps {
        let keys = self.keys(name);
        let (bell, place) = self.bells.hang(keys.lock());
        let Servers::One(link) = self.for_claims() else { return WakeUps::new(bell, place) };
        let channel = format!("{}{}", self.channels, keys.lock());
        let listening = Listening { bells: Arc::clone(&self.bells), link: Arc::clone(link), channel };
        self.bells.listens(&listening.channel);
        link.listen_to(&listening.channel).await;
        WakeUps::new(bell, (place, listening))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (bells, link) = (Arc::clone(&self.bells), Arc::clone(&self.link));
        let channel = std::mem::take(&mut self.channel);
        runtime.spawn(async move {
            sleep(LINGERS).await;
            if !bells.is_last_of(&channel) {
                return;
            }
            link.listen_no_more_to(&channel).await;
            // Somebody may have begun to wait while that was under way.
            if bells.channels().contains(&channel) {
                link.listen_to(&channel).await;
            }
        });
    }
}
