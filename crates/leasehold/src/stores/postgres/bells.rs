//! Who is to be woken for which name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::lease::{FencingToken, Grant, HandOver, HolderId};
use crate::name::LockName;
use crate::store::Bell;
use crate::validity::Moment;

/// The bells of those who wait here, by name. The server is told one channel, whatever their number.
#[derive(Debug, Default)]
pub(super) struct Bells {
    by_name: Mutex<HashMap<String, Vec<Weak<Bell>>>>,
}

/// A bell's place. Dropping it takes the bell away.
pub(super) struct Hung {
    bells: Arc<Bells>,
    name: LockName,
    bell: Weak<Bell>,
}

impl Bells {
    fn by_name(&self) -> MutexGuard<'_, HashMap<String, Vec<Weak<Bell>>>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bell that rings for this name until its place is dropped.
    pub fn hang(self: &Arc<Self>, name: &LockName) -> (Arc<Bell>, Hung) {
        let bell = Arc::default();
        let place = Hung { bells: Arc::clone(self), name: name.clone(), bell: Arc::downgrade(&bell) };
        self.by_name().entry(name.as_str().to_owned()).or_default().push(Arc::downgrade(&bell));
        (bell, place)
    }

    /// Nobody knows what was missed, so all look.
    pub fn ring_all(&self) {
        self.by_name().values().flatten().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
    }

    /// Of a lock that was handed over: `holder token sent name`; of one that may be free: `- - - name`.
    pub fn tell(&self, news: &str) -> Option<()> {
        let mut words = news.splitn(4, ' ');
        let (holder, token, sent, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let handed_over = HolderId::parse(holder).and_then(|holder| {
            let token = FencingToken::new(token.parse().ok()?);
            let grant = Grant::of(token);
            Some(HandOver { holder, sent: Moment::from_nanos(sent.parse().ok()?), grant })
        });
        for bell in self.by_name().get(name)?.iter().filter_map(Weak::upgrade) {
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
        let mut by_name = self.bells.by_name();
        if let Some(bells) = by_name.get_mut(self.name.as_str()) {
            bells.retain(|bell| !bell.ptr_eq(&self.bell));
            if bells.is_empty() {
                by_name.remove(self.name.as_str());
            }
        }
    }
}
