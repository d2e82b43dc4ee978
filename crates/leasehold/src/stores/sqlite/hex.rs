//! Holders as they stand in the tables.

use std::io::Write;

use crate::lease::HolderId;

/// A holder's identity as it stands in the tables, without an allocation.
pub(super) struct Hex([u8; 32]);

impl Hex {
    pub fn of(holder: HolderId) -> Self {
        let mut digits = [0; 32];
        write!(&mut digits[..], "{holder}").expect("a holder has 32 digits");
        Self(digits)
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are ASCII")
    }
}
