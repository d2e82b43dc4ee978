//! Percent-encoding in URLs.

/// `%40` is `@`. What is wrong with it, if it can't be decoded.
pub(super) fn decoded(text: &str) -> Result<String, String> {
    let wrong = || "has a % that doesn't begin %XX in UTF-8; write %25 for it".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let byte;
        (byte, rest) = if first == b'%' {
            let (hex, behind) = behind.split_at_checked(2).ok_or_else(wrong)?;
            let hex = std::str::from_utf8(hex).ok().filter(|hex| !hex.starts_with('+')).ok_or_else(wrong)?;
            (u8::from_str_radix(hex, 16).map_err(|_| wrong())?, behind)
        } else {
            (first, behind)
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_hexadecimal_digits_do_not_follow_is_told() {
        assert_eq!(decoded("hunt%40r%C3%A9+"), Ok("hunt@ré+".to_owned()));
        for wrong in ["%", "%4", "%4g", "%+4", "%é", "%ff"] {
            assert!(decoded(wrong).is_err(), "{wrong}");
        }
    }
}
