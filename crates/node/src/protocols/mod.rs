//! The protocols of this project as engines of a node, one module for each, with the same file names: `engine` (dispatch),
//! `listing` (rows), `outcome` (outcomes of events).

pub(crate) mod boomerang;
pub(crate) mod nsis;
pub(crate) mod rsvp;
pub(crate) mod yessir;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use earmark_boomerang::Boomerang;
use earmark_core::random::RandomStreams;
use earmark_nsis::Nsis;
use earmark_yessir::Yessir;

use crate::api::NodeConfig;
use crate::engine::NodeEngine;

/// Creates the engines of this project.
pub(crate) fn engines(config: &NodeConfig, random: &RandomStreams) -> Vec<Box<dyn NodeEngine>> {
    vec![
        Box::new(rsvp::engine::RsvpEngine::new(config, random)),
        Box::new(Boomerang::new(config.boomerang.clone(), random)),
        Box::new(Yessir::new(config.yessir.clone(), random)),
        Box::new(Nsis::new(config.nsis.clone(), random)),
    ]
}
