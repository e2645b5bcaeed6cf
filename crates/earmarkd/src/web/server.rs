//! The HTTP server of the page: connections with bounds, and what each path answers.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use earmark_control::LONGEST_LINE;
use earmark_http::access::{Refusal, check_host, check_origin};
use earmark_http::answer::{JSON, PAGE_HEADERS, plain, typed};
use earmark_http::files::find;
use earmark_http::listener::ACCEPT_BACKOFF;
use earmark_linux::PeerCredentials;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::WebSocket;
use super::access::{check_content_type, check_token};
use super::endpoint::HubConnector;
use super::event_streams::{EventBody, EventStreams};
use super::files::FILES;
use super::hub_client::HubClient;
use crate::control::{Role, Roles};

/// Most connections at a time; further ones wait. Streams of events take a part of them only.
pub(super) const CONNECTIONS: usize = 64;
/// Most requests to the hub at a time; further ones wait.
const REQUESTS: usize = 8;
/// Time after which a connection ends that is not a stream of events.
pub(super) const LONGEST: Duration = Duration::from_secs(10);
/// Time that a browser may take to read an event.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Octets of the head of a request, and of what is buffered for a connection.
const BUFFER: usize = 16 * 1024;
/// Seconds after which a browser asks again for a stream of events.
const RETRY: HeaderValue = HeaderValue::from_static("10");

type Answer = Response<Either<Full<Bytes>, EventBody>>;

/// What the tasks of the thread share.
pub(super) struct Server {
    listener: Accept,
    access: Access,
    hub: HubConnector,
    requests: Semaphore,
    streams: EventStreams,
}

enum Accept {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// What decides the role of a browser.
enum Access {
    Token(SocketAddr, Zeroizing<String>, Role),
    Peer(Roles),
}

/// User and role of a browser.
type User = (PeerCredentials, Role);

/// The daemon's own process, for which browsers with the token ask.
pub(super) fn own_credentials() -> PeerCredentials {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    PeerCredentials { pid, uid: rustix::process::geteuid().as_raw(), groups: Vec::new() }
}

impl Server {
    /// Prepares to serve a socket, in a runtime.
    ///
    /// # Errors
    /// The system refuses to wait for it.
    pub(super) fn new(socket: WebSocket, hub: HubConnector) -> io::Result<Server> {
        let (listener, access) = match socket {
            WebSocket::Tcp(listener, token, role) => {
                listener.set_nonblocking(true)?;
                let access = Access::Token(listener.local_addr()?, token, role);
                (Accept::Tcp(TcpListener::from_std(listener)?), access)
            }
            WebSocket::Unix(listener, roles) => {
                listener.set_nonblocking(true)?;
                (Accept::Unix(UnixListener::from_std(listener)?), Access::Peer(roles))
            }
        };
        let (requests, streams) = (Semaphore::new(REQUESTS), EventStreams::new());
        Ok(Server { listener, access, hub, requests, streams })
    }
}

/// Serves until the runtime ends.
pub(super) async fn serve(server: Server) {
    let server = Arc::new(server);
    let following = server.clone();
    tokio::spawn(async move { following.streams.follow(&following.hub).await });
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = places.clone().acquire_owned().await {
        match &server.listener {
            Accept::Tcp(listener) => match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = connection(server.clone(), stream, None, place);
                    tokio::spawn(connection);
                }
                Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
            },
            Accept::Unix(listener) => match listener.accept().await {
                Ok((stream, _)) => {
                    let Ok(stream) = stream.into_std() else { continue };
                    let peer = PeerCredentials::of(&stream).ok();
                    let Ok(stream) = tokio::net::UnixStream::from_std(stream) else { continue };
                    tokio::spawn(connection(server.clone(), stream, peer, place));
                }
                Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
            },
        }
    }
}

/// Serves a connection with one request, until a time has passed, or the stream of events has ended.
async fn connection<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    server: Arc<Server>,
    stream: S,
    peer: Option<PeerCredentials>,
    place: OwnedSemaphorePermit,
) {
    let is_stream = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request: Request<Incoming>| {
        let (server, peer, is_stream) = (server.clone(), peer.clone(), is_stream.clone());
        async move { Ok::<_, Infallible>(answer(request, &server, peer, is_stream).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).keep_alive(false).max_buf_size(BUFFER);
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
    // A connection that fails or takes too long concerns its browser alone.
    while timeout(LONGEST, &mut served).await.is_err() && is_stream.load(Ordering::Relaxed) {}
    drop(place);
}

async fn answer(
    request: Request<Incoming>,
    server: &Server,
    peer: Option<PeerCredentials>,
    is_stream: Arc<AtomicBool>,
) -> Answer {
    let answered = dispatch(request, server, peer, is_stream).await;
    let mut answer = answered
        .unwrap_or_else(|(status, text)| plain(status, format!("{text}\n")).map(Either::Left));
    let headers = answer.headers_mut();
    headers.extend(PAGE_HEADERS);
    match answer.status() {
        StatusCode::UNAUTHORIZED => {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::SERVICE_UNAVAILABLE => _ = answer.headers_mut().insert(RETRY_AFTER, RETRY),
        _ => {}
    }
    answer
}

async fn dispatch(
    request: Request<Incoming>,
    server: &Server,
    peer: Option<PeerCredentials>,
    is_stream: Arc<AtomicBool>,
) -> Result<Answer, Refusal> {
    let headers = request.headers();
    let address = match &server.access {
        Access::Token(address, ..) => Some(*address),
        Access::Peer(_) => None,
    };
    check_host(headers, address)?;
    check_origin(headers)?;
    let path = request.uri().path();
    let needed = if path == "/api" { Method::POST } else { Method::GET };
    if *request.method() != needed {
        let text = "another method is needed; help: POST for /api, GET for all others\n";
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, text);
        let allowed = if needed == Method::POST { "POST" } else { "GET" };
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        return Ok(answer.map(Either::Left));
    }
    if let Some(file) = find(FILES, path) {
        return Ok(typed(StatusCode::OK, file.content_type, file.content).map(Either::Left));
    }
    if !["/api", "/events", "/role"].contains(&path) {
        return Err((StatusCode::NOT_FOUND, "there is no such file; help: the page is at /"));
    }
    let user = match authenticate(&request, server, peer)? {
        Ok(user) => user,
        Err(forbidden) => {
            return Ok(typed(StatusCode::FORBIDDEN, JSON, forbidden).map(Either::Left));
        }
    };
    match path {
        "/api" => {
            check_content_type(headers)?;
            Ok(api(request, server, user).await?.map(Either::Left))
        }
        "/events" => {
            let busy = "too many browsers read events; help: close a tab, or try again";
            let body = server.streams.begin(is_stream);
            let body = body.ok_or((StatusCode::SERVICE_UNAVAILABLE, busy))?;
            let mut answer = typed(StatusCode::OK, "text/event-stream", "").map(Either::Left);
            *answer.body_mut() = Either::Right(body);
            Ok(answer)
        }
        _ => {
            let role = json!({ "role": user.1 }).to_string();
            Ok(typed(StatusCode::OK, JSON, role).map(Either::Left))
        }
    }
}

/// Returns the user of a request, or the answer to one without a role.
fn authenticate(
    request: &Request<Incoming>,
    server: &Server,
    peer: Option<PeerCredentials>,
) -> Result<Result<User, String>, Refusal> {
    match &server.access {
        Access::Token(_, token, role) => {
            check_token(request.headers(), token)?;
            Ok(Ok((own_credentials(), *role)))
        }
        Access::Peer(roles) => {
            let unknown = "the user of the connection is unknown; help: connect again";
            let peer = peer.ok_or((StatusCode::FORBIDDEN, unknown))?;
            Ok(match roles.role(&peer) {
                Ok(role) => Ok((peer, role)),
                Err(problem) => Err(json!({ "error": problem }).to_string()),
            })
        }
    }
}

/// Passes one request on to the hub.
async fn api(
    request: Request<Incoming>,
    server: &Server,
    (peer, role): User,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let body = Limited::new(request.into_body(), LONGEST_LINE).collect().await.map_err(|_| {
        (StatusCode::PAYLOAD_TOO_LARGE, "the request exceeds 65536 octets, or was cut off; help: send one request of the control protocol")
    })?;
    // One line, whatever the layout was.
    let line: Value = serde_json::from_slice(&body.to_bytes()).map_err(|_| {
        (StatusCode::BAD_REQUEST, "the content is not JSON; help: send one request of the control protocol, such as {\"show\":{\"what\":\"links\"}}")
    })?;
    let busy = (StatusCode::SERVICE_UNAVAILABLE, "the daemon is busy; help: try again");
    let _place = server.requests.acquire().await.map_err(|_| busy)?;
    let ask = async {
        let mut client = HubClient::new(server.hub.connect(peer, role)?)?;
        client.send(&line.to_string()).await?;
        client.answer().await
    };
    let answer = ask.await.map_err(|_| busy)?;
    let status = match () {
        () if answer.starts_with(r#"{"ok""#) => StatusCode::OK,
        () if answer.starts_with(r#"{"error":{"code":"forbidden""#) => StatusCode::FORBIDDEN,
        () => StatusCode::BAD_REQUEST,
    };
    Ok(typed(status, JSON, answer))
}
