//! What a URL says of ShedLock.

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
    pub fn table(self, has_namespace: bool) -> Result<Option<String>, String> {
        match (self.compat.as_deref(), self.table) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err("has a table, which is for compat=shedlock; leave it out".into()),
            (Some(NAME), _) if has_namespace => {
                Err("has a namespace, which has no room beside compat: there the names are \
                                                     ShedLock's; leave one of them out"
                    .into())
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
        assert_eq!(given("", "").table(true), Ok(None));
        assert_eq!(given(NAME, "").table(false), Ok(Some(NAME.into())));
        assert_eq!(given(NAME, "Locks").table(false), Ok(Some("Locks".into())));
        for wrong in [given(NAME, "").table(true), given("", "x").table(false), given("quartz", "").table(false)] {
            wrong.unwrap_err();
        }
    }
}
