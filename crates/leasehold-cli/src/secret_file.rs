//! Files that hold a secret: a password, or a token.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What is wrong with a file that users other than its owner and group may read or write, and the fix.
///
/// It is told and not refused: where a container is given its secrets, mode 644 is usual, and nobody else is there. That a group may read
/// it is how a service is given one.
#[derive(Debug, PartialEq, Eq)]
pub struct Open {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl Open {
    /// None if nobody else may; also of a file that can't be looked at, which whoever reads it is told.
    pub fn of(path: &Path) -> Option<Self> {
        let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
        let path = path.display();
        (mode & 0o006 != 0).then(|| Self {
            what: format!("every user of this machine can get at {path} (mode {mode:03o})"),
            fix: format!("chmod 600 {path}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[test]
    fn a_secret_that_everybody_may_read_is_told_with_the_fix() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let with_mode = |mode| {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            Open::of(file.path())
        };
        for mode in [0o644, 0o604, 0o602, 0o666] {
            let open = with_mode(mode).unwrap_or_else(|| panic!("{mode:o} is taken"));
            assert!(open.what.contains(&format!("(mode {mode:o})")), "{open:?}");
            assert_eq!(open.fix, format!("chmod 600 {}", file.path().display()));
        }
        for mode in [0o600, 0o400, 0o440, 0o640, 0o660] {
            assert_eq!(with_mode(mode), None, "{mode:o}");
        }
        assert_eq!(Open::of(Path::new("/no/such/file")), None);
    }
}
