//! Publishes the messages of the buffer to a stream of a NATS server, in their order, until each is acknowledged.

use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::context::{ContextBuilder, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::{Context, stream};
use async_nats::{Event, ServerAddr};
use tokio::sync::{Notify, mpsc};

use super::buffer::{Buffer, Message};
use super::credentials::Credentials;
use super::server::{NatsError, connect, inspect};
use super::subject::Prefix;
use super::wall_time;

/// Most messages that are published and not acknowledged.
const WINDOW: usize = 256;
/// Octets of such messages, after which no further one is published.
const WINDOW_OCTETS: usize = 1024 * 1024;
/// Longest time until a message is acknowledged.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time until a signal is noticed.
const STEP: Duration = Duration::from_millis(100);
/// Bounds of a stream that this program creates.
const STREAM_OCTETS: i64 = 1024 * 1024 * 1024;
const STREAM_AGE: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The buffer between the watch and the publisher.
#[derive(Debug)]
pub struct Queue {
    buffer: Mutex<Buffer>,
    changed: Notify,
}

impl Queue {
    /// Creates a queue.
    pub fn new(buffer: Buffer) -> Queue {
        Queue { buffer: Mutex::new(buffer), changed: Notify::new() }
    }

    /// Locks the buffer; never while anything is waited for.
    pub fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the publisher.
    pub fn wake(&self) {
        self.changed.notify_one();
    }
}

/// Where messages are published.
pub struct Publisher {
    /// Servers, of which the first that works is used.
    pub servers: Vec<ServerAddr>,
    /// Credentials for the servers.
    pub credentials: Option<Credentials>,
    /// Prefix of all subjects.
    pub prefix: Prefix,
    /// Name of the stream to create if it does not exist.
    pub create_stream: Option<String>,
}

/// A connection to a server.
pub struct Session {
    server: String,
    context: Context,
    jetstream: bool,
    /// Errors that the server or the library report, the end of the connection among them.
    problems: mpsc::Receiver<NatsError>,
}

type Ack = Pin<Box<dyn Future<Output = Result<PublishAck, PublishError>> + Send>>;

/// A message that is not acknowledged.
struct Published {
    ack: Ack,
    octets: usize,
}

impl Publisher {
    /// Connects to the first server that works.
    ///
    /// # Errors
    /// None works; the error is that of the last.
    pub async fn open(&self) -> Result<Session, NatsError> {
        let mut last = None;
        for server in &self.servers {
            match self.open_at(server).await {
                Ok(session) => return Ok(session),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| NatsError::Closed { server: "no server".to_owned() }))
    }

    async fn open_at(&self, server: &ServerAddr) -> Result<Session, NatsError> {
        let info = inspect(server).await?;
        let name = server.as_url_str().to_owned();
        let (sender, problems) = mpsc::channel(1);
        let options = self.credentials.as_ref().map(Credentials::options).unwrap_or_default();
        let of_callback = name.clone();
        let options = options.event_callback(move |event| {
            let server = of_callback.clone();
            let problem = match event {
                Event::Disconnected | Event::Closed => Some(NatsError::Closed { server }),
                Event::ServerError(error) => {
                    Some(NatsError::Reported { server, text: error.to_string() })
                }
                _ => None,
            };
            // The first one ends the session; further ones have no reader.
            if let Some(problem) = problem {
                let _ = sender.try_send(problem);
            }
            std::future::ready(())
        });
        let client = connect(server, options, self.credentials.is_some()).await?;
        let context =
            ContextBuilder::new().timeout(ACK_TIMEOUT).max_ack_inflight(2 * WINDOW).build(client);
        let session = Session { server: name, context, jetstream: info.jetstream, problems };
        self.create(&session).await?;
        Ok(session)
    }

    async fn create(&self, session: &Session) -> Result<(), NatsError> {
        let Some(name) = &self.create_stream else { return Ok(()) };
        let config = stream::Config {
            name: name.clone(),
            subjects: vec![self.prefix.all()],
            max_bytes: STREAM_OCTETS,
            max_age: STREAM_AGE,
            ..stream::Config::default()
        };
        let created = session.context.get_or_create_stream(config).await;
        created.map(drop).map_err(|error| NatsError::Create {
            server: session.server.clone(),
            stream: name.clone(),
            text: error.to_string(),
        })
    }
}

impl Session {
    /// Returns the server's URL.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Publishes messages until `stop` is set and the buffer is empty. `acknowledged` is called after each message.
    ///
    /// # Errors
    /// The connection ends, or a message is not acknowledged. What is not acknowledged stays in the buffer.
    pub async fn publish(
        &mut self,
        queue: &Queue,
        stop: &AtomicBool,
        mut acknowledged: impl FnMut(),
    ) -> Result<(), NatsError> {
        let mut published = VecDeque::new();
        loop {
            self.fill(queue, &mut published).await?;
            if stop.load(Ordering::Relaxed) && published.is_empty() && queue.lock().is_empty() {
                return Ok(());
            }
            let full = published.len() >= WINDOW;
            tokio::select! {
                biased;
                problem = self.problems.recv() => {
                    let closed = || NatsError::Closed { server: self.server.clone() };
                    return Err(problem.unwrap_or_else(closed));
                }
                answer = oldest(&mut published) => {
                    published.pop_front();
                    answer.map_err(|error| self.explain(&error, queue))?;
                    queue.lock().acknowledge(&wall_time());
                    acknowledged();
                }
                () = queue.changed.notified(), if !full => {}
                () = tokio::time::sleep(STEP) => {}
            }
        }
    }

    /// Publishes what the window has room for. The message at index `published.len()` of the buffer is the next one.
    async fn fill(
        &self,
        queue: &Queue,
        published: &mut VecDeque<Published>,
    ) -> Result<(), NatsError> {
        let mut octets: usize = published.iter().map(|message| message.octets).sum();
        while published.len() < WINDOW && octets < WINDOW_OCTETS {
            let Some(message) = queue.lock().get(published.len()).cloned() else { break };
            let size = message.octets();
            let Message { subject, id, payload } = message;
            let publish = PublishMessage::build().payload(payload.into()).message_id(id);
            match self.context.send_publish(subject, publish).await {
                Ok(ack) => {
                    octets += size;
                    published.push_back(Published { ack: ack.into_future(), octets: size });
                }
                Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                    queue.lock().drop_too_large(published.len(), &wall_time());
                }
                Err(error) => return Err(self.explain(&error, queue)),
            }
        }
        Ok(())
    }

    fn explain(&self, error: &PublishError, queue: &Queue) -> NatsError {
        let server = self.server.clone();
        match error.kind() {
            PublishErrorKind::StreamNotFound => {
                let subject = queue.lock().get(0).map(|message| message.subject.clone());
                let subject = subject.unwrap_or_default();
                NatsError::NoStream { server, subject, jetstream: self.jetstream }
            }
            PublishErrorKind::TimedOut => NatsError::Unacknowledged { server },
            PublishErrorKind::BrokenPipe => NatsError::Closed { server },
            _ => NatsError::Refused { server, text: error.to_string() },
        }
    }
}

/// Waits for the answer to the oldest message; for ever if there is none.
async fn oldest(published: &mut VecDeque<Published>) -> Result<PublishAck, PublishError> {
    match published.front_mut() {
        Some(message) => message.ack.as_mut().await,
        None => std::future::pending().await,
    }
}
