//! What a URL says of ShedLock.

use crate::stores::sql::Mode;

/// ShedLock's own name for its table.
const NAME: &str = "shedlock";

/// The options of a URL that have to do with it, as they were given.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub compat: Option<String>,
    pub table: Option<String>,
}

impl Given {
    /// The name of its table as it was given, if that is where the locks are.
    pub fn table(self, has_namespace: bool, mode: Mode) -> Result<Option<String>, String> {
        match (self.compat.as_deref(), self.table) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err("has a table, which is for compat=shedlock; leave it out".into()),
            (Some(NAME), _) if has_namespace => {
                Err("has a namespace, which has no room beside compat: there the names are \
                                                     ShedLock's; leave one of them out"
                    .into())
            }
            (Some(NAME), _) if mode == Mode::Advisory => {
                Err("has mode=advisory and compat, which are two kinds of locks; leave one of them out".into())
            }
            (Some(NAME), table) => Ok(Some(table.unwrap_or_else(|| NAME.to_owned()))),
            (Some(other), _) => Err(format!("has compat={other:?}, which is not known; known is {NAME}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_shedlocks() {
        let given = |compat: &str, table: &str| {
            let [compat, table] = [compat, table].map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()));
            Given { compat, table }
        };
        assert_eq!(given("", "").table(true, Mode::Lease), Ok(None));
        assert_eq!(given(NAME, "").table(false, Mode::Lease), Ok(Some(NAME.into())));
        assert_eq!(given(NAME, "Locks").table(false, Mode::Lease), Ok(Some("Locks".into())));
        for wrong in [
            given(NAME, "").table(true, Mode::Lease),
            given("", "x").table(false, Mode::Lease),
            given("quartz", "").table(false, Mode::Lease),
            given(NAME, "").table(false, Mode::Advisory),
        ] {
            wrong.unwrap_err();
        }
    }
}
