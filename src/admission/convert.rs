//! The envelope of a conversion: a ConversionReview in, one out.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::convert::convert;

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "ConversionReview";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    objects: Vec<Value>,
}

/// Answers a ConversionReview: HTTP status and body.
///
/// A review is answered with 200 and a review in JSON. It holds all objects in their order, or none and a message that names the first
/// that cannot be converted. What is no review is answered with 400 and plain text.
pub fn review(body: &[u8]) -> (StatusCode, Vec<u8>) {
    let request = match parse(body) {
        Ok(request) => request,
        Err(reason) => return (StatusCode::BAD_REQUEST, reason.into_bytes()),
    };
    let (objects, result) = match convert_all(request.objects, &request.desired_api_version) {
        Ok(objects) => (objects, json!({"status": "Success"})),
        Err(message) => (Vec::new(), json!({"status": "Failed", "message": message})),
    };
    let answer = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "response": {"uid": request.uid, "result": result, "convertedObjects": objects},
    });
    (StatusCode::OK, answer.to_string().into_bytes())
}

/// Reads the request out of a review. The reason of a failure repeats nothing of what was sent: it may hold what is nobody's business.
fn parse(body: &[u8]) -> Result<Request, String> {
    let review: Review = serde_json::from_slice(body).map_err(|error| {
        format!(
            "this is no {KIND}: line {}, column {}\n",
            error.line(),
            error.column()
        )
    })?;
    if (review.api_version.as_str(), review.kind.as_str()) != (API_VERSION, KIND) {
        return Err(format!("this is no {KIND} of {API_VERSION}\n"));
    }
    Ok(review.request)
}

fn convert_all(objects: Vec<Value>, desired: &str) -> Result<Vec<Value>, String> {
    let convert = |(index, object)| {
        let name = name(index, &object);
        convert(object, desired).map_err(|error| format!("{name}: {error}"))
    };
    objects.into_iter().enumerate().map(convert).collect()
}

/// Tells which object is meant: its kind, namespace and name, or its place in the review.
fn name(index: usize, object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    match (
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"]),
    ) {
        (_, _, name) if name.is_empty() => format!("objects[{index}]"),
        (kind, namespace, name) if namespace.is_empty() => format!("{kind} {name}"),
        (kind, namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::meta;

    fn pool(index: usize, version: &str) -> Value {
        json!({
            "apiVersion": version,
            "kind": "Pool",
            "metadata": {"name": format!("pool-{index}"), "namespace": "team-a", "uid": index.to_string()},
            "spec": {"flavor": "small", "priority": index, "extraSpecs": "{\"token\": \"hidden\"}"},
            "status": {"id": "7", "tags": ["a"]},
        })
    }

    fn ask(desired: &str, objects: &[Value]) -> Value {
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "request": {"uid": "u-1", "desiredAPIVersion": desired, "objects": objects},
        });
        let (status, answer) = review(body.to_string().as_bytes());
        assert_eq!(status, StatusCode::OK);
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(
            (&answer["apiVersion"], &answer["kind"]),
            (&json!(API_VERSION), &json!(KIND))
        );
        assert_eq!(answer["response"]["uid"], "u-1");
        assert_eq!(answer.get("request"), None);
        answer["response"].clone()
    }

    fn objects(response: &Value) -> &[Value] {
        response["convertedObjects"].as_array().unwrap()
    }

    #[test]
    fn a_batch_keeps_its_order_and_may_be_mixed() {
        let versions = [meta::API_VERSION, meta::API_VERSION_V1ALPHA1];
        let sent: Vec<_> = (0..500).map(|i| pool(i, versions[i % 2])).collect();
        let started = std::time::Instant::now();
        let response = ask(meta::API_VERSION_V1ALPHA1, &sent);
        println!("500 objects took {:?}", started.elapsed());
        assert_eq!(response["result"]["status"], "Success");
        let answered = objects(&response);
        assert_eq!(answered.len(), sent.len());
        for (index, (sent, answered)) in sent.iter().zip(answered).enumerate() {
            assert_eq!(answered["apiVersion"], meta::API_VERSION_V1ALPHA1);
            for field in ["name", "namespace", "uid"] {
                assert_eq!(answered["metadata"][field], sent["metadata"][field]);
            }
            assert_eq!(answered["status"], sent["status"]);
            if index % 2 == 1 {
                assert_eq!(answered, sent, "it has that version already");
            }
        }
    }

    #[test]
    fn one_object_that_cannot_be_converted_fails_all_and_is_named() {
        let mut broken = pool(7, meta::API_VERSION);
        broken["spec"] = json!(["token: hidden"]);
        let whole = pool(1, meta::API_VERSION);
        let response = ask(
            meta::API_VERSION_V1ALPHA1,
            &[whole.clone(), broken, whole.clone()],
        );
        assert_eq!(objects(&response), &[] as &[Value]);
        assert_eq!(
            response["result"],
            json!({"status": "Failed", "message": "Pool team-a/pool-7: spec must be an object"})
        );
        for (object, name) in [
            (json!(5), "objects[1]: "),
            (json!({"kind": "Pool"}), "objects[1]: "),
            (
                json!({"kind": "Pool", "metadata": {"name": "p"}}),
                "Pool p: ",
            ),
        ] {
            let response = ask(meta::API_VERSION, &[whole.clone(), object]);
            let message = response["result"]["message"].as_str().unwrap();
            assert!(message.starts_with(name), "{message}");
        }
    }

    #[test]
    fn an_empty_batch_succeeds() {
        let response = ask(meta::API_VERSION, &[]);
        assert_eq!(
            (objects(&response).len(), &response["result"]["status"]),
            (0, &json!("Success"))
        );
    }

    #[test]
    fn what_is_no_review_is_refused_without_repeating_it() {
        let review_of = |version: &str, kind: &str, request: Value| {
            json!({"apiVersion": version, "kind": kind, "request": request}).to_string()
        };
        let request = json!({"uid": "u", "desiredAPIVersion": "x", "objects": []});
        let old = "apiextensions.k8s.io/v1beta1";
        for body in [
            String::new(),
            "hidden".to_owned(),
            "{\"apiVersion\": \"hidden\"".to_owned(),
            review_of(API_VERSION, "AdmissionReview", request.clone()),
            review_of(old, KIND, request),
            review_of(API_VERSION, KIND, Value::Null),
            review_of(
                API_VERSION,
                KIND,
                json!({"uid": "u", "objects": [], "desiredAPIVersion": ["hidden"]}),
            ),
            review_of(
                API_VERSION,
                KIND,
                json!({"uid": "u", "objects": "hidden", "desiredAPIVersion": "x"}),
            ),
            "[".repeat(100_000),
        ] {
            let (status, answer) = review(body.as_bytes());
            let answer = String::from_utf8(answer).unwrap();
            assert_eq!(status, StatusCode::BAD_REQUEST, "{body:.80}");
            assert!(
                answer.starts_with("this is no ConversionReview") && !answer.contains("hidden"),
                "{answer}"
            );
        }
        assert_eq!(review(&[0xff, 0xfe]).0, StatusCode::BAD_REQUEST);
    }
}
