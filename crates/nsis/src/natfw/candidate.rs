//! What a request makes of its session at this node, before it is stored.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::InterfaceId;
use earmark_token::Verified;
use earmark_wire::gist::{Mri, SessionId};
use earmark_wire::natfw_nslp::iana::SignalingSessionFailure as Failure;
use earmark_wire::natfw_nslp::{DataTerminal, ExtendedFlow, Nonce, Outcome, ProxyMode};

use super::config::Config;
use super::outcome::failure;
use super::policy::Counted;
use super::received::Request;
use super::state::{Extra, Index, Role, User, seconds};

/// What a request makes of its session at this node, before it is stored.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) role: Role,
    pub(super) far: Mri,
    /// Data of the session passes this node.
    pub(super) passes: bool,
    /// Interface by which the flow, or the EXTERNAL, leaves the network.
    pub(super) leaves: Option<InterfaceId>,
    /// This node answers, and sends the request on as well.
    pub(super) is_probed: bool,
    pub(super) lifetime: u32,
    pub(super) extended_flow: ExtendedFlow,
    pub(super) counted: Option<Counted>,
    pub(super) user: Option<User>,
    pub(super) verified: Option<Box<Verified>>,
    pub(super) binding: Option<Index>,
    pub(super) terminal: Option<DataTerminal>,
    pub(super) nonce: Option<Nonce>,
    /// EXTERNAL session of this node, the responder, that admits the data.
    pub(super) reservation: Option<SessionId>,
    pub(super) proxy: ProxyMode,
    pub(super) icmp_types: Vec<u8>,
}

impl Candidate {
    pub(super) fn new(request: &Request<'_>, far: Mri) -> Candidate {
        Candidate {
            role: Role::Forwarder,
            far,
            passes: false,
            leaves: None,
            is_probed: false,
            lifetime: request.lifetime,
            extended_flow: request.extended_flow,
            counted: None,
            user: None,
            verified: None,
            binding: None,
            terminal: request.terminal,
            nonce: request.nonce,
            reservation: None,
            proxy: request.proxy,
            icmp_types: request.icmp_types.into(),
        }
    }

    /// Makes this node, the edge, the responder in proxy mode.
    pub(super) fn answered_by_edge(self, proxy: ProxyMode) -> Candidate {
        let is_probed = proxy == ProxyMode::EdgeAndOnward;
        Candidate { role: Role::Responder, is_probed, ..self }
    }

    /// Lowers the lifetime to the longest that this node grants.
    ///
    /// # Errors
    /// The lifetime is too short then.
    pub(super) fn limit_lifetime(
        &mut self,
        config: &Config,
        longest: Option<Duration>,
    ) -> Result<(), Outcome> {
        let longest = longest.unwrap_or(Duration::MAX).min(config.longest_lifetime);
        self.lifetime = self.lifetime.min(seconds(longest));
        match self.lifetime < seconds(config.shortest_lifetime) {
            true => Err(failure(Failure::LifetimeTooSmall)),
            false => Ok(()),
        }
    }

    /// Takes the fields that few sessions need.
    pub(super) fn take_extra(&mut self) -> Option<Box<Extra>> {
        let is_plain = self.terminal.is_none()
            && self.nonce.is_none()
            && self.proxy == ProxyMode::Off
            && self.icmp_types.is_empty()
            && self.user.is_none()
            && self.reservation.is_none();
        (!is_plain).then(|| {
            Box::new(Extra {
                terminal: self.terminal,
                proxy: self.proxy,
                nonce: self.nonce,
                reservation: self.reservation,
                icmp_types: core::mem::take(&mut self.icmp_types),
                user: self.user.take(),
                ..Extra::default()
            })
        })
    }
}
