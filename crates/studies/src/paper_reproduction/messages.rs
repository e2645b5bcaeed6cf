//! Cost of messages for a router (the study of Budapest, Tables 1 to 8): step by step without I/O ([`steps`]), from
//! interface to interface ([`checkpoints`]), and for cases that the paper could only estimate ([`receivers`]).

mod checkpoints;
mod receivers;
mod steps;

use anyhow::Result;

use super::PartOptions;
use super::section::Section;
use crate::bench::Supervision;

/// Measures all of the section.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let mut section = steps::measure(order, supervision)?;
    section.append(checkpoints::measure(order, supervision)?);
    section.append(receivers::measure(order, supervision)?);
    Ok(section)
}
