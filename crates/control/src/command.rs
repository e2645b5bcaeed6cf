//! Output and failures of the commands of Earmark: text for people, JSON for programs.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;

use crate::ClientError;

/// Output of a command, as text or JSON.
pub struct Output {
    /// Whether to print JSON.
    pub json: bool,
    /// Where the output goes, usually standard output.
    pub to: Box<dyn Write>,
}

impl Output {
    /// Creates an output to standard output, as text or as JSON.
    pub fn new(json: bool) -> Output {
        Output { json, to: Box::new(io::stdout().lock()) }
    }

    /// Prints one line: the text, or the JSON object.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn line(&mut self, text: &str, json: &impl Serialize) -> Result<(), Failure> {
        if self.json {
            serde_json::to_writer(&mut self.to, json).map_err(io::Error::from)?;
            writeln!(self.to)?;
        } else {
            writeln!(self.to, "{text}")?;
        }
        // A reader may wait for the line at the other end of a pipe.
        self.to.flush()?;
        Ok(())
    }
}

/// Failure of a command: a code for programs, a message for people, and a hint what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// Code, for programs.
    pub code: &'static str,
    /// Message, for people.
    pub message: String,
    /// Advice what to do; empty if none is known.
    pub hint: String,
}

impl Failure {
    /// Creates a failure.
    pub fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), hint: hint.into() }
    }

    /// Prints the failure of a program to standard error.
    ///
    /// # Errors
    /// Standard error cannot be written.
    pub fn print(&self, program: &str, json: bool) -> io::Result<()> {
        let Failure { code, message, hint } = self;
        let mut to = io::stderr().lock();
        if json {
            let error = json!({ "error": { "code": code, "message": message, "hint": hint } });
            return writeln!(to, "{error}");
        }
        writeln!(to, "{program}: {message}")?;
        if hint.is_empty() { Ok(()) } else { writeln!(to, "  help: {hint}") }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let code = match error.kind() {
            io::ErrorKind::BrokenPipe => "broken_pipe",
            _ => "input_output",
        };
        Failure::new(code, error.to_string(), "")
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let code = match &error {
            ClientError::Connect { .. } => "cannot_connect",
            ClientError::Lost(_) => "connection_lost",
            ClientError::Malformed(_) | ClientError::OtherVersion { .. } => "other_protocol",
            ClientError::Refused(problem) => problem.code.name(),
        };
        Failure::new(code, error.to_string(), error.hint())
    }
}

/// Formats an error and its causes in one line, without repetition.
pub fn with_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        // The text of some errors already ends with their cause.
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
