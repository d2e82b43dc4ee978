//! `NAME = value` in a crontab, with cron's own quoting.

/// A line that sets a variable: the name, and the value. None if the line is something else, such as a job. In quotes a name may
/// be one that no environment can hold.
///
/// As in cron: either may be in quotes of one sort or the other, blanks around `=` don't count, neither do those at the end of an
/// unquoted value, and nothing is expanded. Behind a closing quote nothing may follow.
pub fn read(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = word(line.trim(), |c| c == '=' || c.is_whitespace())?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let is_name = line.trim_start().starts_with(['"', '\'']) || is_plain(name);
    let (value, behind) = word(rest, |_| false)?;
    (is_name && behind.trim().is_empty()).then_some((name, value))
}

/// What stands in quotes, or goes up to an `end`; and what is behind it.
fn word(text: &str, is_end: impl Fn(char) -> bool) -> Option<(&str, &str)> {
    match text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        Some(quote) => text[1..].split_once(quote),
        None => Some(text.split_at(text.find(is_end).unwrap_or(text.len()))),
    }
}

/// What a schedule never starts with, followed by `=`.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn variables_are_read_as_cron_reads_them() {
        for (line, wanted) in [
            ("PATH=/usr/bin:/bin", ("PATH", "/usr/bin:/bin")),
            ("  A  =  b c  ", ("A", "b c")),
            ("A=", ("A", "")),
            ("A=\"\"", ("A", "")),
            ("A=\" b \"  ", ("A", " b ")),
            ("A=' \"b\" '", ("A", " \"b\" ")),
            ("\"A B\" = c", ("A B", "c")),
            ("\"\" = c", ("", "c")),
            ("'A'='c'", ("A", "c")),
            ("A=$HOME/x", ("A", "$HOME/x")),
            ("A=b=c", ("A", "b=c")),
            ("A=b # no comment", ("A", "b # no comment")),
            ("MAILTO=ops@example.com", ("MAILTO", "ops@example.com")),
        ] {
            assert_eq!(read(line), Some(wanted), "{line}");
        }
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "0 3 * * * A=b cmd",
            "@daily A=b cmd",
            "* * * * * x",
            "A",
            "A b=c",
            "A=\"b",
            "A=\"b\" c",
            "=b",
            "\"A=b",
            "",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
