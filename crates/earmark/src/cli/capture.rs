//! `earmark decode`: the reservation messages of a packet capture.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use earmark_control::command::{Failure, Output, with_cause};
use earmark_decode::{DecodeError, Format, Summary};

use super::outcome::Outcome;

pub(super) fn decode(file: &Path, out: &mut Output) -> Result<Outcome, Failure> {
    let format = if out.json { Format::Json } else { Format::Text };
    let summary =
        earmark_decode::decode(open(file)?, &mut out.to, format).map_err(|error| match error {
            DecodeError::Write(error) => Failure::from(error),
            other => Failure::new(
                "capture",
                format!("{}: {}", file.display(), with_cause(&other)),
                "`tcpdump -w FILE` writes one",
            ),
        })?;
    if !out.json {
        let Summary { frames, messages, malformed, unknown_link_type } = summary;
        eprintln!("{frames} frames, {messages} messages, {malformed} of them malformed");
        if unknown_link_type > 0 {
            eprintln!("{unknown_link_type} frames have a link type that is not known here");
        }
    }
    Ok(Outcome::Done)
}

/// Opens the file, or standard input if the name is `-`.
fn open(file: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let opened = File::open(file).map_err(|error| {
        Failure::new("input_output", format!("cannot read {}: {error}", file.display()), "")
    })?;
    Ok(Box::new(opened))
}
