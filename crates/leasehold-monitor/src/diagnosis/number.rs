//! Numbers of things, as people write them.

/// `1 hold`, `2 holds`.
pub(super) fn of(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// `was` of one, `were` of others.
pub(super) fn was(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}
