use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::{body::Body, routing::get};
use http::{Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tokio::{sync::Semaphore, task::JoinHandle};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;
use crate::server::testing::Authority;

const LONG: Duration = Duration::from_secs(20);

/// A listener with times that suit a test, and a client that trusts one CA.
struct Served {
    address: SocketAddr,
    certificate: Arc<ServerCertificate>,
    authority: Authority,
    stop: CancellationToken,
    server: JoinHandle<Result<(), rustls::Error>>,
    /// Lets one answer of `/slow` out for each permit.
    gate: Arc<Semaphore>,
}

fn times() -> WebhookTimings {
    WebhookTimings {
        handshake: Duration::from_millis(500),
        connection_age_min: Duration::from_millis(150),
        serve_on: Duration::from_millis(300),
        drain: Duration::from_secs(5),
        ..WebhookTimings::default()
    }
}

impl Served {
    async fn start(times: WebhookTimings) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let certificate = Arc::new(ServerCertificate::default());
        let stop = CancellationToken::new();
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let router = Router::new().route("/", get(|| async { "hello" })).route(
            "/slow",
            get(move || async move {
                held.acquire().await.unwrap().forget();
                "late"
            }),
        );
        let server = tokio::spawn(serve(
            listener,
            router,
            Arc::clone(&certificate),
            times,
            stop.clone(),
        ));
        Self {
            address,
            certificate,
            authority: Authority::new(),
            stop,
            server,
            gate,
        }
    }

    async fn with_certificate(times: WebhookTimings) -> Self {
        let served = Self::start(times).await;
        served.certificate.install(served.authority.pair());
        served
    }

    async fn dial(&self, protocol: &str) -> io::Result<TlsStream<TcpStream>> {
        dial(self.address, &self.authority.pem, protocol).await
    }

    /// Stops the listener and tells whether it ended.
    async fn ended(self) {
        self.stop.cancel();
        timeout(LONG, self.server).await.unwrap().unwrap().unwrap();
    }
}

async fn dial(
    address: SocketAddr,
    ca_pem: &str,
    protocol: &str,
) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap())
        .unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// The certificate that the server showed on this connection.
fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    let certificates = stream.get_ref().1.peer_certificates().unwrap();
    certificates[0].clone().into_owned()
}

async fn http2(stream: TlsStream<TcpStream>) -> http2::SendRequest<Body> {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

async fn http1(stream: TlsStream<TcpStream>) -> http1::SendRequest<Body> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(path: &str) -> Request<Body> {
    let uri = format!("https://localhost{path}");
    Request::get(uri)
        .header("host", "localhost")
        .body(Body::empty())
        .unwrap()
}

async fn text(answer: Response<Incoming>) -> String {
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn speaks_both_protocols_as_the_client_wishes() {
    let served = Served::with_certificate(times()).await;
    let mut client = http2(served.dial("h2").await.unwrap()).await;
    let answer = client.send_request(request("/")).await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_2);
    assert_eq!(text(answer).await, "hello");
    let mut client = http1(served.dial("http/1.1").await.unwrap()).await;
    let answer = client.send_request(request("/nothing")).await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_11);
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    served.ended().await;
}

#[tokio::test]
async fn refuses_handshakes_until_there_is_a_certificate() {
    let served = Served::start(times()).await;
    served.certificate.explain("the folder is empty");
    assert_eq!(
        served.certificate.check(),
        Err("the folder is empty".into())
    );
    served.dial("h2").await.unwrap_err();
    served.certificate.install(served.authority.pair());
    assert_eq!(served.certificate.check(), Ok(()));
    served.dial("h2").await.unwrap();
    served.ended().await;
}

#[tokio::test]
async fn a_client_that_says_nothing_holds_up_nobody() {
    let served = Served::with_certificate(times()).await;
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    timeout(LONG, served.dial("h2")).await.unwrap().unwrap();
    // It is dropped when its time for the handshake is over.
    let mut byte = [0];
    let read = tokio::io::AsyncReadExt::read(&mut silent, &mut byte);
    assert!(matches!(timeout(LONG, read).await.unwrap(), Ok(0) | Err(_)));
    served.ended().await;
}

#[tokio::test]
async fn a_new_certificate_ends_http2_connections_after_the_answers_under_way() {
    let served = Served::with_certificate(times()).await;
    let stream = served.dial("h2").await.unwrap();
    let old = shown(&stream);
    let mut client = http2(stream).await;
    let slow = tokio::spawn(client.send_request(request("/slow")));
    let answer = client.send_request(request("/")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    served.certificate.install(served.authority.pair());
    // The server has said goodbye when the client takes no more requests.
    let closed = async {
        while client.send_request(request("/")).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, closed).await.unwrap();
    assert!(!slow.is_finished());
    served.gate.add_permits(1);
    let late = timeout(LONG, slow).await.unwrap().unwrap().unwrap();
    assert_eq!(text(late).await, "late");
    let stream = served.dial("h2").await.unwrap();
    assert_ne!(shown(&stream), old);
    served.ended().await;
}

#[tokio::test]
async fn a_new_certificate_ends_http1_connections_with_their_next_answer() {
    let served = Served::with_certificate(times()).await;
    let mut client = http1(served.dial("http/1.1").await.unwrap()).await;
    let answer = client.send_request(request("/")).await.unwrap();
    assert!(!answer.headers().contains_key("connection"));
    text(answer).await;
    served.certificate.install(served.authority.pair());
    // An idle connection stays: whoever writes into it at this moment must not find it closed.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let answer = client.send_request(request("/")).await.unwrap();
    assert_eq!(answer.headers()["connection"], "close");
    assert_eq!(text(answer).await, "hello");
    served.ended().await;
}

#[tokio::test]
async fn serves_on_for_a_moment_after_the_stop_and_answers_what_is_under_way() {
    let served = Served::with_certificate(WebhookTimings {
        serve_on: Duration::from_millis(700),
        ..times()
    })
    .await;
    let mut client = http2(served.dial("h2").await.unwrap()).await;
    let slow = tokio::spawn(client.send_request(request("/slow")));
    served.stop.cancel();
    let mut late = http2(served.dial("h2").await.unwrap()).await;
    let answer = late.send_request(request("/")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let refused = async {
        while TcpStream::connect(served.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, refused).await.unwrap();
    served.gate.add_permits(1);
    let answer = timeout(LONG, slow).await.unwrap().unwrap().unwrap();
    assert_eq!(text(answer).await, "late");
    served.ended().await;
}

#[tokio::test]
async fn cuts_requests_that_outlast_the_stop() {
    let served = Served::with_certificate(WebhookTimings {
        drain: Duration::from_millis(100),
        ..times()
    })
    .await;
    let mut client = http2(served.dial("h2").await.unwrap()).await;
    let slow = tokio::spawn(client.send_request(request("/slow")));
    let answer = client.send_request(request("/")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    served.ended().await;
    timeout(LONG, slow).await.unwrap().unwrap().unwrap_err();
}

/// Calls again and again, on a connection that is kept while it lives; counts itself as `moved` with its third connection.
async fn call_until(
    address: SocketAddr,
    ca_pem: String,
    is_http2: bool,
    moved: Arc<AtomicUsize>,
    end: CancellationToken,
) {
    let mut connections = 0;
    while !end.is_cancelled() {
        connections += 1;
        if connections == 3 {
            moved.fetch_add(1, Ordering::SeqCst);
        }
        if is_http2 {
            let mut client = http2(dial(address, &ca_pem, "h2").await.unwrap()).await;
            while !end.is_cancelled() && client.ready().await.is_ok() {
                match client.try_send_request(request("/")).await {
                    Ok(answer) => assert_eq!(text(answer).await, "hello"),
                    // The goodbye came first: the call has not been begun, and every client sends it again elsewhere.
                    Err(mut error) => {
                        let told = format!("{:?}", error.error());
                        let is_goodbye = told.contains("GoAway(b\"\", NO_ERROR, Remote)");
                        assert!(is_goodbye || error.take_message().is_some(), "{told}");
                        break;
                    }
                }
            }
        } else {
            let mut client = http1(dial(address, &ca_pem, "http/1.1").await.unwrap()).await;
            loop {
                client.ready().await.unwrap();
                let answer = client.send_request(request("/")).await.unwrap();
                let is_last = answer.headers().contains_key("connection");
                assert_eq!(text(answer).await, "hello");
                if is_last || end.is_cancelled() {
                    break;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_the_certificate_changes_all_the_time() {
    // A busy machine is slow at the handshakes of so many.
    let patient = WebhookTimings {
        handshake: LONG,
        ..times()
    };
    let served = Served::with_certificate(patient).await;
    let (moved, end) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let clients: Vec<_> = (0..16)
        .map(|index| {
            let (pem, moved) = (served.authority.pem.clone(), Arc::clone(&moved));
            let is_http2 = index % 2 == 0;
            tokio::spawn(call_until(
                served.address,
                pem,
                is_http2,
                moved,
                end.clone(),
            ))
        })
        .collect();
    let all_move = async {
        let mut rounds = 0;
        while rounds < 30 || moved.load(Ordering::SeqCst) < 16 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            served.certificate.install(served.authority.pair());
            rounds += 1;
        }
    };
    timeout(LONG * 3, all_move).await.unwrap();
    end.cancel();
    for client in clients {
        timeout(LONG, client).await.unwrap().unwrap();
    }
    served.ended().await;
}

#[test]
fn takes_chains_and_keys_of_all_sorts() {
    let authority = Authority::new();
    let below = authority.intermediate();
    for key in crate::server::testing::keys() {
        let pair =
            Pair::from_pem(below.leaf(&key).as_bytes(), key.serialize_pem().as_bytes()).unwrap();
        assert_eq!(pair.chain().len(), 2);
        assert!(pair.not_after > jiff::Timestamp::now());
    }
}

#[test]
fn refuses_what_does_not_belong_together_or_is_broken() {
    let authority = Authority::new();
    let (chain, key) = authority.pems();
    let (other, _) = authority.pems();
    let refusal = |chain: &str, key: &str| {
        Pair::from_pem(chain.as_bytes(), key.as_bytes())
            .unwrap_err()
            .to_string()
    };
    assert!(refusal(&other, &key).contains("do not work together"));
    assert!(refusal("", &key).contains("no certificate"));
    assert!(refusal(&chain, "").contains("the key"));
    let cut = &chain[..chain.len() / 2];
    assert!(refusal(cut, &key).contains("certificate"));
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(refusal(nonsense, &key).contains("no X.509"));
    let second = format!("{chain}{nonsense}");
    assert!(refusal(&second, &key).contains("no X.509"));
}
