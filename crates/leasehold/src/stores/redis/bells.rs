//! Who is to be woken for which name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use redis::{PushInfo, PushKind};

use super::answer;
use crate::lease::{FencingToken, Grant, HandOver, HolderId};
use crate::store::Bell;
use crate::validity::Moment;

/// The bells of those who wait here, by their lock's key. The server is told one channel, whatever their number; and where they
/// stand in no queue, one for each name.
#[derive(Debug, Default)]
pub(super) struct Bells {
    by_key: Mutex<HashMap<String, Vec<Weak<Bell>>>>,
    /// The channels of names, and how many listen to each.
    channels: Mutex<HashMap<String, usize>>,
}

/// A bell's place. Dropping it takes the bell away.
pub(super) struct Hung {
    bells: Arc<Bells>,
    key: String,
    bell: Weak<Bell>,
}

impl Bells {
    fn by_key(&self) -> MutexGuard<'_, HashMap<String, Vec<Weak<Bell>>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more listens to the channel of a name.
    pub fn listens(&self, channel: &str) {
        *self.counts().entry(channel.to_owned()).or_default() += 1;
    }

    /// One less does. Whether it was the last.
    pub fn is_last_of(&self, channel: &str) -> bool {
        let mut counts = self.counts();
        let Some(count) = counts.get_mut(channel) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            counts.remove(channel);
        }
        is_last
    }

    /// The channels of names that somebody listens to.
    pub fn channels(&self) -> Vec<String> {
        self.counts().keys().cloned().collect()
    }

    /// A bell that rings for this key until its place is dropped.
    pub fn hang(self: &Arc<Self>, key: &str) -> (Arc<Bell>, Hung) {
        let bell = Arc::default();
        let place = Hung { bells: Arc::clone(self), key: key.to_owned(), bell: Arc::downgrade(&bell) };
        self.by_key().entry(key.to_owned()).or_default().push(Arc::downgrade(&bell));
        (bell, place)
    }

    /// What the server said unasked. Once a link is cut nobody knows what was missed, so all look.
    pub fn hear(&self, said: &PushInfo) {
        match (&said.kind, said.data.get(1)) {
            (PushKind::Message, Some(message)) => answer::text(message).and_then(|news| self.tell(&news)).unwrap_or(()),
            (PushKind::Disconnection, _) => {
                self.by_key().values().flatten().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
            }
            _ => {}
        }
    }

    /// Of a lock that was handed over: `holder token sent key`; of one that may be free: `- - - key`.
    fn tell(&self, news: &str) -> Option<()> {
        let mut words = news.splitn(4, ' ');
        let (holder, token, sent, key) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let handed_over = HolderId::parse(holder).and_then(|holder| {
            let token = FencingToken::new(token.parse().ok()?);
            let grant = Grant::of(token);
            Some(HandOver { holder, sent: Moment::from_nanos(sent.parse().ok()?), grant })
        });
        for bell in self.by_key().get(key)?.iter().filter_map(Weak::upgrade) {
            match &handed_over {
                Some(to) => bell.hand_over(to.clone()),
                None => bell.ring(),
            }
        }
        Some(())
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        let mut by_key = self.bells.by_key();
        if let Some(bells) = by_key.get_mut(&self.key) {
            bells.retain(|bell| !bell.ptr_eq(&self.bell));
            if bells.is_empty() {
                by_key.remove(&self.key);
            }
        }
    }
}
