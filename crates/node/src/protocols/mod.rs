//! The protocols of this project as engines of a node, one module for each, with the same file names: `engine` (dispatch),
//! `listing` (rows), `outcome` (outcomes of events).

pub(crate) mod boomerang;
pub(crate) mod nsis;
pub(crate) mod rsvp;
pub(crate) mod yessir;

use alloc::boxed::Box;

use earmark_boomerang::{self as boomerang_engine, Boomerang};
use earmark_nsis::{self as nsis_engine, Nsis};
use earmark_rsvp as rsvp_engine;
use earmark_yessir::{self as yessir_engine, Yessir};

use crate::config::EngineKind;
use rsvp::engine::RsvpEngine;

/// The engines of this project.
pub(crate) const ENGINES: [EngineKind; 4] = [
    EngineKind {
        name: "rsvp",
        protocol: rsvp_engine::ID,
        ip_protocol: Some(rsvp_engine::PROTOCOL),
        create: |config, random| Box::new(RsvpEngine::new(config, random)),
    },
    EngineKind {
        name: "boomerang",
        protocol: boomerang_engine::ID,
        ip_protocol: None,
        create: |config, random| Box::new(Boomerang::new(config.boomerang.clone(), random)),
    },
    EngineKind {
        name: "yessir",
        protocol: yessir_engine::ID,
        ip_protocol: None,
        create: |config, random| Box::new(Yessir::new(config.yessir.clone(), random)),
    },
    EngineKind {
        name: "nsis",
        protocol: nsis_engine::ID,
        ip_protocol: None,
        create: |config, random| Box::new(Nsis::new(config.nsis.clone(), random)),
    },
];
