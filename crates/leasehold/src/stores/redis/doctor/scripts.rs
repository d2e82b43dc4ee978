//! Whether the server takes the scripts.

use redis::RedisResult;

use super::patient::{Patient, is_denied};
use crate::finding::Finding;
use crate::stores::redis::fault::Fault;

const SUBJECT: &str = "scripts";

/// Loads one that any client loads; whether the server understands its first line.
pub(super) async fn load(patient: &Patient<'_>) -> Result<RedisResult<bool>, Fault> {
    for knows_flags in [true, false] {
        let answer = patient.ask(&[patient.scripts.inspect.load(knows_flags)]).await?.swap_remove(0);
        match answer {
            Ok(_) => return Ok(Ok(knows_flags)),
            Err(error) if !knows_flags || is_denied(&error) => return Ok(Err(error)),
            Err(_) => {}
        }
    }
    Ok(Ok(false))
}

/// What that comes to; of a user who may not, something else is said.
pub(super) fn finding(loaded: &RedisResult<bool>) -> Option<Finding> {
    match loaded {
        Ok(true) => Some(Finding::fine(SUBJECT, "can be loaded")),
        Ok(false) => Some(Finding::warning(
            SUBJECT,
            "can be loaded, but not with flags (Redis 7): a server that is full may refuse to renew and to release",
            "use Redis 7 or later",
        )),
        Err(error) if is_denied(error) => None,
        Err(error) => Some(Finding::problem(
            SUBJECT,
            format!("can't be loaded: {error}"),
            "use Redis or Valkey with scripts in Lua",
        )),
    }
}

/// Nothing else can be asked of the server.
pub(super) fn busy() -> Finding {
    Finding::problem(
        SUBJECT,
        "the server is busy with somebody's script and answers nothing else: leases run out meanwhile",
        "SCRIPT KILL, and mend who calls it; if it has written already, only its end or that of the server helps",
    )
}
