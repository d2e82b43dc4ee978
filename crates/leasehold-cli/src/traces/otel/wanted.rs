//! Whether traces are to be sent: the standard variables that the SDK leaves to its users.

/// Whether the environment asks for traces; `set` is how it is asked, and `endpoint` the variable that says where to.
///
/// # Errors
/// It asks for some that can't be sent; what it says.
pub fn wanted(endpoint: Option<&str>, set: impl Fn(&str) -> Option<String>) -> Result<bool, String> {
    let says = |name: &str, what: &str| set(name).is_some_and(|value| value.trim().eq_ignore_ascii_case(what));
    let is_off = says("OTEL_SDK_DISABLED", "true")
        || set("OTEL_TRACES_EXPORTER").is_some_and(|names| !names.split(',').any(|name| name.trim() == "otlp"));
    if endpoint.is_none() || is_off {
        return Ok(false);
    }
    let protocol = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
    match protocol.into_iter().find(|name| set(name).is_some()) {
        Some(name) if !says(name, "grpc") => {
            Err(format!("{name} asks for another protocol than grpc, which is the only one in which traces are sent"))
        }
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<bool, String> {
        let set = |name: &str| variables.iter().find(|set| set.0 == name).map(|set| set.1.to_owned());
        wanted(Some("OTEL_EXPORTER_OTLP_ENDPOINT"), set)
    }

    #[test]
    fn an_endpoint_is_enough_and_the_usual_variables_switch_it_off() {
        assert_eq!(wanted(None, |_| None), Ok(false));
        assert_eq!(of(&[]), Ok(true));
        assert_eq!(of(&[("OTEL_SDK_DISABLED", "TRUE")]), Ok(false));
        assert_eq!(of(&[("OTEL_SDK_DISABLED", "false")]), Ok(true));
        assert_eq!(of(&[("OTEL_TRACES_EXPORTER", "none")]), Ok(false));
        assert_eq!(of(&[("OTEL_TRACES_EXPORTER", "console, otlp")]), Ok(true));
    }

    #[test]
    fn another_protocol_is_told() {
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        assert!(of(&[http]).unwrap_err().starts_with(http.0));
        assert_eq!(of(&[http, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")]), Ok(true), "the nearer one counts");
        assert_eq!(of(&[http, ("OTEL_SDK_DISABLED", "true")]), Ok(false));
    }
}
