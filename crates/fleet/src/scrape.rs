//! One request to a router for its metrics, over HTTP/1.1.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::exposition::{ExpositionError, Lines};
use crate::metrics::Metrics;
use crate::metrics_url::MetricsUrl;

/// Octets of the head of an answer, and of what is buffered of it.
const BUFFER: usize = 16 * 1024;
/// Most addresses of a host that are tried.
const MAX_ADDRESSES: usize = 4;
/// Most characters of a foreign content type in an error.
const LONGEST_TYPE: usize = 80;

/// Why a router gave no metrics.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// The name of the host has no address.
    #[error("cannot resolve host {host}: {source}")]
    Resolve {
        /// Name of the host.
        host: String,
        /// The system's error.
        source: io::Error,
    },
    /// No connection is possible.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address of the router.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The answer was not complete in time.
    #[error("no complete answer within {0:?}")]
    Timeout(Duration),
    /// The answer is no HTTP, or it ended too early.
    #[error("invalid HTTP answer: {0}")]
    Http(#[from] hyper::Error),
    /// The answer is not a success.
    #[error("HTTP status {0}")]
    Status(StatusCode),
    /// The answer is no text of metrics.
    #[error(
        "the answer has the content type {0:?}, not that of metrics; help: check the URL, which ends with /metrics"
    )]
    ContentType(String),
    /// The metrics are malformed or too large.
    #[error("invalid metrics: {0}")]
    Exposition(#[from] ExpositionError),
    /// The metrics are those of another program.
    #[error("metrics of another program: earmark_build_info is missing")]
    OtherProgram,
}

/// Scrapes one router.
#[derive(Debug)]
pub struct Scraper {
    url: MetricsUrl,
    timeout: Duration,
    max_links: usize,
    /// A look-up of the host's name that has not ended yet. The system offers no way to end it, so no other one begins meanwhile.
    resolving: Option<JoinHandle<io::Result<Vec<SocketAddr>>>>,
}

impl Scraper {
    /// Prepares to scrape a router; `timeout` bounds the whole request.
    pub fn new(url: MetricsUrl, timeout: Duration, max_links: usize) -> Scraper {
        Scraper { url, timeout, max_links, resolving: None }
    }

    /// Requests the metrics.
    ///
    /// # Errors
    /// There is no complete and valid answer in time.
    pub async fn scrape(&mut self) -> Result<Metrics, ScrapeError> {
        let longest = self.timeout;
        timeout(longest, self.request()).await.unwrap_or(Err(ScrapeError::Timeout(longest)))
    }

    async fn request(&mut self) -> Result<Metrics, ScrapeError> {
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(BUFFER)
            .handshake::<_, Empty<Bytes>>(stream)
            .await?;
        // Dropping the set ends the connection, whatever the router still sends.
        let mut connections = JoinSet::new();
        connections.spawn(connection);
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.url.path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        if let Ok(authority) = self.url.authority.parse() {
            headers.insert(HOST, authority);
        }
        headers.insert(
            ACCEPT,
            const { hyper::header::HeaderValue::from_static("text/plain; version=0.0.4") },
        );
        headers
            .insert(USER_AGENT, const { hyper::header::HeaderValue::from_static("earmark-fleet") });
        let mut answer = sender.send_request(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(ScrapeError::Status(answer.status()));
        }
        let content_type =
            answer.headers().get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        let essence = content_type.split(|octet| *octet == b';').next().unwrap_or_default();
        if ![&b"text/plain"[..], b"application/openmetrics-text"].contains(&essence.trim_ascii()) {
            let shown = String::from_utf8_lossy(content_type).chars().take(LONGEST_TYPE).collect();
            return Err(ScrapeError::ContentType(shown));
        }
        let (mut lines, mut metrics) = (Lines::default(), Metrics::default());
        while let Some(frame) = answer.body_mut().frame().await {
            if let Some(part) = frame?.data_ref() {
                lines.push(part, |sample| metrics.add(sample, self.max_links))?;
            }
        }
        lines.finish()?;
        if metrics.version.is_none() {
            return Err(ScrapeError::OtherProgram);
        }
        Ok(metrics)
    }

    async fn connect(&mut self) -> Result<TcpStream, ScrapeError> {
        let mut failure = None;
        for address in self.resolve().await? {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(source) => failure = Some(ScrapeError::Connect { address, source }),
            }
        }
        Err(failure.unwrap_or_else(|| self.unresolved(io::Error::other("no address"))))
    }

    async fn resolve(&mut self) -> Result<Vec<SocketAddr>, ScrapeError> {
        if let Ok(address) = self.url.host.parse() {
            return Ok(vec![SocketAddr::new(address, self.url.port)]);
        }
        let host = (self.url.host.clone(), self.url.port);
        let resolving = self.resolving.get_or_insert_with(|| {
            tokio::spawn(async move { Ok(lookup_host(host).await?.take(MAX_ADDRESSES).collect()) })
        });
        let resolved = resolving.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        self.resolving = None;
        resolved.map_err(|source| self.unresolved(source))
    }

    fn unresolved(&self, source: io::Error) -> ScrapeError {
        ScrapeError::Resolve { host: self.url.host.clone(), source }
    }
}
