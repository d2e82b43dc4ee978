//! What a simulation needs of the library: to be the same each time, and to break a rule. For tests; a program has no use
//! for it.

use std::cell::RefCell;

pub use crate::rule::{Rule, break_rule};

type Numbers = Box<dyn FnMut() -> u64>;

thread_local! {
    static NUMBERS: RefCell<Option<Numbers>> = const { RefCell::new(None) };
}

/// From here on all chance on this thread comes from `numbers`: identities of holders as well as jitter. Never in
/// earnest: two processes with the same numbers would take each other for themselves.
pub fn draw_from(numbers: impl FnMut() -> u64 + 'static) {
    NUMBERS.set(Some(Box::new(numbers)));
}

/// From here on it comes from the operating system again.
pub fn draw_from_the_system() {
    NUMBERS.set(None);
}

pub(crate) fn drawn() -> Option<[u64; 2]> {
    NUMBERS.with_borrow_mut(|numbers| numbers.as_mut().map(|draw| [draw(), draw()]))
}
