//! The token by which it is known who may act.

use std::sync::{Arc, PoisonError, RwLock};

use leasehold::{Error, Result};

use crate::monitor::Monitor;

/// One that can be replaced while it is in use: clones take the same. None: nobody may act.
#[derive(Clone, Default)]
pub(crate) struct Token(Arc<RwLock<Option<Arc<str>>>>);

impl Token {
    /// This one.
    pub fn of(text: &str) -> Result<Self> {
        let token = Self::default();
        token.replace(text)?;
        Ok(token)
    }

    /// From now on this one; after an error still the one before.
    pub fn replace(&self, text: &str) -> Result<()> {
        check(text)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(text.into());
        Ok(())
    }

    /// The one that counts now.
    pub fn now(&self) -> Option<Arc<str>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn check(text: &str) -> Result<()> {
    if text.len() < Monitor::SHORTEST_TOKEN {
        return Err(Error::invalid(format!(
            "a token of {} characters could be guessed; take at least {}, as `openssl rand -hex 32` makes them",
            text.len(),
            Monitor::SHORTEST_TOKEN
        )));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::invalid(
            "the token has blanks, or characters that can't stand in a header; take letters and digits, as `openssl rand -hex 32` \
             makes them",
        ));
    }
    Ok(())
}
