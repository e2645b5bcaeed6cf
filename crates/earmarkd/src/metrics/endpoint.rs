//! The endpoint: a thread that serves HTTP, and the side of the event loop that answers its questions.
//!
//! A scraper is answered with one collection, which others share for a moment. A connection has one request and ends after
//! ten seconds in any case, so that a scraper that never reads holds a place for this time only.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use earmark_core::Time;
use earmark_http::answer::{plain, typed};
use earmark_http::listener::{Bounds, serve};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout};

use super::MetricsSettings;
use super::collection::Collection;
use super::family::Family;
use super::histogram::Histogram;
use super::process;
use super::text::Format;
use crate::control::Hub;
use crate::driver::{Driver, Kernel};
use crate::server_thread::ServerThread;
use crate::syscall_filter::SyscallFilter;

/// Most connections at a time; further ones wait.
const CONNECTIONS: usize = 16;
/// Time after which a connection ends.
const LONGEST: Duration = Duration::from_secs(10);
/// Bounds of the connections.
const BOUNDS: Bounds = Bounds { connections: CONNECTIONS, longest: LONGEST, buffer: 16 * 1024 };
/// Time that the event loop has for a collection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Age up to which a collection is used again.
const FRESH: Duration = Duration::from_millis(100);

type Families = Arc<Vec<Family>>;
type Answer = Response<Full<Bytes>>;

/// The endpoint on the side of the event loop.
pub(crate) struct Endpoint {
    bound: usize,
    /// Readable while a collection is wanted.
    wanted: Arc<OwnedFd>,
    questions: mpsc::Receiver<oneshot::Sender<Families>>,
    collection: Option<Collection>,
    /// Times of the turns of the event loop.
    turns: Histogram,
    _thread: ServerThread,
}

impl Endpoint {
    /// Starts a thread that serves `listener`, without privileges and with a filter for system calls.
    ///
    /// # Errors
    /// The system refuses the thread or what it needs.
    pub(crate) fn start(
        settings: &MetricsSettings,
        listener: TcpListener,
        filter: SyscallFilter,
    ) -> io::Result<Endpoint> {
        listener.set_nonblocking(true)?;
        let wanted = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (ask, questions) = mpsc::channel();
        let source = Source { wanted: wanted.clone(), ask, latest: Mutex::new(None) };
        let prepare = move || {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let source = Arc::new(source);
            Ok(serve(listener, BOUNDS, move |request| {
                let source = source.clone();
                async move { answer(&request, &source).await }
            }))
        };
        let thread = ServerThread::start("earmark-metrics", filter, prepare)?;
        Ok(Endpoint {
            bound: settings.reservations,
            wanted,
            questions,
            collection: None,
            turns: Histogram::default(),
            _thread: thread,
        })
    }

    /// Notes the length of a turn of the event loop.
    pub(crate) fn note_turn(&mut self, turn: Duration) {
        self.turns.observe(turn);
    }

    /// Collects a slice of what is wanted. To be called as long as the descriptor is readable.
    pub(crate) fn collect<K: Kernel>(&mut self, now: Time, hub: &Hub, driver: &mut Driver<K>) {
        let mut collection =
            self.collection.take().unwrap_or_else(|| Collection::begin(self.bound));
        if collection.advance(now, &self.turns, hub, driver) {
            self.collection = Some(collection);
            return;
        }
        self.answer(collection.finish());
    }

    /// Answers all questions.
    fn answer(&self, families: Vec<Family>) {
        // Before the questions are read, so that a later one makes the descriptor readable again.
        let _ = rustix::io::read(&self.wanted, &mut [0; 8]);
        let families = Arc::new(families);
        for question in self.questions.try_iter() {
            // The scraper may be gone.
            let _ = question.send(families.clone());
        }
    }
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wanted.as_fd()
    }
}

/// The event loop, as the thread sees it.
struct Source {
    wanted: Arc<OwnedFd>,
    ask: mpsc::Sender<oneshot::Sender<Families>>,
    /// The latest collection. Its lock is held while the next one is awaited, so that there is only one at a time.
    latest: Mutex<Option<(Instant, Families)>>,
}

impl Source {
    /// Returns a fresh collection; `None` if the event loop has no time for one.
    async fn collect(&self) -> Option<Families> {
        let mut latest = self.latest.lock().await;
        if let Some((at, families)) = &*latest
            && at.elapsed() < FRESH
        {
            return Some(families.clone());
        }
        let (question, answer) = oneshot::channel();
        self.ask.send(question).ok()?;
        rustix::io::write(&self.wanted, &1_u64.to_ne_bytes()).ok()?;
        let families = timeout(PATIENCE, answer).await.ok()?.ok()?;
        *latest = Some((Instant::now(), families.clone()));
        Some(families)
    }
}

async fn answer(request: &Request<Incoming>, source: &Source) -> Answer {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n");
    }
    let Some(families) = source.collect().await else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the daemon is busy; try again\n");
    };
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    match format.write(vec![families, Arc::new(process::families())]) {
        Ok(text) => typed(StatusCode::OK, format.content_type(), text),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
