//! Sends one request and hands over the answer. Knows nothing of tokens, turns or tries.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;
use url::Url;

use super::error::{Error, Transport};
use super::observer::{Called, Observer};
use super::settings::Settings;
use super::under_way::UnderWay;

/// How old the last look at the CA file may be.
const CA_FILE_AGE: Duration = Duration::from_secs(5);

/// Below GARM's keep-alive of 60 s, so that it does not close a connection just as it is used.
const IDLE_CONNECTION: Duration = Duration::from_secs(50);

/// A request.
pub(super) struct Request<'a> {
    /// Its label in metrics and messages: `pool.Get`.
    pub label: &'static str,
    pub method: Method,
    /// Its route below `/api/v1`, with a placeholder in braces for each of `args`.
    pub route: &'static str,
    pub args: &'a [&'a str],
    pub query: &'a [(&'a str, &'a str)],
    /// JSON, if any.
    pub body: Option<Vec<u8>>,
}

/// An answer of any status.
pub(super) struct Answer {
    pub status: u16,
    pub content_type: String,
    pub retry_after: Option<Duration>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Says whether GARM did what was asked.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// The connections to one GARM.
pub(super) struct Http {
    settings: Arc<Settings>,
    observer: Arc<dyn Observer>,
    connection: Mutex<Option<Connection>>,
    pub(super) under_way: UnderWay,
}

/// Connections that trust one state of the CA file.
#[derive(Clone)]
struct Connection {
    checked: Instant,
    ca: Option<Vec<u8>>,
    client: reqwest::Client,
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Http {
    pub(super) fn new(settings: Arc<Settings>, observer: Arc<dyn Observer>) -> Self {
        Self {
            settings,
            observer,
            connection: Mutex::new(None),
            under_way: UnderWay::default(),
        }
    }

    /// Sends a request. Only a missing answer is an error; what the answer means is for the caller.
    pub(super) async fn send(
        &self,
        request: &Request<'_>,
        token: Option<&SecretString>,
    ) -> Result<Answer, Error> {
        let client = self.connection().await?.client;
        let url = self.url(request.route, request.args, request.query);
        let mut builder = client.request(request.method.clone(), url);
        if let Some(token) = token {
            builder = builder.header(AUTHORIZATION, format!("Bearer {}", token.expose_secret()));
        }
        if let Some(body) = &request.body {
            builder = builder
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone());
        }
        self.settings.permit.wait().await;
        let started = Instant::now();
        let result = {
            let _under_way = self.under_way.begin();
            receive(builder).await
        };
        self.observer.request(&Called {
            label: request.label,
            method: name_of(&request.method),
            route: request.route,
            status: result.as_ref().ok().map(|answer| answer.status),
            duration: started.elapsed(),
        });
        result.map_err(|error| failure(&error))
    }

    /// Gives the address of the events socket, and how to trust it when a CA file is set; to be dialled at once.
    pub(super) async fn socket(&self) -> Result<(Url, Option<Arc<rustls::ClientConfig>>), Error> {
        let tls = self.connection().await?.tls;
        let mut url = self.url("/ws/events", &[], &[]);
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        // Cannot fail between these schemes.
        let _ = url.set_scheme(scheme);
        self.settings.permit.wait().await;
        Ok((url, tls))
    }

    fn url(&self, route: &str, args: &[&str], query: &[(&str, &str)]) -> Url {
        url(&self.settings.base_url, route, args, query)
    }

    /// Gives connections that trust the CA file as it is now.
    async fn connection(&self) -> Result<Connection, Error> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = &*current
            && (self.settings.ca_file.is_none() || connection.checked.elapsed() < CA_FILE_AGE)
        {
            return Ok(connection.clone());
        }
        let ca = self.read_ca_file().await?;
        let connection = match current.take() {
            Some(same) if same.ca == ca => Connection {
                checked: Instant::now(),
                ..same
            },
            _ => self.connect(ca)?,
        };
        *current = Some(connection.clone());
        Ok(connection)
    }

    async fn read_ca_file(&self) -> Result<Option<Vec<u8>>, Error> {
        let Some(path) = &self.settings.ca_file else {
            return Ok(None);
        };
        match tokio::fs::read(path).await {
            Ok(pem) => Ok(Some(pem)),
            Err(error) => {
                let fault = format!("{} could not be read: {}", path.display(), error.kind());
                Err(Error::Transport(Transport::CaFile(fault)))
            }
        }
    }

    fn connect(&self, ca: Option<Vec<u8>>) -> Result<Connection, Error> {
        let timings = &self.settings.timings;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(timings.connect)
            .timeout(timings.call)
            .pool_idle_timeout(IDLE_CONNECTION)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("garm-operator/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&self.settings.base_url) {
            builder = builder.no_proxy();
        }
        let mut tls = None;
        if let Some(pem) = &ca {
            let certificates = self.certificates(pem)?;
            tls = Some(Arc::new(trust_only(&certificates)?));
            let certificates = certificates
                .iter()
                .map(|der| reqwest::Certificate::from_der(der))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| failure(&error))?;
            builder = builder.tls_certs_only(certificates);
        } else if self.settings.base_url.scheme() == "http" {
            // Plain HTTP needs no certificates, and must not fail on a system that has none.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| failure(&error))?;
        Ok(Connection {
            checked: Instant::now(),
            ca,
            client,
            tls,
        })
    }

    fn certificates(&self, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
            .filter_map(Result::ok)
            .collect();
        if certificates.is_empty() {
            let path = self
                .settings
                .ca_file
                .as_deref()
                .unwrap_or_else(|| "".as_ref());
            let fault = format!("{} holds no PEM certificate", path.display());
            return Err(Error::Transport(Transport::CaFile(fault)));
        }
        Ok(certificates)
    }
}

/// Names a method without keeping the request.
fn name_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// Builds the TLS side of the events socket, which trusts what the HTTP client trusts.
fn trust_only(certificates: &[CertificateDer<'static>]) -> Result<rustls::ClientConfig, Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Transport(Transport::Other(error.to_string())))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

async fn receive(builder: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    let response = builder.send().await?;
    let header = |name| {
        response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let content_type = header(CONTENT_TYPE).unwrap_or_default().to_owned();
    let retry_after = header(RETRY_AFTER)
        .and_then(|seconds| seconds.parse().ok())
        .map(Duration::from_secs);
    Ok(Answer {
        status: response.status().as_u16(),
        content_type,
        retry_after,
        body: response.bytes().await?.to_vec(),
    })
}

/// Builds an address: the base's path, `/api/v1`, and the route with its placeholders filled and escaped.
fn url(base: &Url, route: &str, args: &[&str], query: &[(&str, &str)]) -> Url {
    let mut url = base.clone();
    url.set_fragment(None);
    url.set_query(None);
    let mut args = args.iter();
    // Fails only for addresses without a host, which the configuration refuses.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(["api", "v1"]);
        for segment in route.split('/').filter(|segment| !segment.is_empty()) {
            match args.as_slice().first() {
                Some(arg) if segment.starts_with('{') => {
                    path.push(arg);
                    args.next();
                }
                _ => {
                    path.push(segment);
                }
            }
        }
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

fn is_loopback(base: &Url) -> bool {
    match base.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Says why no answer came, in words that do not change from try to try.
fn failure(error: &reqwest::Error) -> Error {
    if error.is_timeout() && !error.is_connect() {
        return Error::Timeout;
    }
    Error::Transport(if error.is_timeout() {
        Transport::NoConnection
    } else {
        cause(error, error.is_connect())
    })
}

/// Finds the cause of a failed connection in an error's sources.
pub(super) fn cause(error: &(dyn StdError + 'static), is_connect: bool) -> Transport {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if let Some(io) = io
            && io.kind() == io::ErrorKind::ConnectionRefused
        {
            return Transport::Refused;
        }
        let tls = tls_fault(error);
        if let Some(tls) = tls {
            return match tls {
                rustls::Error::InvalidCertificate(why) => {
                    Transport::Certificate(certificate_fault(why).to_owned())
                }
                _ => Transport::Other(
                    "no TLS connection could be made; check the scheme of garm.server".to_owned(),
                ),
            };
        }
        let text = error.to_string();
        if text.contains("dns error") || text.contains("failed to lookup address") {
            return Transport::Name;
        }
        next = error.source();
    }
    if is_connect {
        Transport::Other("no connection could be made; check garm.server".to_owned())
    } else {
        Transport::Closed
    }
}

/// Finds a TLS error that I/O errors wrap, perhaps several times; their `source` skips what they wrap.
fn tls_fault<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    error
        .downcast_ref::<rustls::Error>()
        .or_else(|| tls_fault(error.downcast_ref::<io::Error>()?.get_ref()?))
}

fn certificate_fault(error: &rustls::CertificateError) -> &'static str {
    use rustls::CertificateError as Fault;
    match error {
        Fault::UnknownIssuer => "unknown issuer",
        Fault::Expired | Fault::ExpiredContext { .. } => "expired",
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => "not valid yet",
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
            "made for another host name"
        }
        Fault::Revoked => "revoked",
        _ => "invalid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(base: &str, route: &str, args: &[&str], query: &[(&str, &str)]) -> String {
        url(&Url::parse(base).unwrap(), route, args, query).to_string()
    }

    #[test]
    fn keeps_the_base_path_with_and_without_a_trailing_slash() {
        for base in [
            "http://garm:9997/a/b",
            "http://garm:9997/a/b/",
            "http://garm:9997/a/b?x=1#y",
        ] {
            assert_eq!(
                address(base, "/pools", &[], &[]),
                "http://garm:9997/a/b/api/v1/pools"
            );
        }
        assert_eq!(
            address("https://garm", "/controller", &[], &[]),
            "https://garm/api/v1/controller"
        );
    }

    #[test]
    fn escapes_what_it_fills_in() {
        let address = address(
            "http://garm",
            "/github/endpoints/{name}",
            &["a/b ?#ü"],
            &[("forceRemove", "true")],
        );
        assert_eq!(
            address,
            "http://garm/api/v1/github/endpoints/a%2Fb%20%3F%23%C3%BC?forceRemove=true"
        );
    }

    #[test]
    fn finds_the_cause_however_deep_it_is_wrapped() {
        let untrusted = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, untrusted));
        let expected = Transport::Certificate("unknown issuer".to_owned());
        assert_eq!(cause(&wrapped, true), expected);
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(cause(&refused, true), Transport::Refused);
        assert_eq!(
            cause(&io::Error::other("broken pipe"), false),
            Transport::Closed
        );
    }

    #[test]
    fn fills_every_placeholder_in_order() {
        let address = address(
            "http://garm",
            "/pools/{id}/instances/{name}",
            &["7", "a"],
            &[],
        );
        assert_eq!(address, "http://garm/api/v1/pools/7/instances/a");
    }
}
