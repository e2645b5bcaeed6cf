//! Connections of a listening socket, bounded in number, time and octets.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Pause after a failure to accept, probably because no descriptors are left.
pub const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most connections at a time; further ones wait.
    pub connections: usize,
    /// Time after which a connection ends.
    pub longest: Duration,
    /// Octets of the head of a request, and of what is buffered for a connection; 8 192 at least.
    pub buffer: usize,
}

/// Serves connections with one request each, until the runtime ends. A connection that fails or takes too long concerns its
/// client alone.
pub async fn serve<F>(
    listener: TcpListener,
    bounds: Bounds,
    answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static,
) where
    F: Future<Output = Response<Full<Bytes>>> + Send,
{
    let places = Arc::new(Semaphore::new(bounds.connections));
    let answer = Arc::new(answer);
    while let Ok(place) = places.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let answered = answer(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).keep_alive(false).max_buf_size(bounds.buffer);
            let served = http.serve_connection(TokioIo::new(stream), service);
            let _ = timeout(bounds.longest, served).await;
            drop(place);
        });
    }
}
