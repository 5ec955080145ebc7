use garm_operator_ground::mutate::mutations;

use super::*;

/// What the API server can send, and what it sent that once went wrong.
fn examples() -> Vec<Vec<u8>> {
    let changed = with(
        pool(),
        json!({"extraSpecs": "{\"a\": [1, null]}", "runnerPrefix": "team"}),
    );
    let mut collection = review("Image", Some(json!({"tag": "a"})), None);
    collection["request"]["name"] = json!("");
    [
        review("Pool", None, Some(pool())),
        review("Pool", Some(pool()), Some(changed)),
        review("Repository", Some(repository()), Some(repository())),
        review("Enterprise", None, Some(repository())),
        review("GitHubCredential", None, Some(credential("ghes"))),
        review(
            "GitHubEndpoint",
            None,
            Some(json!({"baseUrl": "https://ghes"})),
        ),
        review(
            "GarmServerConfig",
            None,
            Some(json!({"webhookUrl": "https://garm"})),
        ),
        review("Image", Some(json!({"tag": "a"})), None),
        collection,
    ]
    .map(|review| review.to_string().into_bytes())
    .into()
}

#[tokio::test]
async fn whatever_comes_in_gets_an_orderly_answer() {
    let router = router(references()).await;
    let mut judged = 0;
    for input in mutations(examples()) {
        // Where it would go if it were sent by the API server.
        let sent = serde_json::from_slice::<Value>(&input).unwrap_or_default();
        let kind = sent["request"]["kind"]["kind"].as_str().unwrap_or_default();
        let hooks = hooks::HOOKS.iter();
        let fitting: Vec<&str> = hooks.filter(|h| h.kind == kind).map(|h| h.path).collect();
        let paths = if fitting.is_empty() {
            vec![path("Pool")]
        } else {
            fitting
        };
        for path in paths {
            let (status, body) = post(&router, path, input.clone()).await;
            let shown = || {
                let input = String::from_utf8_lossy(&input);
                format!("{path} {status}: {input:.4000}")
            };
            assert!(matches!(status, 200 | 400), "{}", shown());
            if status == 200 {
                judged += 1;
                let answer: Value = serde_json::from_slice(&body).unwrap();
                let response = &answer["response"];
                assert_eq!(response["uid"], sent["request"]["uid"], "{}", shown());
                let code = response["status"]["code"].as_u64().unwrap_or(200);
                let is_allowed = response["allowed"].as_bool().unwrap();
                assert_eq!(is_allowed, code == 200, "{}", shown());
                assert!(matches!(code, 200 | 403 | 422), "{}", shown());
            }
        }
    }
    assert!(judged > 100, "too few of them were judged: {judged}");
}
