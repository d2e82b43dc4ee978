//! The statements, as they are sent.

/// One for each operation.
pub(super) struct Statements {
    pub acquire: String,
    pub release: String,
    pub leave: String,
    pub renew: String,
    pub revoke: String,
    pub look: String,
    pub queue: String,
    pub carry: String,
    pub route: String,
    pub found: String,
    pub switch: String,
    pub arm: String,
    pub complain: String,
    pub repair: String,
    pub tick: String,
    pub stands: String,
    pub reset: String,
    pub note: String,
    pub notes: String,
    pub erase: String,
}

impl Statements {
    /// For tables in a schema, which is a quoted identifier: what the path of a role or a pooler's last client says must
    /// not choose them.
    pub fn of(schema: &str) -> Self {
        let call = |name, asked, answers| format!("call {schema}.leasehold_{name}({})", arguments(asked, answers));
        Self {
            acquire: call("v2_acquire", 14, 13),
            release: call("v2_release", 6, 1),
            leave: call("v2_leave", 3, 1),
            renew: call("v2_renew", 6, 1),
            revoke: call("v2_revoke", 4, 8),
            look: format!("select * from {schema}.leasehold_v2_look($1, $2)"),
            queue: format!(
                "select c.is_standby, w.holder, w.label, c.at - w.ticket \
                 from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as at, \
                     pg_is_in_recovery() as is_standby) c \
                 left join {schema}.leasehold_waiters w on w.ns = $1 and w.name = $2 \
                     and w.seen > c.at - 1000000 and w.seen <= c.at + 1000000 \
                 order by w.ticket, w.holder"
            ),
            carry: call("v2_carry", 7, 1),
            route: call("v2_route", 1, 9),
            found: call("v2_found", 7, 1),
            switch: call("v2_switch", 5, 1),
            arm: call("v2_arm", 3, 1),
            complain: call("v2_complain", 1, 1),
            repair: call("v2_repair", 6, 1),
            tick: call("v2_tick", 8, 3),
            stands: call("v2_stands", 6, 3),
            reset: call("v3_reset", 2, 1),
            note: call("v3_note", 7, 1),
            notes: format!("select * from {schema}.leasehold_v3_notes({})", arguments(7, 0)),
            erase: call("v3_erase", 4, 1),
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
