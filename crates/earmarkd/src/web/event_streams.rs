//! Streams of events to browsers (`GET /events`): all share one watching client of the hub.
//!
//! A browser that does not read its stream is cut off: it misses events, and then loses its connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, broadcast, mpsc};
use tokio::time::timeout;

use super::endpoint::HubConnector;
use super::hub_client::HubClient;
use super::server::{WRITE_TIMEOUT, own_credentials};
use crate::control::Role;

/// Most streams at a time.
pub(super) const STREAMS: usize = 32;
/// Events that a stream may be behind.
const BACKLOG: usize = 1_024;
/// Time without an event after which a comment is sent, which finds out whether the browser is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Pause before the hub is asked to watch again.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// All streams of events.
pub(super) struct EventStreams {
    places: Arc<Semaphore>,
    events: broadcast::Sender<Bytes>,
    /// A stream has begun.
    begun: Notify,
}

impl EventStreams {
    /// Creates the set without streams.
    pub(super) fn new() -> EventStreams {
        let (events, _) = broadcast::channel(BACKLOG);
        EventStreams { places: Arc::new(Semaphore::new(STREAMS)), events, begun: Notify::new() }
    }

    /// Watches the hub while there are streams.
    pub(super) async fn follow(&self, hub: &HubConnector) {
        loop {
            while self.events.receiver_count() == 0 {
                self.begun.notified().await;
            }
            // The hub ends a client that does not keep up.
            let _ = self.watch(hub).await;
            tokio::time::sleep(WATCH_AGAIN).await;
        }
    }

    async fn watch(&self, hub: &HubConnector) -> std::io::Result<()> {
        let stream = hub.connect(own_credentials(), Role::Reader)?;
        let mut client = HubClient::new(stream)?;
        client.send(r#"{"watch":{}}"#).await?;
        client.answer().await?;
        loop {
            let Ok(line) = timeout(KEEP_ALIVE, client.line()).await else {
                if self.events.send(Bytes::from_static(b": alive\n\n")).is_err() {
                    return Ok(());
                }
                continue;
            };
            // Fails after the last stream has ended.
            if self.events.send(format!("data: {}\n\n", line?.trim_end()).into()).is_err() {
                return Ok(());
            }
        }
    }

    /// Begins a stream; `None` if there are too many. `is_open` is false after the stream has ended.
    pub(super) fn begin(&self, is_open: Arc<AtomicBool>) -> Option<EventBody> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let mut events = self.events.subscribe();
        self.begun.notify_one();
        let (sender, receiver) = mpsc::channel(1);
        is_open.store(true, Ordering::Relaxed);
        tokio::spawn(async move {
            let mut next = Bytes::from_static(b": begin\n\n");
            // A browser that is too far behind, or does not read for too long, ends the loop.
            while let Ok(Ok(())) = timeout(WRITE_TIMEOUT, sender.send(next)).await
                && let Ok(event) = events.recv().await
            {
                next = event;
            }
            is_open.store(false, Ordering::Relaxed);
        });
        Some(EventBody { receiver, _place: place })
    }
}

/// Body of a stream.
pub(super) struct EventBody {
    receiver: mpsc::Receiver<Bytes>,
    _place: OwnedSemaphorePermit,
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receiver.poll_recv(context).map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}
