//! Names for jobs that have none: the same on every machine, and as long as the line's command is the same.

use super::command;

/// How much of the program's name is kept.
const LONGEST: usize = 40;

/// `# name: backup`
pub fn given(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('#')?.trim_start().strip_prefix("name:")?.trim();
    (!name.is_empty()).then_some(name)
}

/// The program's name and a number that follows from the whole command; for lines that run the same command, from the
/// schedule too.
pub fn derived(command: &str, schedule: Option<&str>) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let program: String = command::program(command).chars().filter(is_plain).take(LONGEST).collect();
    let program = if program.is_empty() { "job" } else { &program };
    let all = schedule.into_iter().flat_map(|schedule| schedule.bytes().chain([0])).chain(command.bytes());
    let hash = fnv_1a(all);
    format!("{program}-{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

/// It must never change: every job would begin anew, under another lock than on nodes that run an older version.
fn fnv_1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_change() {
        assert_eq!(fnv_1a(b"foobar".iter().copied()), 0x8594_4171_f739_67e8, "as published");
        assert_eq!(derived("/opt/backup --all", None), derived("/opt/backup --all", None));
        assert_eq!(derived("", None), "job-4fd0bfc1");
    }

    #[test]
    fn another_command_or_schedule_is_another_name() {
        let names = [
            derived("/opt/backup --all", None),
            derived("/opt/backup --some", None),
            derived("/opt/backup --all", Some("0 3 * * *")),
            derived("/opt/backup --all", Some("0 4 * * *")),
        ];
        assert!(names.iter().all(|name| name.starts_with("backup-") && name.len() == 15), "{names:?}");
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn a_name_is_given_in_a_comment() {
        assert_eq!(given("# name: nightly backup "), Some("nightly backup"));
        assert_eq!(given("#name:x"), Some("x"));
        for line in ["# a name: x", "# name:", "# Name: x", "name: x", "#"] {
            assert_eq!(given(line), None, "{line}");
        }
    }
}
