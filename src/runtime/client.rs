//! Connection to the API server: found as `kubectl` finds it, with a deadline on every request, counted.

use std::{
    error::Error,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderValue, Method, Request, Response, StatusCode, header::USER_AGENT};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, Layer, Service};

use super::cut;
use crate::telemetry::metrics::Metrics;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest explanation of a failure, in bytes: an answer may be a whole page.
const EXPLANATION_MAX: usize = 1024;
/// Longest silence within an answer. Longer than any watch request of ours, which the API server ends.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// Why there is no connection to an API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig that was named does not load.
    #[error(
        "the kubeconfig {path} is not usable: {source}; check the path given with --kubeconfig and its current context"
    )]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: kube::config::KubeconfigError,
    },
    /// There is no configuration at all.
    #[error(
        "no cluster to connect to: {0}; run inside a pod with a service account, set KUBECONFIG, or pass --kubeconfig"
    )]
    NoCluster(#[source] kube::config::InferConfigError),
    /// The configuration makes no client, for example because of a bad certificate.
    #[error("the cluster configuration is not usable: {0}")]
    Client(#[source] kube::Error),
}

/// Builds a client from the file `kubeconfig`, or else from `KUBECONFIG`, the default file, or the pod's service account.
///
/// Sends nothing yet. An answer has to begin within `deadline`. Requests are not retried: whoever sends one decides
/// what a failure means.
pub async fn connect(
    kubeconfig: Option<&Path>,
    deadline: Duration,
    metrics: &Arc<Metrics>,
) -> Result<Client, ConnectError> {
    let config = match kubeconfig {
        Some(path) => {
            let broken = |source| ConnectError::Kubeconfig {
                path: path.display().to_string(),
                source,
            };
            let file = Kubeconfig::read_from(path).map_err(broken)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(broken)?
        }
        None => Config::infer().await.map_err(ConnectError::NoCluster)?,
    };
    from_config(config, deadline, metrics)
}

/// Builds a client from a configuration, with our deadlines and counters; see [`connect`].
pub fn from_config(
    mut config: Config,
    deadline: Duration,
    metrics: &Arc<Metrics>,
) -> Result<Client, ConnectError> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    config.default_retry = false;
    // Audit logs and `managedFields` name writers by it, up to the slash.
    config.headers.push((
        USER_AGENT,
        HeaderValue::from_static(concat!("garm-operator/", env!("CARGO_PKG_VERSION"))),
    ));
    let host = config
        .cluster_url
        .authority()
        .map_or_else(|| Arc::from(""), |authority| Arc::from(authority.as_str()));
    let metrics = Arc::clone(metrics);
    let layer = AroundLayer {
        deadline: Some(deadline),
        may_write: None,
        observer: Arc::new(move |answered: &Answered| {
            let code = answered.code.map(|code| code.as_u16());
            metrics.kube_request(code, name_of(&answered.method), &host);
        }),
    };
    Ok(ClientBuilder::try_from(config)
        .map_err(ConnectError::Client)?
        .with_layer(&layer)
        .build())
}

/// Gives a client like `client` that calls `accepted` whenever the API server accepts a watch request.
///
/// kube's watcher keeps to itself that a quiet watch was renewed, which is how a quiet watch shows that it lives.
pub(super) fn watched(client: &Client, accepted: impl Fn() + Send + Sync + 'static) -> Client {
    let layer = AroundLayer {
        deadline: None,
        may_write: None,
        observer: Arc::new(move |answered: &Answered| {
            if answered.watch && answered.code.is_some_and(|code| code.is_success()) {
                accepted();
            }
        }),
    };
    ClientBuilder::new(Through(client.clone()), client.default_namespace())
        .with_layer(&layer)
        .build()
}

/// Gives a client like `client` that asks `may_write` just before each request that changes something.
///
/// Once it answers no it must not answer yes again: a request that may not begin does not fail, which would be taken for news of the API
/// server, but waits until whoever made it is dropped.
pub fn permitted(client: &Client, may_write: impl Fn() -> bool + Send + Sync + 'static) -> Client {
    let layer = AroundLayer {
        deadline: None,
        may_write: Some(Arc::new(may_write)),
        observer: Arc::new(|_| {}),
    };
    ClientBuilder::new(Through(client.clone()), client.default_namespace())
        .with_layer(&layer)
        .build()
}

/// Names our kinds that the API server does not serve, of `plurals` in `api_version` (group/version).
///
/// Without the CRDs every watch fails; the start-up log says so with [`missing_crds_hint`]. Needs no rights beyond
/// those that every account has.
pub async fn missing_crds(
    client: &Client,
    api_version: &str,
    plurals: &[&str],
) -> kube::Result<Vec<String>> {
    let served = match client.list_api_group_resources(api_version).await {
        Ok(list) => list
            .resources
            .into_iter()
            .map(|resource| resource.name)
            .collect(),
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error),
    };
    Ok(absent(plurals, &served))
}

fn absent(plurals: &[&str], served: &[String]) -> Vec<String> {
    let missing = plurals
        .iter()
        .filter(|plural| !served.iter().any(|name| name == *plural));
    missing.map(|&plural| plural.to_owned()).collect()
}

/// Says what to do about missing kinds.
pub fn missing_crds_hint(missing: &[String]) -> String {
    format!(
        "the API server does not serve {}; install the CRDs with `kubectl apply -f crds/`",
        missing.join(", ")
    )
}

/// Tells a failed request in one stable sentence for logs and conditions. kube's own text repeats itself and carries
/// the debug form of the whole answer.
pub fn explain(error: &kube::Error) -> String {
    let text = match error {
        kube::Error::Api(status) => format!("{} ({})", status.message.trim_end(), status.code),
        // The layers around the transport only say that something within them failed.
        kube::Error::Service(source) => innermost(source.as_ref()).to_string(),
        kube::Error::HyperError(source) => innermost(source).to_string(),
        other => other.to_string(),
    };
    cut(&text, EXPLANATION_MAX).to_owned()
}

fn innermost<'a>(mut error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

/// A request that is over, as far as the head of its answer.
struct Answered {
    method: Method,
    watch: bool,
    /// `None` when there was no answer.
    code: Option<StatusCode>,
}

/// Names a method without keeping the request.
fn name_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

type Observer = Arc<dyn Fn(&Answered) + Send + Sync>;

/// Puts a deadline on the head of every answer and shows it to an observer; holds back what may not be written.
#[derive(Clone)]
struct AroundLayer {
    deadline: Option<Duration>,
    may_write: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    observer: Observer,
}

impl<S> Layer<S> for AroundLayer {
    type Service = Around<S>;

    fn layer(&self, inner: S) -> Around<S> {
        Around {
            inner,
            layer: self.clone(),
        }
    }
}

#[derive(Clone)]
struct Around<S> {
    inner: S,
    layer: AroundLayer,
}

impl<S, B: 'static> Service<Request<Body>> for Around<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, watch) = (request.method().clone(), is_watch(&request));
        let AroundLayer {
            deadline,
            may_write,
            observer,
        } = self.layer.clone();
        if method != Method::GET && may_write.is_some_and(|may_write| !may_write()) {
            return Box::pin(std::future::pending());
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = match deadline {
                None => answer.await.map_err(Into::into),
                Some(deadline) => match tokio::time::timeout(deadline, answer).await {
                    Ok(answer) => answer.map_err(Into::into),
                    Err(_) => {
                        Err(format!("the API server did not answer within {deadline:?}").into())
                    }
                },
            };
            let code = answer.as_ref().ok().map(Response::status);
            observer(&Answered {
                method,
                watch,
                code,
            });
            answer
        })
    }
}

/// Makes a service of a client, so that it can be wrapped once more.
#[derive(Clone)]
struct Through(Client);

impl Service<Request<Body>> for Through {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = kube::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move { client.send(request).await })
    }
}

fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::{
        runtime::testing::{FakeApi, Reply},
        telemetry::metrics::Format,
    };

    #[tokio::test]
    async fn names_a_kubeconfig_that_is_not_there() {
        let path = Path::new("/nonexistent/kubeconfig");
        let error = connect(Some(path), Duration::from_secs(1), &Arc::default())
            .await
            .err()
            .unwrap();
        let text = error.to_string();
        assert!(
            text.contains("/nonexistent/kubeconfig") && text.contains("--kubeconfig"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn gives_up_on_an_api_server_that_does_not_answer() {
        // Accepts connections and says nothing.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let metrics = Arc::new(Metrics::new());
        let config = Config::new(url.parse().unwrap());
        let client = from_config(config, Duration::from_millis(20), &metrics).unwrap();
        let error = missing_crds(&client, "g/v1", &["pools"]).await.unwrap_err();
        assert!(
            error.to_string().contains("did not answer within 20ms"),
            "{error}"
        );
        let text = metrics.encode(Format::Text).unwrap();
        assert!(
            text.contains("rest_client_requests_total{code=\"<error>\",method=\"GET\""),
            "{text}"
        );
    }

    #[tokio::test]
    async fn explains_failures_in_one_sentence() {
        let fake = FakeApi::new(|_| Reply::status(403, "Forbidden", "pools is forbidden"));
        let error = missing_crds(&fake.client(), "g/v1", &["pools"])
            .await
            .unwrap_err();
        assert_eq!(explain(&error), "pools is forbidden (403)");

        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", nobody.local_addr().unwrap());
        drop(nobody);
        let config = Config::new(url.parse().unwrap());
        let client = from_config(config, Duration::from_secs(10), &Arc::default()).unwrap();
        let error = missing_crds(&client, "g/v1", &["pools"]).await.unwrap_err();
        assert!(
            explain(&error).starts_with("Connection refused"),
            "{}",
            explain(&error)
        );
    }

    #[tokio::test]
    async fn what_may_not_be_written_is_not_sent_and_reading_goes_on() {
        use k8s_openapi::api::core::v1::ConfigMap;
        use kube::api::{Api, DeleteParams};
        let fake = FakeApi::new(|_| Reply::status(404, "NotFound", "no such object"));
        let allowed = Arc::new(AtomicBool::new(true));
        let client = permitted(&fake.client(), {
            let allowed = Arc::clone(&allowed);
            move || allowed.load(Ordering::SeqCst)
        });
        let maps: Api<ConfigMap> = Api::namespaced(client, "ns");
        let parameters = DeleteParams::default();
        assert!(maps.delete("a", &parameters).await.is_err());
        allowed.store(false, Ordering::SeqCst);
        let held = maps.delete("a", &parameters);
        let held = tokio::time::timeout(Duration::from_millis(20), held).await;
        assert!(held.is_err(), "neither sent nor failed");
        assert!(maps.get_opt("a").await.unwrap().is_none());
        let requests = fake.requests();
        let methods: Vec<&str> = requests.iter().map(|one| one.method.as_str()).collect();
        assert_eq!(methods, ["DELETE", "GET"]);
    }

    #[tokio::test]
    async fn takes_an_unknown_group_as_no_kinds() {
        let fake = FakeApi::new(|_| Reply::status(404, "NotFound", "no such group"));
        let missing = missing_crds(&fake.client(), "g/v1", &["images", "pools"]).await;
        assert_eq!(missing.unwrap(), ["images", "pools"]);
    }

    #[test]
    fn finds_the_kinds_that_are_not_served() {
        let served = ["pools".to_owned(), "pools/status".to_owned()];
        assert_eq!(absent(&["images", "pools"], &served), ["images"]);
        assert_eq!(
            missing_crds_hint(&["images".to_owned(), "pools".to_owned()]),
            "the API server does not serve images, pools; install the CRDs with `kubectl apply -f crds/`"
        );
    }

    #[test]
    fn knows_a_watch_by_its_query() {
        let request = |uri: &str| Request::builder().uri(uri).body(()).unwrap();
        assert!(is_watch(&request(
            "/api/v1/secrets?&watch=true&timeoutSeconds=290"
        )));
        assert!(!is_watch(&request("/api/v1/secrets?limit=500")));
        assert!(!is_watch(&request("/api/v1/watch=true")));
    }
}
