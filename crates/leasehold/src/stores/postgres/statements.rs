//! The statements, as they are sent.

/// One for each operation.
pub(super) struct Statements {
    pub acquire: String,
    pub release: String,
    pub leave: String,
    pub renew: String,
    pub revoke: String,
    pub look: String,
    pub carry: String,
    pub route: String,
    pub found: String,
    pub switch: String,
    pub arm: String,
    pub complain: String,
    pub repair: String,
    pub tick: String,
    pub stands: String,
}

impl Statements {
    /// For tables in a schema, which is a quoted identifier: what the path of a role or a pooler's last client says must
    /// not choose them.
    pub fn of(schema: &str) -> Self {
        let call = |name, asked, answers| format!("call {schema}.leasehold_v2_{name}({})", arguments(asked, answers));
        Self {
            acquire: call("acquire", 14, 13),
            release: call("release", 6, 1),
            leave: call("leave", 3, 1),
            renew: call("renew", 6, 1),
            revoke: call("revoke", 4, 8),
            look: format!("select * from {schema}.leasehold_v2_look($1, $2)"),
            carry: call("carry", 7, 1),
            route: call("route", 1, 9),
            found: call("found", 7, 1),
            switch: call("switch", 5, 1),
            arm: call("arm", 3, 1),
            complain: call("complain", 1, 1),
            repair: call("repair", 6, 1),
            tick: call("tick", 8, 3),
            stands: call("stands", 6, 3),
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
        assert_eq!(Statements::of("\"x\"").leave, "call \"x\".leasehold_v2_leave($1, $2, $3, null)");
    }
}
