//! Recordings of all inputs of a node with their times, one JSON object a line, and their replay.
//!
//! A node is a function of its settings and its inputs, so that a replay reproduces it exactly: `earmarkd replay FILE` prints
//! the effects that the daemon carried out. The first line contains the settings, without secrets: keys, and the seed of
//! cookies and identifiers, which `earmarkd --record-secrets` writes into a file of its own.

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};

use earmark_core::record::{RecordedDatagram, RecordedStreamEvent, Timed};
use earmark_core::{Effects, SecretSeed, Time};
use earmark_node::{Command, Event, HostUpdate, Input, Node, NodeConfig};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::key_file::KeyFile;
use crate::private_file;

/// Version of the format of recordings.
const FORM: u32 = 1;

/// Longest line of a recording, octets: a message has at most 64 KiB, which hexadecimal digits double.
const LONGEST_LINE: u64 = 256 * 1024;

/// Longest time span in a recording, seconds: a hundred years. Settings allow hours only, and engines add and multiply time
/// spans without checks for overflow.
const LONGEST_SPAN: u64 = 100 * 366 * 24 * 60 * 60;

#[derive(Serialize, Deserialize)]
struct Header {
    earmark_recording: u32,
    node: NodeConfig,
}

/// An input of a node in owned form, [`earmark_core::record::RecordedInput`] for all protocols of the node.
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
            Input::Datagram(protocol, datagram) => {
                Recorded::Datagram(*protocol, (*datagram).into())
            }
            Input::Stream(event) => Recorded::Stream((*event).into()),
            Input::Expire => Recorded::Expire,
            Input::Host(update) => Recorded::Host(update.clone()),
            Input::Command(command) => Recorded::Command(command.clone()),
        }
    }
}

impl Recorded {
    /// The input for a replay.
    fn replay(&self) -> Input<'_> {
        match self {
            Recorded::Datagram(protocol, datagram) => Input::Datagram(*protocol, datagram.replay()),
            Recorded::Stream(event) => Input::Stream(event.replay()),
            Recorded::Expire => Input::Expire,
            Recorded::Host(update) => Input::Host(update.clone()),
            Recorded::Command(command) => Input::Command(command.clone()),
        }
    }
}

/// Writer of a recording.
pub struct Recorder {
    file: BufWriter<File>,
}

impl Recorder {
    /// Starts a recording of a node with these settings, which only its owner may read. An existing file is overwritten.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, config: &NodeConfig) -> io::Result<Recorder> {
        let mut file = BufWriter::new(private_file::create(path)?);
        let header = Header { earmark_recording: FORM, node: config.clone() };
        serde_json::to_writer(&mut file, &header)?;
        file.write_all(b"\n")?;
        file.flush()?;
        Ok(Recorder { file })
    }

    /// Appends one input.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record(&mut self, now: Time, input: &Input<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, &Timed { at: now, what: Recorded::from(input) })?;
        self.file.write_all(b"\n")?;
        // Recordings are needed most when a daemon has died, so nothing may stay in a buffer.
        self.file.flush()
    }
}

/// Content of a file with the secrets of a recording.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedSecrets {
    earmark_recording_secrets: u32,
    seed: u64,
}

/// Returns the path of the file with the secrets of a recording.
pub fn secrets_path(recording: &Path) -> PathBuf {
    let mut path = recording.as_os_str().to_owned();
    path.push(".secrets");
    path.into()
}

/// Writes the secret seed of a node beside its recording, into a file that only its owner may read.
///
/// # Errors
/// The file cannot be written.
pub fn write_secrets(recording: &Path, config: &NodeConfig) -> io::Result<()> {
    let seed = config.secret_seed.known().unwrap_or(config.seed);
    let secrets = RecordedSecrets { earmark_recording_secrets: FORM, seed };
    let mut file = private_file::create(&secrets_path(recording))?;
    serde_json::to_writer(&mut file, &secrets)?;
    file.write_all(b"\n")
}

/// Reads the secret seed of a recording.
///
/// # Errors
/// The file cannot be read, or is not one of [`write_secrets`].
pub fn read_secrets(from: impl io::Read) -> io::Result<SecretSeed> {
    let secrets: RecordedSecrets = serde_json::from_reader(from.take(LONGEST_LINE))?;
    match secrets.earmark_recording_secrets {
        FORM => Ok(SecretSeed::Known(secrets.seed)),
        other => Err(io::Error::other(format!("unsupported version {other}"))),
    }
}

/// Secrets that a recording lacks.
#[derive(Clone, Copy, Default)]
pub struct ReplaySecrets<'a> {
    /// Keys of the recorded daemon; without them the verification of signed messages fails.
    pub keys: Option<&'a KeyFile>,
    /// Seed of the recorded daemon; without it identifiers and cookies differ, and answers with recorded ones fail.
    pub seed: SecretSeed,
}

/// What a replay has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Number of inputs.
    pub inputs: usize,
    /// Whether identifiers and cookies are those of the recorded daemon.
    pub has_seed: bool,
}

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error("cannot read it: {0}")]
    Read(io::Error),
    /// The effects cannot be written.
    #[error("cannot write the effects: {0}")]
    Write(#[from] io::Error),
    /// The file is not a recording of a known format.
    #[error("not a recording of earmark (version {FORM}): {0}")]
    NoRecording(String),
    /// A line is malformed.
    #[error("line {line}: {text}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The error, with its column.
        text: String,
    },
}

/// Replays a recording and writes the effects of each input, one JSON object a line. Recordings contain no secrets, so
/// `secrets` must be those of the recorded daemon.
///
/// # Errors
/// A line of the recording is too long, truncated or malformed. The effects up to that line are written.
pub fn replay(
    mut from: impl BufRead,
    secrets: ReplaySecrets<'_>,
    out: &mut dyn Write,
) -> Result<Replayed, ReplayError> {
    let ReplaySecrets { keys, seed } = secrets;
    let mut text = String::new();
    if !read_line(&mut from, &mut text, 1)? {
        return Err(ReplayError::NoRecording("it is empty".to_owned()));
    }
    let mut header: Header = read(&text).map_err(ReplayError::NoRecording)?;
    if header.earmark_recording != FORM {
        return Err(ReplayError::NoRecording(format!(
            "unsupported version {}",
            header.earmark_recording
        )));
    }
    if let Some(keys) = keys {
        keys.restore(&mut header.node);
    }
    let mut has_seed = true;
    if header.node.secret_seed == SecretSeed::Redacted {
        header.node.secret_seed = seed;
        has_seed = seed.known().is_some();
    }
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
        // The kernel's answers are recorded after the input that required them.
        while let Ok(Some(Timed { what: Recorded::Host(HostUpdate::FlowAnswers(answers)), at })) =
            &next
        {
            let answers = Input::Host(HostUpdate::FlowAnswers(answers.clone()));
            node.handle(*at, answers, &mut effects);
            next = next_entry();
        }
        if let (Recorded::Command(command), Some(keys)) = (&mut entry.what, keys) {
            keys.restore_command(command);
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
    Ok(Replayed { inputs, has_seed })
}

/// Parses a line; an error contains the column of a syntax error.
fn read<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    let wrong = |error: serde_json::Error| error.to_string();
    let value = serde_json::from_str(line).map_err(wrong)?;
    match longest_span(&value) {
        seconds if seconds > LONGEST_SPAN => Err(format!("a time of {seconds} s is too long")),
        _ => serde_json::from_value(value).map_err(wrong),
    }
}

/// The longest time span in a value, seconds. The parser has limited the nesting depth.
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
    // `by_ref().take()` limits the memory for a file without line terminators.
    let length =
        io::Read::take(from.by_ref(), LONGEST_LINE).read_line(text).map_err(ReplayError::Read)?;
    if length as u64 == LONGEST_LINE {
        return Err(ReplayError::Line { line, text: "the line is too long".to_owned() });
    }
    Ok(length > 0)
}
