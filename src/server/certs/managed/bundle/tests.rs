use super::*;

#[test]
fn finds_the_places_of_both_sorts_of_objects() {
    let configuration = json!({ "webhooks": [
        { "name": "a.x.io", "clientConfig": { "url": "https://a", "caBundle": "b2xk" } },
        { "name": "b.x.io", "clientConfig": { "service": {} } },
    ] });
    let found = slots(&configuration);
    assert_eq!(found[0].bundle.as_deref(), Some("b2xk"));
    assert_eq!(
        patch(&found, "bmV3"),
        Some(json!([
            { "op": "test", "path": "/webhooks/0/name", "value": "a.x.io" },
            { "op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "bmV3" },
            { "op": "test", "path": "/webhooks/1/name", "value": "b.x.io" },
            { "op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "bmV3" },
        ]))
    );
    let definition = json!({ "spec": { "conversion": {
        "strategy": "Webhook",
        "webhook": { "clientConfig": { "caBundle": "bmV3" }, "conversionReviewVersions": ["v1"] },
    } } });
    assert_eq!(patch(&slots(&definition), "bmV3"), None);
    let path = "/spec/conversion/webhook/clientConfig/caBundle";
    assert_eq!(patch(&slots(&definition), "b2xk").unwrap()[1]["path"], path);
}

#[test]
fn only_what_differs_is_written() {
    let configuration = json!({ "webhooks": [
        { "name": "a", "clientConfig": { "caBundle": "bmV3" } },
        { "name": "b", "clientConfig": {} },
    ] });
    let change = patch(&slots(&configuration), "bmV3").unwrap();
    assert_eq!(change.as_array().unwrap().len(), 2);
    assert_eq!(change[0]["value"], "b");
}

#[test]
fn an_object_without_a_webhook_has_no_place() {
    for object in [
        json!({}),
        json!({ "webhooks": [] }),
        json!({ "spec": { "conversion": { "strategy": "None" } } }),
        json!({ "spec": { "conversion": { "strategy": "Webhook" } } }),
    ] {
        assert_eq!(slots(&object), []);
    }
}
