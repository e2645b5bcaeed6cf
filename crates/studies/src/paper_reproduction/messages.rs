//! Cost of messages for a router (the study of Budapest, Tables 1 to 8): from interface to interface and step by step
//! in a daemon ([`checkpoints`], [`published_steps`]), step by step in the engines alone ([`steps`]), and for cases
//! that the paper could only estimate ([`receivers`]).

mod checkpoints;
mod published_steps;
mod receivers;
mod steps;

use anyhow::Result;

use super::PartOptions;
use super::section::Section;
use crate::bench::Supervision;

/// Measures all of the section.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let mut section = checkpoints::measure(order, supervision)?;
    section.append(steps::measure(order, supervision)?);
    section.append(receivers::measure(order, supervision)?);
    Ok(section)
}
