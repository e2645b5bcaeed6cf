//! Watches the events of a daemon, and never waits for a server.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use earmark_control::command::Failure;
use earmark_control::{Client, ClientError, Event, ProblemCode};
use serde_json::{Value, json};

use super::publisher::Queue;
use super::wall_time;
use crate::run::wait;

/// Pause after a failure at first, and at most; it doubles in between.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Longest time until a signal is noticed.
const STEP: Duration = Duration::from_millis(100);

/// A watch of a daemon.
#[derive(Debug)]
pub struct Watcher {
    /// The daemon's control socket.
    pub control: PathBuf,
    /// Protocols whose events are published; all if empty.
    pub protocols: Vec<String>,
}

impl Watcher {
    /// Puts events into the queue until `stop` is set; watches again after each failure. `say` gets each new failure, and
    /// `None` when the watch begins.
    pub fn run(&self, queue: &Queue, stop: &AtomicBool, mut say: impl FnMut(Option<Failure>)) {
        let (mut pause, mut since) = (FIRST_PAUSE, None);
        let mut said = None;
        while !stop.load(Ordering::Relaxed) {
            let mut watching = false;
            let begun = || {
                watching = true;
                said = None;
                say(None);
            };
            let Err(error) = self.watch(queue, stop, since, begun) else { return };
            if watching {
                since = Some(Instant::now());
                pause = FIRST_PAUSE;
                push(queue, &disconnected(&error));
            }
            let text = error.to_string();
            if said.as_ref() != Some(&text) {
                say(Some(error.into()));
            }
            said = Some(text);
            wait(pause, stop);
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    fn watch(
        &self,
        queue: &Queue,
        stop: &AtomicBool,
        since: Option<Instant>,
        begun: impl FnOnce(),
    ) -> Result<(), ClientError> {
        let mut client = Client::connect(&self.control)?;
        let node = client.start_watching()?;
        begun();
        queue.lock().set_node(node);
        push(queue, &connected(since));
        while !stop.load(Ordering::Relaxed) {
            let deadline = Some(Instant::now() + STEP);
            let Some(event) = client.next_event(deadline)? else { continue };
            if self.includes(&event) {
                queue.lock().push(&time_of(&event), &to_value(&event));
                queue.wake();
            }
        }
        Ok(())
    }

    fn includes(&self, event: &Event) -> bool {
        self.protocols.is_empty() || self.protocols.contains(&event.protocol)
    }
}

fn push(queue: &Queue, event: &Value) {
    queue.lock().push(&wall_time(), event);
    queue.wake();
}

/// Returns the daemon's wall clock at an event; an older daemon does not report it.
fn time_of(event: &Event) -> String {
    if event.time.is_empty() { wall_time() } else { event.time.clone() }
}

/// Returns the object of the control protocol. Events always serialize: their keys are text.
fn to_value(event: &Event) -> Value {
    serde_json::to_value(event).unwrap_or_default()
}

/// Returns the report that the watch has begun; `since` is when the watch before ended.
fn connected(since: Option<Instant>) -> Value {
    let Some(since) = since else {
        let text = "events from now on";
        return json!({ "protocol": "export", "event": "connected", "text": text });
    };
    let gap = since.elapsed().as_secs_f64();
    let text = format!("events from now on; those of the last {gap:.1} s are missing");
    json!({ "protocol": "export", "event": "connected", "text": text, "gap_s": gap })
}

/// Returns the report that the watch has ended.
fn disconnected(error: &ClientError) -> Value {
    let reason = match error {
        ClientError::Refused(problem) if problem.code == ProblemCode::Stopping => "stopping",
        ClientError::Refused(problem) => problem.code.name(),
        ClientError::Malformed(_) | ClientError::OtherVersion { .. } => "malformed",
        ClientError::Connect { .. } | ClientError::Lost(_) => "connection_lost",
    };
    json!({
        "protocol": "export",
        "event": "disconnected",
        "text": error.to_string(),
        "reason": reason,
    })
}
