//! Cost of messages for a router (the study of Budapest, Tables 1 to 8): step by step without I/O ([`steps`]), from
//! interface to interface ([`checkpoints`]), and for cases that the paper could only estimate ([`receivers`]).

mod checkpoints;
mod receivers;
mod steps;

use anyhow::Result;

use super::Order;
use super::chapter::Chapter;
use crate::bench::Supervision;

/// Measures all of the chapter.
pub(super) fn measure(order: &Order, supervision: &Supervision<'_>) -> Result<Chapter> {
    let mut chapter = steps::measure(order, supervision)?;
    chapter.append(checkpoints::measure(order, supervision)?);
    chapter.append(receivers::measure(order, supervision)?);
    Ok(chapter)
}
