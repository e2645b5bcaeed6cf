//! One instance of NSIS: GIST, and the applications on it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::random::RandomStreams;

use crate::config::Config;
use crate::gist::Gist;
use crate::nslp::{Nslp, Requests};
use crate::ping::PingNslp;
use crate::qos::QosNslp;

/// NSIS on one node.
#[derive(Debug)]
pub struct Nsis {
    pub(crate) gist: Gist,
    pub(crate) qos: QosNslp,
    pub(crate) ping: PingNslp,
    /// Those of others.
    pub(crate) others: Vec<Box<dyn Nslp>>,
    pub(crate) requests: Requests,
}

impl Nsis {
    /// An engine without state. Its parts draw from streams of `random` whose names begin with theirs.
    pub fn new(config: Config, random: &RandomStreams) -> Nsis {
        Nsis {
            gist: Gist::new(config.gist, random),
            qos: QosNslp::new(config.qos, random),
            ping: PingNslp::new(config.ping, random),
            others: Vec::new(),
            requests: Requests::default(),
        }
    }

    /// Adds an application. One whose NSLPID is taken is never called.
    pub fn add(&mut self, application: Box<dyn Nslp>) {
        self.others.push(application);
    }

    /// GIST, to be looked at.
    pub fn gist(&self) -> &Gist {
        &self.gist
    }

    /// QoS NSLP, to be looked at.
    pub fn qos(&self) -> &QosNslp {
        &self.qos
    }

    /// Ping NSLP, to be looked at.
    pub fn ping(&self) -> &PingNslp {
        &self.ping
    }
}
