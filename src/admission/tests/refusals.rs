use super::*;

/// A write: kind, the spec as it was, the spec as it is to be, and the verdict on it.
type Case = (&'static str, Option<Value>, Value, Result<(), &'static str>);

async fn check(cases: Vec<Case>) {
    let router = router(references()).await;
    for (kind, old, new, expected) in cases {
        let told = format!("{kind} {old:?} -> {new}");
        let verdict = verdict(&ask(&router, &review(kind, old, Some(new))).await);
        match (verdict, expected) {
            (Ok(warnings), Ok(())) => assert!(warnings.is_empty(), "{told}: {warnings:?}"),
            (Err((code, message)), Err(expected)) => {
                let start = format!("{kind}.garm-operator.mercedes-benz.com \"one\" is invalid: ");
                assert_eq!(message.strip_prefix(&start), Some(expected), "{told}");
                assert_eq!(code, 422);
            }
            (verdict, expected) => panic!("{told}: {verdict:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn pools_are_judged_by_their_fields_and_by_what_cannot_change() {
    let moved =
        json!({"providerName": "b", "githubScopeRef": {"kind": "Repository", "name": "tools"}});
    check(vec![
        ("Pool", None, pool(), Ok(())),
        ("Pool", None, with(pool(), json!({"extraSpecs": "{\"a\": 1}"})), Ok(())),
        ("Pool", None, with(pool(), json!({"extraSpecs": ""})), Ok(())),
        (
            "Pool",
            None,
            with(pool(), json!({"maxRunners": -1, "extraSpecs": "{"})),
            Err("[spec.maxRunners: Invalid value: -1: must be between 1 and 2147483647, inclusive, spec.minIdleRunners: Invalid value: 1: must not be more than maxRunners (-1), spec.extraSpecs: Invalid value: is not JSON: EOF while parsing an object at line 1 column 1]"),
        ),
        (
            "Pool",
            None,
            with(pool(), json!({"tags": [7]})),
            Err("spec.tags[0]: Invalid value: is of the wrong type"),
        ),
        (
            "Pool",
            Some(pool()),
            with(pool(), moved),
            Err("[spec.providerName: Invalid value: \"b\": cannot be changed from \"fake\"; delete the object and make it anew, spec.githubScopeRef: Invalid value: \"tools\": cannot be changed from \"acme\"; delete the object and make it anew, spec.githubScopeRef: Invalid value: \"Repository\": cannot be changed from \"Organization\"; delete the object and make it anew]"),
        ),
        (
            "Pool",
            Some(pool()),
            with(pool(), json!({"githubScopeRef": {"apiGroup": "garm-operator.mercedes-benz.com", "kind": "Organization", "name": "acme"}})),
            Ok(()),
        ),
        // A fix of what was bad passes, also where the old object does not even decode.
        ("Pool", Some(with(pool(), json!({"extraSpecs": "{"}))), pool(), Ok(())),
        ("Pool", Some(json!({"tags": 7})), pool(), Ok(())),
        ("Pool", Some(json!(7)), pool(), Ok(())),
        // What stays as it is is not judged.
        ("Pool", Some(json!({"maxRunners": -1})), json!({"maxRunners": -1}), Ok(())),
    ])
    .await;
}

#[tokio::test]
async fn entities_are_judged_by_their_fields_and_by_the_endpoint_of_their_credentials() {
    let credentials =
        |name: &str| json!({"credentialsRef": {"kind": "GitHubCredential", "name": name}});
    let organization = || with(repository(), json!({"owner": null}));
    check(vec![
        ("Repository", None, repository(), Ok(())),
        ("Organization", None, organization(), Ok(())),
        ("Enterprise", None, organization(), Ok(())),
        (
            "Repository",
            None,
            json!({"poolBalancerType": "random", "owner": "", "webhookSecretRef": {"name": "a"}}),
            Err("[spec.poolBalancerType: Unsupported value: \"random\": supported values: \"pack\", \"roundrobin\", spec.owner: Required value, spec.credentialsRef.name: Required value, spec.webhookSecretRef.key: Required value]"),
        ),
        (
            "Repository",
            Some(repository()),
            with(repository(), json!({"owner": "umbrella"})),
            Err("spec.owner: Invalid value: \"umbrella\": cannot be changed from \"acme\"; delete the object and make it anew"),
        ),
        ("Repository", Some(repository()), with(repository(), credentials("twin")), Ok(())),
        (
            "Organization",
            Some(organization()),
            with(organization(), credentials("other")),
            Err("spec.credentialsRef: Invalid value: \"other\": these credentials are on endpoint \"github.com\" and this object is on \"ghes\"; use credentials of the same endpoint, or delete the object and make it anew"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn credentials_endpoints_and_settings_are_judged_by_their_fields() {
    let app = json!({"authType": "app", "appId": 0});
    check(vec![
        ("GitHubCredential", None, credential("ghes"), Ok(())),
        (
            "GitHubCredential",
            None,
            with(credential("ghes"), app),
            Err("[spec.appId: Invalid value: 0: must be greater than 0, spec.installationId: Required value: a GitHub App has this number]"),
        ),
        (
            "GitHubCredential",
            Some(credential("ghes")),
            with(credential("github.com"), json!({"authType": "app", "appId": 1, "installationId": 2})),
            Err("[spec.endpointRef: Invalid value: \"github.com\": cannot be changed from \"ghes\"; delete the object and make it anew, spec.authType: Invalid value: \"app\": cannot be changed from \"pat\"; delete the object and make it anew]"),
        ),
        (
            "GitHubEndpoint",
            None,
            json!({"baseUrl": "ghes", "apiBaseUrl": "https://ghes/api", "uploadBaseUrl": "https://ghes/up"}),
            Err("spec.baseUrl: Invalid value: \"ghes\": must be an absolute http or https URL, such as https://github.example.com"),
        ),
        ("GarmServerConfig", None, json!({"webhookUrl": "https://garm/webhooks"}), Ok(())),
        (
            "GarmServerConfig",
            Some(json!({})),
            json!({"webhookUrl": "garm/webhooks", "minimumJobAgeBackoff": -1}),
            Err("[spec.webhookUrl: Invalid value: \"garm/webhooks\": must be an absolute http or https URL, such as https://github.example.com, spec.minimumJobAgeBackoff: Invalid value: -1: must be greater than or equal to 0]"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_refusal_has_the_form_of_the_api_servers_own() {
    let router = router(references()).await;
    let wrong = with(pool(), json!({"osType": "solaris", "flavor": ""}));
    let response = ask(&router, &review("Pool", None, Some(wrong))).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(
        response["status"],
        json!({
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": "Pool.garm-operator.mercedes-benz.com \"one\" is invalid: [spec.flavor: Required value, spec.osType: Unsupported value: \"solaris\": supported values: \"linux\", \"windows\"]",
            "details": {
                "name": "one",
                "group": "garm-operator.mercedes-benz.com",
                "kind": "Pool",
                "causes": [
                    {"reason": "FieldValueRequired", "field": "spec.flavor", "message": "Required value"},
                    {"reason": "FieldValueNotSupported", "field": "spec.osType", "message": "Unsupported value: \"solaris\": supported values: \"linux\", \"windows\""},
                ],
            },
        })
    );
}

#[tokio::test]
async fn what_is_not_there_yet_or_has_no_effect_is_a_warning() {
    let router = router(Vec::new()).await;
    for (kind, spec, warnings) in [
        (
            "Pool",
            with(
                pool(),
                json!({"githubScopeRef": {"kind": "Repository", "name": "tools"}, "githubRunnerGroup": "a"}),
            ),
            &[
                "spec.githubRunnerGroup: has no effect, since repositories have no runner groups",
                "spec.githubScopeRef: Repository ns/tools does not exist (yet)",
                "spec.imageName: Image ns/image does not exist (yet)",
            ][..],
        ),
        (
            "Enterprise",
            repository(),
            &["spec.credentialsRef: GitHubCredential ns/pat does not exist (yet)"],
        ),
        (
            "GitHubCredential",
            with(credential("ghes"), json!({"secretRef": null})),
            &[
                "spec.secretRef: is needed before GARM gets the credentials",
                "spec.endpointRef: GitHubEndpoint ns/ghes does not exist (yet)",
            ],
        ),
        (
            "GitHubEndpoint",
            json!({"baseUrl": "https://ghes", "apiBaseUrl": "https://ghes/api"}),
            &["spec.uploadBaseUrl: is needed unless GARM has this endpoint already"],
        ),
        (
            "GarmServerConfig",
            json!({"webhookUrl": "https://garm/webhook"}),
            &["spec.webhookUrl: ends in /webhook, but GARM takes webhooks at /webhooks"],
        ),
    ] {
        let response = ask(&router, &review(kind, None, Some(spec))).await;
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(verdict(&response), Ok(warnings), "{kind}");
    }
}

#[tokio::test]
async fn an_image_in_use_stays_and_any_other_goes() {
    let using = |name: &str, image: &str| {
        object(
            "Pool",
            name,
            1,
            with(pool(), json!({"imageName": image})),
            json!({}),
        )
    };
    let mut leaving = using("leaving", "two");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut elsewhere = using("elsewhere", "three");
    elsewhere["metadata"]["namespace"] = json!("other");
    let router = router(vec![
        using("b", "one"),
        using("a", "one"),
        leaving,
        elsewhere,
    ])
    .await;
    let delete = |name: &str| {
        let mut review = review("Image", Some(json!({"tag": "ubuntu"})), None);
        review["request"]["name"] = json!(name);
        review["request"]["oldObject"]["metadata"]["name"] = json!(name);
        review
    };
    let refusal = "Image ns/one (tag \"ubuntu\") is used by Pools a, b; delete them first, or let them use another Image";
    let refused = Err((403, refusal.to_owned()));
    assert_eq!(verdict(&ask(&router, &delete("one")).await), refused);
    let mut collection = delete("one");
    collection["request"]["name"] = json!("");
    assert_eq!(verdict(&ask(&router, &collection).await), refused);
    for free in ["two", "three", "four"] {
        assert_eq!(verdict(&ask(&router, &delete(free)).await), Ok(Vec::new()));
    }
}

#[tokio::test]
async fn a_pool_whose_deletion_came_by_keeps_no_image_before_the_watch_shows_it() {
    let using = |name: &str| {
        let mut spec = pool();
        spec["imageName"] = json!("one");
        object("Pool", name, 1, spec, json!({}))
    };
    let (a, b) = (using("a"), using("b"));
    let delete = |kind: &str, object: &Value| {
        let mut review = review(kind, Some(json!({})), None);
        review["request"]["oldObject"] = object.clone();
        review
    };
    let router = router(vec![a.clone(), b.clone()]).await;
    let image = object("Image", "one", 1, json!({"tag": "ubuntu"}), Value::Null);
    let image = delete("Image", &image);
    let users = async || verdict(&ask(&router, &image).await).map_err(|(_, message)| message);
    let mut dry = delete("Pool", &a);
    dry["request"]["dryRun"] = json!(true);
    assert_eq!(verdict(&ask(&router, &dry).await), Ok(Vec::new()));
    assert!(users().await.is_err_and(|text| text.contains("Pools a, b")));
    assert_eq!(
        verdict(&ask(&router, &delete("Pool", &a)).await),
        Ok(Vec::new())
    );
    assert!(users().await.is_err_and(|text| text.contains("Pool b;")));
    let mut another = b.clone();
    another["metadata"]["uid"] = json!("of another time");
    ask(&router, &delete("Pool", &another)).await;
    assert!(users().await.is_err_and(|text| text.contains("Pool b;")));
    ask(&router, &delete("Pool", &b)).await;
    assert_eq!(users().await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_terminating_object_is_never_judged_and_never_filled_in() {
    let router = router(references()).await;
    let mut review = review("Pool", Some(pool()), Some(json!({"maxRunners": -1})));
    review["request"]["object"]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(verdict(&ask(&router, &review).await), Ok(Vec::new()));
    let mutate = "/mutate-garm-operator-mercedes-benz-com-v1beta1-pool";
    let (_, body) = post(&router, mutate, review.to_string()).await;
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        answer["response"],
        json!({"uid": "review-uid", "allowed": true})
    );
}

#[tokio::test]
async fn an_equal_pool_is_refused_and_absent_fields_are_filled_in() {
    let twin = object("Pool", "twin", 1, pool(), json!({}));
    let router = router(references().into_iter().chain([twin]).collect()).await;
    let (code, message) =
        verdict(&ask(&router, &review("Pool", None, Some(pool()))).await).unwrap_err();
    assert_eq!(code, 422);
    assert!(
        message.contains("spec: Duplicate value: Pool \"twin\" has the same"),
        "{message}"
    );
    let short = with(pool(), json!({"osType": null, "enabled": null}));
    let mutate = "/mutate-garm-operator-mercedes-benz-com-v1beta1-pool";
    let (_, body) = post(
        &router,
        mutate,
        review("Pool", None, Some(short)).to_string(),
    )
    .await;
    let response = serde_json::from_slice::<Value>(&body).unwrap()["response"].clone();
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        response["patch"].as_str().unwrap(),
    );
    let patch: Value = serde_json::from_slice(&patch.unwrap()).unwrap();
    assert_eq!(
        patch,
        json!([
            {"op": "add", "path": "/spec/osType", "value": "linux"},
            {"op": "add", "path": "/spec/enabled", "value": true},
        ])
    );
}

#[tokio::test]
async fn of_a_namespace_that_is_not_watched_only_the_fields_are_judged() {
    let twin = object("Pool", "twin", 1, pool(), json!({}));
    let hubs = context(vec![twin]).await.hubs.clone();
    let elsewhere = Settings {
        namespaces: vec!["other".to_owned()],
        ..settings()
    };
    let router = router_of(hubs, elsewhere);
    let moved = with(
        repository(),
        json!({"credentialsRef": {"kind": "GitHubCredential", "name": "x"}}),
    );
    for review in [
        review("Pool", None, Some(pool())),
        review("Repository", Some(repository()), Some(moved)),
        review("Image", Some(json!({})), None),
    ] {
        assert_eq!(verdict(&ask(&router, &review).await), Ok(Vec::new()));
    }
    let wrong = review("Pool", None, Some(with(pool(), json!({"maxRunners": 0}))));
    assert_eq!(verdict(&ask(&router, &wrong).await).unwrap_err().0, 422);
}

#[tokio::test]
async fn the_pool_that_a_new_pool_asks_for_is_named_by_its_id() {
    let asking = |old: Option<&str>, new: Option<&str>| {
        let mut review = review(
            "Pool",
            old.map(|_| with(pool(), json!({"maxRunners": 9}))),
            Some(pool()),
        );
        let name = crate::api::meta::ADOPT_ID;
        for (path, value) in [("oldObject", old), ("object", new)] {
            if let Some(value) = value {
                review["request"][path]["metadata"]["annotations"] = json!({name: value});
            }
        }
        review
    };
    let router = router(references()).await;
    let id = "9a6b8c1e-5b7d-4f5e-8d3a-2f1e0c9b8a77";
    for (old, new, is_good) in [
        (None, Some(id), true),
        (None, Some("small"), false),
        (Some(id), Some("small"), false),
        // What was let in before is nobody's obstacle, nor is its removal.
        (Some("small"), Some("small"), true),
        (Some("small"), None, true),
    ] {
        let verdict = verdict(&ask(&router, &asking(old, new)).await);
        assert_eq!(verdict.is_ok(), is_good, "{old:?} -> {new:?}: {verdict:?}");
        if let Err((_, message)) = verdict {
            assert!(
                message.contains("adopt-id") && message.contains("small"),
                "{message}"
            );
        }
    }
}
