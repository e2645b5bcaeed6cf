//! Recordings: every input of a node with its time, one JSON object a line, and the way back.
//!
//! A node is a function of its settings and its inputs, so a recording replays it exactly: `earmark replay FILE` prints
//! the effects that the daemon carried out. The first line holds the settings, with the seed of the random streams.

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;

use earmark_boomerang::{self as boomerang, Secret};
use earmark_core::record::{Octets, RecordedDatagram, RecordedStreamEvent, Timed};
use earmark_core::{Datagram, Effects, Time};
use earmark_node::{Command, Event, HostUpdate, Input, Node, NodeConfig};
use earmark_rsvp::integrity::Key;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form of recordings that this program writes and reads.
const FORM: u32 = 1;

/// Longest line of a recording, octets: an RSVP message is at most 64 KiB, its hex twice that.
const LONGEST_LINE: u64 = 256 * 1024;

/// Longest time span in a recording, seconds: a hundred years. Settings allow hours; engines add and multiply such spans as if
/// there were no end to them.
const LONGEST_SPAN: u64 = 100 * 366 * 24 * 60 * 60;

#[derive(Serialize, Deserialize)]
struct Header {
    earmark_recording: u32,
    node: NodeConfig,
}

/// An input of a node, owned: the form of [`earmark_core::record::RecordedInput`], for all protocols of the node.
#[derive(Serialize, Deserialize)]
enum Recorded {
    Datagram(u8, RecordedDatagram),
    Stream(RecordedStreamEvent),
    Expire,
    Host(HostUpdate),
    Command(Command),
}

impl From<&Input<'_>> for Recorded {
    fn from(input: &Input<'_>) -> Recorded {
        match input {
            Input::Datagram(protocol, datagram) => Recorded::Datagram(
                *protocol,
                RecordedDatagram {
                    interface: datagram.interface,
                    source: datagram.source,
                    destination: datagram.destination,
                    ttl: datagram.ttl,
                    router_alert: datagram.router_alert,
                    encapsulated: datagram.encapsulated,
                    payload: Octets(datagram.payload.to_vec()),
                },
            ),
            Input::Stream(event) => Recorded::Stream((*event).into()),
            Input::Expire => Recorded::Expire,
            Input::Host(update) => Recorded::Host(update.clone()),
            Input::Command(command) => Recorded::Command(without_secret(command)),
        }
    }
}

/// A command as a recording may have it.
fn without_secret(command: &Command) -> Command {
    let mut command = command.clone();
    if let Command::Boomerang(
        boomerang::Command::Reserve { request, .. } | boomerang::Command::Query { request, .. },
    ) = &mut command
        && let Some(user) = &mut request.user
    {
        user.secret = Secret::from(String::new());
    }
    command
}

impl Recorded {
    /// The input as it was.
    fn replay(&self) -> Input<'_> {
        match self {
            Recorded::Datagram(protocol, datagram) => Input::Datagram(
                *protocol,
                Datagram {
                    interface: datagram.interface,
                    source: datagram.source,
                    destination: datagram.destination,
                    ttl: datagram.ttl,
                    router_alert: datagram.router_alert,
                    encapsulated: datagram.encapsulated,
                    payload: &datagram.payload.0,
                },
            ),
            Recorded::Stream(event) => Input::Stream(event.replay()),
            Recorded::Expire => Input::Expire,
            Recorded::Host(update) => Input::Host(update.clone()),
            Recorded::Command(command) => Input::Command(command.clone()),
        }
    }
}

/// Writes a recording.
pub struct Recorder {
    file: BufWriter<File>,
}

impl Recorder {
    /// Starts a recording of a node with these settings; a file that is there is overwritten.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, config: &NodeConfig) -> io::Result<Recorder> {
        let mut file = BufWriter::new(File::create(path)?);
        let mut header = Header { earmark_recording: FORM, node: config.clone() };
        for user in &mut header.node.boomerang.users {
            user.secret = Secret::from(String::new());
        }
        serde_json::to_writer(&mut file, &header)?;
        file.write_all(b"\n")?;
        file.flush()?;
        Ok(Recorder { file })
    }

    /// Adds one input.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record(&mut self, now: Time, input: &Input<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, &Timed { at: now, what: Recorded::from(input) })?;
        self.file.write_all(b"\n")?;
        // A recording is most wanted of a daemon that died, so nothing may linger in a buffer.
        self.file.flush()
    }
}

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// The effects cannot be written.
    #[error("the effects cannot be written: {0}")]
    Write(#[from] io::Error),
    /// It does not begin like one.
    #[error("this is no recording of earmark's (form {FORM}): {0}")]
    NoRecording(String),
    /// A line that cannot be read.
    #[error("line {line}: {text}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it, with its column.
        text: String,
    },
}

/// Replays a recording and writes the effects of each input, one JSON object a line; gives how many inputs there were.
///
/// Recordings hold no secrets. Where messages were signed, `keys` must be those of the daemon that was recorded, or
/// nothing will be believed.
///
/// # Errors
/// The recording ends badly: a line too long, cut off or of another form. The effects up to there are written.
pub fn replay(
    mut from: impl BufRead,
    keys: &[Key],
    out: &mut dyn Write,
) -> Result<usize, ReplayError> {
    let mut text = String::new();
    if !read_line(&mut from, &mut text, 1)? {
        return Err(ReplayError::NoRecording("it is empty".to_owned()));
    }
    let mut header: Header = read(&text).map_err(ReplayError::NoRecording)?;
    if header.earmark_recording != FORM {
        return Err(ReplayError::NoRecording(format!("it has form {}", header.earmark_recording)));
    }
    Key::restore_secrets(&mut header.node.rsvp.integrity.keys, keys);
    let mut node = Node::new(header.node);
    let mut effects = Effects::<Event>::new();
    let mut inputs = 0;
    let mut line = 1;
    let mut next_entry = || -> Result<Option<Timed<Recorded>>, ReplayError> {
        line += 1;
        if !read_line(&mut from, &mut text, line)? {
            return Ok(None);
        }
        read(&text).map(Some).map_err(|text| ReplayError::Line { line, text })
    };
    let mut next = next_entry();
    while let Some(mut entry) = next? {
        next = next_entry();
        // What the kernel answered meanwhile stands behind the input that it was asked for.
        while let Ok(Some(Timed { what: Recorded::Host(HostUpdate::FlowAnswers(answers)), at })) =
            &next
        {
            let answers = Input::Host(HostUpdate::FlowAnswers(answers.clone()));
            node.handle(*at, answers, &mut effects);
            next = next_entry();
        }
        if let Recorded::Command(Command::Rsvp(earmark_rsvp::Command::Keys { keys: new })) =
            &mut entry.what
        {
            Key::restore_secrets(new, keys);
        }
        effects.clear();
        node.handle(entry.at, entry.what.replay(), &mut effects);
        for what in effects.records() {
            serde_json::to_writer(&mut *out, &Timed { at: entry.at, what })
                .map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
        inputs += 1;
    }
    Ok(inputs)
}

/// What stands in a line; an error says what is wrong with it, with its column where it is no such thing.
fn read<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    let wrong = |error: serde_json::Error| error.to_string();
    let read = serde_json::from_str(line).map_err(wrong)?;
    match longest_span(&serde_json::from_str(line).map_err(wrong)?) {
        seconds if seconds > LONGEST_SPAN => Err(format!("a time of {seconds} s is too long")),
        _ => Ok(read),
    }
}

/// The longest time span in a value, seconds. The reader has bounded how deep it is.
fn longest_span(value: &Value) -> u64 {
    let of_item = |(name, value): (&String, &Value)| match name.as_str() {
        "secs" => value.as_u64().unwrap_or_default(),
        _ => longest_span(value),
    };
    match value {
        Value::Object(items) => items.iter().map(of_item).max().unwrap_or_default(),
        Value::Array(items) => items.iter().map(longest_span).max().unwrap_or_default(),
        _ => 0,
    }
}

fn read_line(from: &mut impl BufRead, text: &mut String, line: usize) -> Result<bool, ReplayError> {
    text.clear();
    // `by_ref().take()` bounds what a file without line ends can make us hold.
    let length =
        io::Read::take(from.by_ref(), LONGEST_LINE).read_line(text).map_err(ReplayError::Read)?;
    if length as u64 == LONGEST_LINE {
        return Err(ReplayError::Line { line, text: "the line is too long".to_owned() });
    }
    Ok(length > 0)
}
