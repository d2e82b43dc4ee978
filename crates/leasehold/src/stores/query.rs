//! The options behind the `?` of a URL.

/// `option=value` of each, as they stand there; what is wrong, if one is given twice: one of the two would silently not
/// count.
pub(super) fn pairs(query: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (option, value) = pair.split_once('=').unwrap_or((pair, ""));
        if pairs.iter().any(|(other, _)| *other == option) {
            return Err(format!("gives the option {option:?} twice; keep one of them"));
        }
        pairs.push((option, value));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_apart_and_none_may_come_twice() {
        assert_eq!(pairs("a=1&&b&c=x=y"), Ok(vec![("a", "1"), ("b", ""), ("c", "x=y")]));
        assert_eq!(pairs(""), Ok(Vec::new()));
        for twice in ["a=1&a=2", "a=1&a=1", "a&b=1&a"] {
            assert!(pairs(twice).unwrap_err().contains("\"a\" twice"), "{twice}");
        }
    }
}
