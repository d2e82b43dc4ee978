//! `openapi.json`, and whether answers are as it says.

use std::collections::BTreeMap;

use axum::http::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::scene::{Answer, Scene};

/// The document.
pub struct Contract(Value);

impl Contract {
    /// As it stands in this crate.
    pub fn read() -> Self {
        let mut document: Value = serde_json::from_str(include_str!("../../openapi.json")).unwrap();
        // Fields may be added for programs that read it; here each that is answered must stand in it.
        close(&mut document["components"]["schemas"]);
        Self(document)
    }

    /// Each path, and how it is asked.
    fn operations(&self) -> Vec<(String, String)> {
        let paths = self.0["paths"].as_object().unwrap();
        let each = paths.iter().flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| (path.clone(), method.clone()))
        });
        each.collect()
    }

    /// Demands that an answer is one that the document has, if it has the path.
    pub fn check(&self, method: &Method, path: &str, answer: &Answer) {
        let operation = &self.0["paths"][path][method.as_str().to_lowercase()];
        if operation.is_null() {
            return;
        }
        let written = &operation["responses"][answer.status.as_str()]["content"];
        let sort = answer.headers[header::CONTENT_TYPE].to_str().unwrap().split(';').next().unwrap();
        let schema = &written[sort]["schema"];
        assert!(!schema.is_null(), "{method} {path} has no {sort} for {}: {answer:?}", answer.status);
        if sort != "application/json" {
            return;
        }
        let mut whole = schema.clone();
        whole["components"] = self.0["components"].clone();
        let validator = jsonschema::validator_for(&whole).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&answer.value())
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{method} {path}: {errors:#?} in {}", answer.body);
    }
}

/// No object has fields that aren't written down.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            if fields.contains_key("properties") && fields.contains_key("required") {
                fields.insert("additionalProperties".into(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Each path that is written down is there, in the way in which it is asked, and in no other.
pub async fn all_routes_answer_as_is_written(scene: &Scene) {
    let operations = Contract::read().operations();
    let mut ways: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    operations.iter().for_each(|(path, method)| ways.entry(path).or_default().push(method));
    for (path, methods) in ways {
        if path == "/api/v1/events" {
            assert!(scene.listen().await.next().await.is_some());
            continue;
        }
        let asked = scene.get(path).await;
        let is_asked_so = methods.contains(&"get");
        assert_eq!(asked.status != StatusCode::METHOD_NOT_ALLOWED, is_asked_so, "{path}");
        assert!(asked.status != StatusCode::NOT_FOUND || path == "/metrics", "{path}");
        if path.starts_with("/api/") {
            assert_eq!(asked.headers[header::CACHE_CONTROL], "no-store", "{path}");
            let posted = scene.post(path, &json!({})).await;
            let code = posted.value()["error"]["code"].clone();
            assert_eq!(code, if methods.contains(&"post") { "bad_request" } else { "wrong_method" }, "{path}");
        }
    }
    assert!(operations.len() >= 17, "{operations:?}");
}

/// The routes are read in the source: what is served there must be written down.
#[test]
fn each_route_stands_in_the_document() {
    let source = include_str!("../../src/api/mod.rs");
    let routes = source.split(".route(\"").skip(1).filter_map(|rest| {
        let (path, rest) = rest.split_once("\", ")?;
        Some((path, rest.split('(').next()?))
    });
    let mut served: Vec<(String, String)> = routes
        .map(|(path, method)| {
            let is_whole = ["/metrics", "/healthz", "/readyz"].contains(&path);
            (if is_whole { path.to_owned() } else { format!("/api/v1{path}") }, method.to_owned())
        })
        .collect();
    let mut written = Contract::read().operations();
    served.sort();
    written.sort();
    assert_eq!(served, written);
}

#[test]
fn what_is_written_is_a_schema_and_nothing_in_it_is_unused() {
    let Contract(document) = Contract::read();
    let text = document.to_string();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let mut whole = schema.clone();
        whole["components"] = document["components"].clone();
        jsonschema::validator_for(&whole).unwrap_or_else(|error| panic!("{name}: {error}"));
        let is_told = text.contains(&format!("#/components/schemas/{name}\"")) || name == "Change";
        assert!(is_told, "{name}");
    }
}

/// The test tests: a field that is not written down is refused.
#[test]
#[should_panic(expected = "/api/v1/store")]
fn a_field_that_is_not_written_down_is_seen() {
    let body = json!({"error": {"code": "a", "message": "b", "fix": null, "more": 1}});
    let headers = [(header::CONTENT_TYPE, "application/json".parse().unwrap())].into_iter().collect();
    let answer = Answer { status: StatusCode::FORBIDDEN, headers, body: body.to_string() };
    Contract::read().check(&Method::GET, "/api/v1/store", &answer);
}
