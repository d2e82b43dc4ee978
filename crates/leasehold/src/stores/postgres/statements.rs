//! The statements, as they are sent.

/// One for each operation. The last thing that each is given is the question's number, which stands in the last column of the
/// answer ([`Link::call`](super::link::Link::call)).
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
        let call = |name, given, answers| format!("call {schema}.leasehold_{name}({})", arguments(given, answers));
        Self {
            acquire: call("v4_acquire", 14, 13),
            release: call("v4_release", 6, 1),
            leave: call("v4_leave", 3, 1),
            renew: call("v4_renew", 6, 1),
            revoke: call("v4_revoke", 4, 8),
            look: format!(
                "select l.*, $3::bigint from (select 1) one left join {schema}.leasehold_v2_look($1, $2) l on true"
            ),
            queue: format!(
                "select c.is_standby, w.holder, w.label, c.at - w.ticket, $3::bigint \
                 from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as at, \
                     pg_is_in_recovery() as is_standby) c \
                 left join {schema}.leasehold_waiters w on w.ns = $1 and w.name = $2 \
                     and w.seen > c.at - 1000000 and w.seen <= c.at + 1000000 \
                 order by w.ticket, w.holder"
            ),
            carry: call("v4_carry", 7, 1),
            route: call("v4_route", 1, 9),
            found: call("v4_found", 7, 1),
            switch: call("v4_switch", 5, 1),
            arm: call("v4_arm", 3, 1),
            complain: call("v4_complain", 1, 1),
            repair: call("v4_repair", 6, 1),
            tick: call("v4_tick", 8, 3),
            stands: call("v4_stands", 6, 3),
            reset: call("v4_reset", 2, 1),
            note: call("v4_note", 7, 1),
            notes: format!(
                "select n.*, $8::bigint from (select 1) one \
                 left join {schema}.leasehold_v3_notes($1, $2, $3, $4, $5, $6, $7) n on true"
            ),
            erase: call("v4_erase", 4, 1),
        }
    }
}

/// `$1, $2, null, $3`: two that are given, one that is answered, and the question's number.
fn arguments(given: usize, answers: usize) -> String {
    let all = (1..=given).map(|nth| format!("${nth}"));
    let answers = std::iter::repeat_n("null".to_owned(), answers);
    all.chain(answers).chain([format!("${}", given + 1)]).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_follow_what_is_asked() {
        assert_eq!(Statements::of("\"x\"").leave, "call \"x\".leasehold_v4_leave($1, $2, $3, null, $4)");
    }
}
