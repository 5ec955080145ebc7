use axum::extract::Extension;

use super::*;
use crate::controllers::testing::hubs;
use crate::runtime::testing::{FakeApi, Reply};
use crate::telemetry::metrics::Format;

/// Stores that never load: the API server refuses to list.
fn unloaded() -> Hubs {
    let fake = FakeApi::new(|_| Reply::status(403, "Forbidden", "no"));
    hubs(&fake.client())
}

#[tokio::test]
async fn what_is_no_review_gets_an_http_error() {
    let router = router(Vec::new()).await;
    let path = path("Pool");
    let good = review("Pool", None, Some(pool()));
    let changed = |pointer: &str, value: Value| {
        let mut review = good.clone();
        *review.pointer_mut(pointer).unwrap() = value;
        review.to_string()
    };
    for bad in [
        String::new(),
        "{}".to_owned(),
        "[".repeat(200_000),
        changed("/kind", json!("ConversionReview")),
        changed("/apiVersion", json!("admission.k8s.io/v1beta1")),
        changed("/request", Value::Null),
        changed("/request/uid", json!("")),
        changed("/request/operation", json!("DESTROY")),
        changed("/request/kind/kind", json!("Image")),
        changed("/request/object", Value::Null),
        changed("/request/object", json!(7)),
    ] {
        let (status, body) = post(&router, path, bad.clone()).await;
        assert_eq!(
            status,
            400,
            "{bad:.200}: {}",
            String::from_utf8_lossy(&body)
        );
    }
    for (request, expected) in [
        (HttpRequest::post(path).body(Body::from("{}")), 415),
        (HttpRequest::get(path).body(Body::empty()), 405),
        (HttpRequest::post("/validate").body(Body::empty()), 404),
    ] {
        assert_eq!(send(&router, request.unwrap()).await.0, expected);
    }
    let odd = HttpRequest::post(path).header("content-type", "Application/JSON; charset=utf-8");
    let odd = odd.body(Body::from(good.to_string())).unwrap();
    assert_eq!(send(&router, odd).await.0, 200);
}

#[tokio::test]
async fn long_bodies_are_refused_later_for_conversions() {
    let router = router(Vec::new()).await;
    let length = 8 << 20;
    assert_eq!(post(&router, path("Pool"), vec![b' '; length]).await.0, 413);
    assert_eq!(post(&router, "/convert", vec![b' '; length]).await.0, 400);
    assert_eq!(post(&router, "/convert", vec![b' '; 65 << 20]).await.0, 413);
    let mut longest = review("Pool", None, Some(pool()));
    longest["request"]["options"] = json!("x".repeat(6 << 20));
    assert_eq!(
        post(&router, path("Pool"), longest.to_string()).await.0,
        200
    );
}

#[tokio::test]
async fn a_verdict_that_needs_a_store_waits_and_then_leaves_it_to_the_failure_policy() {
    let router = router_of(unloaded(), settings());
    let credentials = json!({"credentialsRef": {"kind": "GitHubCredential", "name": "x"}});
    for review in [
        review("Pool", None, Some(pool())),
        review("Image", Some(json!({})), None),
        review(
            "Repository",
            Some(repository()),
            Some(with(repository(), credentials)),
        ),
    ] {
        let kind = review["request"]["kind"]["kind"].as_str().unwrap();
        let (status, body) = post(&router, path(kind), review.to_string()).await;
        let body = String::from_utf8(body).unwrap();
        assert_eq!(status, 503, "{body}");
        assert!(body.contains("not known yet"), "{body}");
    }
    // Others need none: fields, and doubts that wait for nothing.
    let wrong = review("Pool", None, Some(json!({})));
    assert_eq!(verdict(&ask(&router, &wrong).await).unwrap_err().0, 422);
    let good = review("Repository", None, Some(repository()));
    assert_eq!(verdict(&ask(&router, &good).await), Ok(Vec::new()));
    assert_eq!(post(&router, "/convert", "{}").await.0, 400);
}

#[tokio::test]
async fn too_many_at_a_time_are_sent_away_and_conversion_goes_on() {
    let slow = Settings {
        concurrency: 1,
        wait: Duration::from_millis(300),
        ..settings()
    };
    let router = router_of(unloaded(), slow);
    let body = review("Pool", None, Some(pool())).to_string();
    let all = (0..3).map(|_| post(&router, path("Pool"), body.clone()));
    let all = futures::future::join_all(all);
    let (all, converted) = futures::join!(all, post(&router, "/convert", "{}"));
    assert_eq!(converted.0, 400);
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    let shed = all
        .iter()
        .filter(|(_, body)| text(body).contains("too many"));
    assert!(shed.count() >= 1);
    assert!(all.iter().all(|(status, _)| *status == 503));
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_given_up_and_every_answer_is_counted() {
    let impatient = Settings {
        wait: Duration::from_secs(60),
        answer: Duration::from_millis(30),
        conversion: Duration::from_millis(30),
        ..settings()
    };
    let metrics = Metrics::new();
    let router = Arc::new(Admission::new(unloaded(), impatient)).router(&metrics);
    let body = review("Pool", None, Some(pool())).to_string();
    assert_eq!(post(&router, path("Pool"), body).await.0, 504);
    let text = metrics.encode(Format::Text).unwrap();
    for line in [
        "controller_runtime_webhook_requests_total{webhook=\"/validate-garm-operator-mercedes-benz-com-v1beta1-pool\",code=\"504\"} 1",
        "controller_runtime_webhook_requests_total{webhook=\"/convert\",code=\"200\"} 0",
        "controller_runtime_webhook_requests_in_flight{webhook=\"/validate-garm-operator-mercedes-benz-com-v1beta1-pool\"} 0",
        "controller_runtime_webhook_latency_seconds_count{webhook=\"/validate-garm-operator-mercedes-benz-com-v1beta1-pool\"} 1",
    ] {
        assert!(
            text.lines().any(|other| other == line),
            "no {line} in\n{text}"
        );
    }
}

#[tokio::test]
async fn a_panic_is_answered_and_the_process_goes_on() {
    async fn broken() {
        assert!(std::hint::black_box(false), "broken on purpose");
    }
    let metrics = Metrics::new();
    let turns = Arc::new(tokio::sync::Semaphore::new(1));
    let guard = router::Guard::new(&settings(), &turns, metrics.webhook("/broken"));
    let router = router::guarded("/broken", axum::routing::post(broken), 1024, guard);
    for _ in 0..3 {
        assert_eq!(post(&router, "/broken", "{}").await.0, 500);
    }
}

#[tokio::test]
async fn work_that_cannot_be_called_off_keeps_its_turn_when_its_request_is_given_up() {
    let (start, started) = std::sync::mpsc::channel::<()>();
    let started = Arc::new(std::sync::Mutex::new(started));
    let long = move |Extension(turn): Extension<router::Turn>| {
        let started = Arc::clone(&started);
        async move {
            let work = move || started.lock().unwrap().recv().is_ok();
            router::beside(turn, work).await.unwrap().to_string()
        }
    };
    let impatient = Settings {
        answer: Duration::from_millis(100),
        ..settings()
    };
    let turns = Arc::new(tokio::sync::Semaphore::new(1));
    let metrics = Metrics::new();
    let guard = router::Guard::new(&impatient, &turns, metrics.webhook("/long"));
    let router = router::guarded("/long", axum::routing::post(long), 1024, guard);
    assert_eq!(post(&router, "/long", "{}").await.0, 504);
    assert_eq!(
        post(&router, "/long", "{}").await.0,
        503,
        "it is still worked on"
    );
    start.send(()).unwrap();
    // Its turn is free again; the next one has work of its own.
    let free = async {
        while turns.available_permits() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), free)
        .await
        .unwrap();
    start.send(()).unwrap();
    assert_eq!(post(&router, "/long", "{}").await, (200, b"true".to_vec()));
}
