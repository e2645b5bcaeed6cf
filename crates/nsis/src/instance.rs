//! One instance of NSIS: GIST, and the applications on it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::random::RandomStreams;

use crate::applications::Applications;
use crate::config::Config;
use crate::gist::Gist;
use crate::natfw::NatfwNslp;
use crate::nslp::{Nslp, Requests};
use crate::ping::PingNslp;
use crate::qos::QosNslp;

/// NSIS on one node.
#[derive(Debug)]
pub struct Nsis {
    pub(crate) gist: Gist,
    pub(crate) applications: Applications,
    /// Requests of applications since the last round.
    pub(crate) requests: Requests,
    /// Requests of the round that is being executed.
    pub(crate) round: Requests,
}

impl Nsis {
    /// Creates an engine without state. Each part draws from streams of `random` whose names begin with the name of the
    /// part.
    pub fn new(config: Config, random: &RandomStreams) -> Nsis {
        Nsis {
            gist: Gist::new(config.gist, random),
            applications: Applications {
                qos: QosNslp::new(config.qos, random),
                natfw: NatfwNslp::new(config.natfw, random),
                ping: PingNslp::new(config.ping, random),
                others: Vec::new(),
            },
            requests: Requests::default(),
            round: Requests::default(),
        }
    }

    /// Adds an application. An application whose NSLPID is taken is never called.
    pub fn add(&mut self, application: Box<dyn Nslp>) {
        self.applications.others.push(application);
    }

    /// Returns GIST, read-only.
    pub fn gist(&self) -> &Gist {
        &self.gist
    }

    /// Returns QoS NSLP, read-only.
    pub fn qos(&self) -> &QosNslp {
        &self.applications.qos
    }

    /// Returns NATFW NSLP, read-only.
    pub fn natfw(&self) -> &NatfwNslp {
        &self.applications.natfw
    }

    /// Returns Ping NSLP, read-only.
    pub fn ping(&self) -> &PingNslp {
        &self.applications.ping
    }
}
