//! The statements, as they are sent.

/// One for each operation.
pub(super) struct Statements {
    pub acquire: String,
    pub release: String,
    pub leave: String,
    pub renew: String,
    pub revoke: String,
    pub look: String,
}

impl Statements {
    /// For tables in a schema, which is a quoted identifier: what the path of a role or a pooler's last client says must
    /// not choose them.
    pub fn of(schema: &str) -> Self {
        let call = |name, asked, answers| format!("call {schema}.leasehold_v1_{name}({})", arguments(asked, answers));
        Self {
            acquire: call("acquire", 13, 13),
            release: call("release", 6, 1),
            leave: call("leave", 3, 1),
            renew: call("renew", 5, 1),
            revoke: call("revoke", 4, 8),
            look: format!("select * from {schema}.leasehold_v1_look($1, $2)"),
        }
    }
}

/// `$1, $2, null`: two that are given, and one that is answered.
fn arguments(asked: usize, answers: usize) -> String {
    let asked = (1..=asked).map(|nth| format!("${nth}"));
    let answers = std::iter::repeat_n("null".to_owned(), answers);
    asked.chain(answers).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_follow_what_is_asked() {
        assert_eq!(Statements::of("\"x\"").leave, "call \"x\".leasehold_v1_leave($1, $2, $3, null)");
    }
}
