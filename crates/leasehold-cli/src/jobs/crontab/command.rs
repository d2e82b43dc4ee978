//! What stands behind the schedule of a crontab's line.

/// What the shell is given, and what it reads: the first `%` ends the one, further ones are line ends of the other. `\%` is a
/// `%`; other backslashes are the shell's.
pub fn read(text: &str) -> (String, Option<Vec<u8>>) {
    let (mut command, mut input) = (String::new(), None::<String>);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' if chars.peek() == Some(&'%') => chars.next().unwrap_or(c),
            '%' if input.is_none() => {
                input = Some(String::new());
                continue;
            }
            '%' => '\n',
            c => c,
        };
        input.as_mut().unwrap_or(&mut command).push(c);
    }
    let input = input.map(|mut input| {
        if !input.is_empty() && !input.ends_with('\n') {
            input.push('\n');
        }
        input.into_bytes()
    });
    (command.trim_end().to_owned(), input)
}

/// The program that a command starts with, past variables that are set in front of it; without its folder.
pub fn program(command: &str) -> &str {
    let is_setting = |word: &&str| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let word = command.split_whitespace().find(|word| !is_setting(word)).unwrap_or_default();
    word.rsplit('/').next().unwrap_or(word)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_are_cron_s() {
        for (text, command, input) in [
            ("echo a", "echo a", None),
            ("date +\\%F", "date +%F", None),
            ("cat%a%b", "cat", Some("a\nb\n")),
            ("cat%a%", "cat", Some("a\n")),
            ("cat%", "cat", Some("")),
            ("cat % a \\% b", "cat", Some(" a % b\n")),
            ("echo \\\\ \\n", "echo \\\\ \\n", None),
            ("echo \\\\%x", "echo \\%x", None),
        ] {
            assert_eq!(read(text), (command.to_owned(), input.map(|input| input.as_bytes().to_vec())), "{text}");
        }
    }

    #[test]
    fn the_program_is_found() {
        for (command, wanted) in [
            ("/usr/bin/backup.sh --all", "backup.sh"),
            ("A=1 B=x/y nice -n 10 x", "nice"),
            ("[ -e /x ] && y", "["),
            ("./a=b", "a=b"),
            ("", ""),
        ] {
            assert_eq!(program(command), wanted);
        }
    }
}
