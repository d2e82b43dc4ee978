//! Who is to be woken for which name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

/// The bells of those who wait here, by their lock's key. The server is told one channel, whatever their number.
#[derive(Debug, Default)]
pub(super) struct Bells {
    by_key: Mutex<HashMap<String, Vec<Weak<Notify>>>>,
}

/// A bell's place. Dropping it takes the bell away.
pub(super) struct Hung {
    bells: Arc<Bells>,
    key: String,
    bell: Weak<Notify>,
}

impl Bells {
    fn by_key(&self) -> MutexGuard<'_, HashMap<String, Vec<Weak<Notify>>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bell that rings for this key until its place is dropped.
    pub fn hang(self: &Arc<Self>, key: &str) -> (Arc<Notify>, Hung) {
        let bell = Arc::default();
        let place = Hung { bells: Arc::clone(self), key: key.to_owned(), bell: Arc::downgrade(&bell) };
        self.by_key().entry(key.to_owned()).or_default().push(Arc::downgrade(&bell));
        (bell, place)
    }

    /// What the server said unasked. Once a link is cut nobody knows what was missed, so all look.
    pub fn hear(&self, said: &PushInfo) {
        match (&said.kind, said.data.get(1)) {
            (PushKind::Message, Some(Value::BulkString(key))) => self.ring(&String::from_utf8_lossy(key)),
            (PushKind::Message, Some(Value::SimpleString(key))) => self.ring(key),
            (PushKind::Disconnection, _) => self.by_key().values().for_each(|bells| ring(bells)),
            _ => {}
        }
    }

    fn ring(&self, key: &str) {
        if let Some(bells) = self.by_key().get(key) {
            ring(bells);
        }
    }
}

fn ring(bells: &[Weak<Notify>]) {
    bells.iter().filter_map(Weak::upgrade).for_each(|bell| bell.notify_one());
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
