//! The event stream: events of a daemon as messages of a NATS server.
//!
//! A thread watches the daemon and fills a bounded buffer; the publisher empties it. So the daemon's connection is read at once,
//! whatever the server does.

pub mod buffer;
pub mod credentials;
pub mod publisher;
pub mod server;
pub mod subject;
pub mod watcher;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use earmark_control::command::Failure;
use jiff::Timestamp;
use tokio::runtime::{Builder, Runtime};

use buffer::{Bounds, Buffer};
use publisher::{Publisher, Queue};
use server::NatsError;
use watcher::Watcher;

/// Pause after a failure at first, and at most; it doubles in between.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Time that the server has for what is in the buffer when the program ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which a signal is noticed.
const STEP: Duration = Duration::from_millis(100);
/// Most octets of the buffer.
pub const MAX_OCTETS: usize = 64 * 1024 * 1024;

/// An event stream.
pub struct EventStream {
    /// The daemon.
    pub watcher: Watcher,
    /// The server.
    pub publisher: Publisher,
    /// Most messages that wait.
    pub messages: usize,
}

/// What the program reports while it runs.
#[derive(Debug)]
pub enum Report {
    /// The daemon is watched.
    Watching,
    /// The server acknowledges messages.
    Publishing {
        /// The server's URL.
        server: String,
    },
    /// The daemon or the server has failed.
    Failed(Failure),
    /// Events were dropped, in all.
    Dropped(u64),
    /// The program ends, and messages were not acknowledged.
    Undelivered(usize),
}

/// Returns the wall clock, as events of the control protocol have it.
fn wall_time() -> String {
    format!("{:.3}", Timestamp::now())
}

impl From<&NatsError> for Failure {
    fn from(error: &NatsError) -> Failure {
        Failure::new("nats", error.to_string(), error.hint())
    }
}

impl EventStream {
    /// Connects to the daemon and to the server, once. Returns the node's name and the server's URL.
    ///
    /// # Errors
    /// One of them fails.
    pub fn check(&self) -> Result<(String, String), Failure> {
        let mut client = earmark_control::Client::connect(&self.watcher.control)?;
        let node = client.start_watching()?;
        let runtime = runtime()?;
        let session = runtime.block_on(self.publisher.open());
        runtime.shutdown_background();
        match session {
            Ok(session) => Ok((node, session.server().to_owned())),
            Err(error) => Err((&error).into()),
        }
    }

    /// Publishes events until `stop` is set.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn run(
        self,
        stop: &Arc<AtomicBool>,
        say: impl Fn(&Report) + Clone + Send + 'static,
    ) -> Result<(), Failure> {
        let EventStream { watcher, publisher, messages } = self;
        let bounds = Bounds { messages, octets: MAX_OCTETS };
        let run = format!("{:x}", Timestamp::now().as_nanosecond());
        let queue = Arc::new(Queue::new(Buffer::new(bounds, publisher.prefix.clone(), run)));
        let of_watcher = (queue.clone(), stop.clone(), say.clone());
        std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            let (queue, stop, say) = of_watcher;
            watcher.run(&queue, &stop, |failure| match failure {
                Some(failure) => say(&Report::Failed(failure)),
                None => say(&Report::Watching),
            });
        })?;
        // The thread is not joined: it may wait for a daemon that does not answer.
        publish(&publisher, &queue, stop, say)
    }
}

/// Publishes from session to session.
fn publish(
    publisher: &Publisher,
    queue: &Queue,
    stop: &AtomicBool,
    say: impl Fn(&Report),
) -> Result<(), Failure> {
    let (mut pause, mut said, mut dropped) = (FIRST_PAUSE, None, 0);
    loop {
        let mut acknowledged = false;
        // Each session has a runtime of its own, so that nothing of a failed one goes on.
        let runtime = runtime()?;
        let ended = runtime.block_on(async {
            tokio::select! {
                ended = session(publisher, queue, stop, || {
                    let lost = queue.lock().dropped();
                    if std::mem::replace(&mut dropped, lost) != lost {
                        say(&Report::Dropped(lost));
                    }
                    acknowledged = true;
                }, |server| say(&Report::Publishing { server })) => Some(ended),
                () = stopped(stop) => None,
            }
        });
        runtime.shutdown_background();
        if acknowledged {
            (pause, said) = (FIRST_PAUSE, None);
        }
        let error = match ended {
            Some(Err(error)) if !stop.load(Ordering::Relaxed) => error,
            _ => break,
        };
        let text = error.to_string();
        if said.as_ref() != Some(&text) {
            say(&Report::Failed((&error).into()));
        }
        said = Some(text);
        crate::run::wait(pause, stop);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
    let waiting = queue.lock().len();
    if waiting > 0 {
        say(&Report::Undelivered(waiting));
    }
    Ok(())
}

/// Runs one session. `publishing` is called with the server's URL at the first acknowledgement.
async fn session(
    publisher: &Publisher,
    queue: &Queue,
    stop: &AtomicBool,
    mut acknowledged: impl FnMut(),
    publishing: impl FnOnce(String),
) -> Result<(), NatsError> {
    let mut session = publisher.open().await?;
    let mut publishing = Some((publishing, session.server().to_owned()));
    let each = || {
        if let Some((publishing, server)) = publishing.take() {
            publishing(server);
        }
        acknowledged();
    };
    session.publish(queue, stop, each).await
}

/// Waits until `stop` is set, and then for as long as the server may take for the rest.
async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(STEP).await;
    }
    tokio::time::sleep(STOP_TIMEOUT).await;
}

fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
