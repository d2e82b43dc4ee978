//! Names for jobs that have none: the same on every machine, and as long as the line's command is the same.

use super::command;

/// How much of the program's name is kept.
const LONGEST: usize = 40;

/// `# name: backup`
pub fn given(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('#')?.trim_start().strip_prefix("name:")?.trim();
    (!name.is_empty()).then_some(name)
}

/// The program's name and a number that follows from the whole command. From nothing else: what stands on other lines, or when it is
/// due, must not rename a job, or nodes that have read another version of the file would run it under another lock.
pub fn derived(command: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let program: String = command::program(command).chars().filter(is_plain).take(LONGEST).collect();
    let program = if program.is_empty() { "job" } else { &program };
    let hash = fnv_1a(command.bytes());
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
        assert_eq!(derived("/opt/backup --all"), derived("/opt/backup --all"));
        assert_eq!(derived(""), "job-4fd0bfc1");
    }

    #[test]
    fn another_command_is_another_name() {
        let names = [derived("/opt/backup --all"), derived("/opt/backup --some")];
        assert!(names.iter().all(|name| name.starts_with("backup-") && name.len() == 15), "{names:?}");
        assert_ne!(names[0], names[1]);
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
