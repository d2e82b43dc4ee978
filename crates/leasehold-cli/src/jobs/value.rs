//! Values of a TOML file, read one by one: what is wrong with one doesn't keep the others from being looked at.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::args::duration;
use crate::config::Fault;

/// A value, and where it stands.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// A file that is being read, and what was found to be wrong with it so far.
pub struct Values<'a> {
    text: &'a str,
    faults: Vec<Fault>,
}

impl<'a> Values<'a> {
    /// Of this file.
    pub fn of(text: &'a str) -> Self {
        Self { text, faults: Vec::new() }
    }

    /// All that is wrong.
    pub fn faults(self) -> Vec<Fault> {
        self.faults
    }

    /// Something else that is wrong.
    pub fn wrong(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.faults.push(self.fault(at, message));
    }

    /// Something at this place, which may be wrong or not.
    pub fn fault(&self, at: Range<usize>, message: impl Into<String>) -> Fault {
        Fault::at(self.text, at.start, message)
    }

    /// A key that means nothing here.
    pub fn unknown(&mut self, key: &Spanned<DeString<'_>>, known: &str) {
        let name = key.get_ref();
        let message = format!("unknown key {name:?}; known here: {known}. Correct its spelling, or take it out");
        self.wrong(key.span(), message);
    }

    /// Text.
    pub fn text(&mut self, key: &str, value: &Value<'_>) -> Option<String> {
        match value.get_ref().as_str() {
            Some(text) if text.contains('\0') => {
                self.wrong(value.span(), format!("{key} has a NUL in it, which no program can be given; take it out"));
                None
            }
            Some(text) => Some(text.to_owned()),
            None => self.wrong_type(key, value, "text in quotes"),
        }
    }

    /// True or false.
    pub fn truth(&mut self, key: &str, value: &Value<'_>) -> Option<bool> {
        value.get_ref().as_bool().or_else(|| self.wrong_type(key, value, "true or false"))
    }

    /// A number within bounds.
    pub fn number(&mut self, key: &str, value: &Value<'_>, legal: RangeInclusive<u32>) -> Option<u32> {
        let Some(number) = value.get_ref().as_integer() else {
            return self.wrong_type(key, value, "a number without quotes");
        };
        let read = u32::from_str_radix(number.as_str(), number.radix()).ok().filter(|number| legal.contains(number));
        if read.is_none() {
            let (least, most) = (legal.start(), legal.end());
            self.wrong(value.span(), format!("{key}: {number} is out of bounds; give {least} to {most}"));
        }
        read
    }

    /// A duration within bounds.
    pub fn span(
        &mut self,
        key: &str,
        value: &Value<'_>,
        legal: RangeInclusive<Duration>,
        rule: &str,
    ) -> Option<Duration> {
        let text = self.text(key, value)?;
        match duration(&text) {
            Ok(span) if legal.contains(&span) => return Some(span),
            Ok(_) => self.wrong(value.span(), format!("{key}: {text} is out of bounds; give {rule}")),
            Err(why) => self.wrong(value.span(), format!("{key}: {why}")),
        }
        None
    }

    /// A table.
    pub fn table<'v>(&mut self, key: &str, value: &'v Value<'v>, wanted: &str) -> Option<&'v DeTable<'v>> {
        value.get_ref().as_table().or_else(|| self.wrong_type(key, value, wanted))
    }

    /// Says that a value is of another type. What it is is not shown: it may be a secret.
    pub fn wrong_type<T>(&mut self, key: &str, value: &Value<'_>, wanted: &str) -> Option<T> {
        let found = value.get_ref().type_str();
        self.wrong(value.span(), format!("{key} is of the type {found}, but has to be {wanted}"));
        None
    }
}
