//! The signalling applications of a node, by NSLPID.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::Time;

use crate::natfw::NatfwNslp;
use crate::nslp::Nslp;
use crate::ping::PingNslp;
use crate::qos::QosNslp;

/// The signalling applications of a node.
#[derive(Debug)]
pub(crate) struct Applications {
    pub(crate) qos: QosNslp,
    pub(crate) natfw: NatfwNslp,
    pub(crate) ping: PingNslp,
    /// Applications added by the user of this crate.
    pub(crate) others: Vec<Box<dyn Nslp>>,
}

impl Applications {
    /// Returns the application that serves this NSLPID.
    pub(crate) fn by_id(&mut self, nslpid: u16) -> Option<&mut (dyn Nslp + 'static)> {
        if self.qos.serves(nslpid) {
            return Some(&mut self.qos);
        }
        if self.natfw.serves(nslpid) {
            return Some(&mut self.natfw);
        }
        if self.ping.serves(nslpid) {
            return Some(&mut self.ping);
        }
        self.others.iter_mut().map(|other| &mut **other).find(|other| other.serves(nslpid))
    }

    /// Returns all applications, in a fixed order; few.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut (dyn Nslp + 'static)> {
        let own: [&mut dyn Nslp; 3] = [&mut self.qos, &mut self.natfw, &mut self.ping];
        own.into_iter().chain(self.others.iter_mut().map(|other| &mut **other))
    }

    /// Returns the earliest deadline of all applications.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let own: [&dyn Nslp; 3] = [&self.qos, &self.natfw, &self.ping];
        let others = self.others.iter().map(|other| &**other);
        own.into_iter().chain(others).filter_map(Nslp::next_deadline).min()
    }
}
