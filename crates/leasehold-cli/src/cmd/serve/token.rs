//! The token by which it is known who may act. Never on the command line, which others can see.

use std::fs;
use std::path::Path;

use leasehold_monitor::Monitor;

use crate::exit::{self, Failure};
use crate::output;
use crate::secret_file::Open;

const VARIABLE: &str = "LEASEHOLD_SERVE_TOKEN";

/// A token, and where it stands.
pub struct Token {
    text: String,
    place: String,
}

/// The token, if there is one: that of the file before that of the environment.
///
/// # Errors
/// 78 if the file can't be read, or holds nothing.
pub fn read(file: Option<&Path>) -> Result<Option<Token>, Failure> {
    let Some(path) = file else {
        let given = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
        return given.map(|text| in_variable(text.into_string().ok())).transpose();
    };
    in_file(path).map(Some)
}

fn in_file(path: &Path) -> Result<Token, Failure> {
    let place = format!("--token-file {}", path.display());
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(exit::CONFIG, format!("{place}: it can't be read ({error}); name a file that this user may read"))
    })?;
    if let Some(Open { what, fix }) = Open::of(path) {
        output::tell(&format!("--token-file: {what}, and whoever has the token may act; {fix}"));
    }
    Ok(Token { text: text.trim_end_matches(['\r', '\n']).to_owned(), place })
}

fn in_variable(text: Option<String>) -> Result<Token, Failure> {
    let not_text = || Failure::new(exit::CONFIG, format!("{VARIABLE} is not UTF-8; set it to text, or unset it"));
    Ok(Token { text: text.ok_or_else(not_text)?, place: VARIABLE.into() })
}

/// Reads the file once more, for it may hold another token by now, and tells what came of it. One that is none leaves the one before.
pub fn read_again(file: Option<&Path>, monitor: &Monitor) {
    let Some(path) = file else {
        return output::tell("SIGHUP: there is nothing to read again, as there is no --token-file");
    };
    let replaced =
        in_file(path).and_then(|token| monitor.replace_token(&token.text).map_err(|error| token.blamed(&error)));
    match replaced {
        Ok(()) => output::tell(&format!("SIGHUP: the token in {} counts now", path.display())),
        Err(failure) => output::tell(&format!("SIGHUP: {}; the token before still counts", failure.message)),
    }
}

impl Token {
    /// A monitor that takes it.
    ///
    /// # Errors
    /// 78 if it could be guessed, or can't stand in a header.
    pub fn given_to(&self, monitor: Monitor) -> Result<Monitor, Failure> {
        monitor.token(&self.text).map_err(|error| self.blamed(&error))
    }

    fn blamed(&self, error: &leasehold::Error) -> Failure {
        Failure::new(exit::CONFIG, format!("{}: {error}", self.place))
    }
}
