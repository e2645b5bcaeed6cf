//! A received request: CREATE or EXTERNAL, with what both have in common.

use earmark_wire::gist::Mri;
use earmark_wire::natfw_nslp::{
    Create, DataTerminal, ExtendedFlow, External, ExternalBinding, Extra, Nonce, ProxyMode,
};

use super::state::{Kind, Session};
use crate::nslp::{PeerHandle, Received};

/// A CREATE or EXTERNAL of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) message: &'a Received<'a>,
    pub(super) peer: PeerHandle,
    pub(super) kind: Kind,
    pub(super) proxy: ProxyMode,
    /// Requested lifetime, seconds; 0 deletes the session.
    pub(super) lifetime: u32,
    pub(super) msn: u32,
    pub(super) extended_flow: ExtendedFlow,
    pub(super) nonce: Option<Nonce>,
    pub(super) icmp_types: &'a [u8],
    /// Data sender and transport; of an EXTERNAL only.
    pub(super) terminal: Option<DataTerminal>,
    /// Addresses of the translators so far; of an EXTERNAL that asks for them only.
    pub(super) external_binding: Option<ExternalBinding<'a>>,
    pub(super) extra: Extra<'a>,
}

impl<'a> Request<'a> {
    pub(super) fn of_create(
        message: &'a Received<'a>,
        peer: PeerHandle,
        create: &Create<'a>,
    ) -> Request<'a> {
        Request {
            message,
            peer,
            kind: Kind::Create,
            proxy: create.proxy,
            lifetime: create.lifetime,
            msn: create.msn,
            extended_flow: create.extended_flow,
            nonce: create.nonce,
            icmp_types: create.icmp_types.unwrap_or_default(),
            terminal: None,
            external_binding: None,
            extra: create.extra,
        }
    }

    pub(super) fn of_external(
        message: &'a Received<'a>,
        peer: PeerHandle,
        external: &External<'a>,
    ) -> Request<'a> {
        Request {
            message,
            peer,
            kind: Kind::External,
            proxy: external.proxy,
            lifetime: external.lifetime,
            msn: external.msn,
            extended_flow: external.extended_flow,
            nonce: external.nonce,
            icmp_types: external.icmp_types.unwrap_or_default(),
            terminal: Some(external.data_terminal),
            external_binding: external.external_binding,
            extra: external.extra,
        }
    }

    /// Returns the routing of the request.
    pub(super) fn near(&self) -> &Mri {
        &self.message.mri
    }

    /// Returns whether the request asks for what a session has already; then it is a refresh (RFC 5973 sections 3.7.3 and
    /// 3.10).
    pub(super) fn repeats(&self, session: &Session) -> bool {
        let extra = session.extra.as_deref();
        self.message.mri == session.near
            && self.extended_flow == session.extended_flow
            && self.icmp_types == session.icmp_types()
            && self.terminal == extra.and_then(|extra| extra.terminal)
            && self.proxy == extra.map_or(ProxyMode::Off, |extra| extra.proxy)
    }
}

/// Returns whether a sequence number is newer than another one (RFC 1982 section 3.2).
pub(super) fn is_newer(msn: u32, than: u32) -> bool {
    let distance = msn.wrapping_sub(than);
    distance != 0 && distance < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap() {
        assert!(is_newer(1, 0) && is_newer(0, u32::MAX) && is_newer(5, u32::MAX - 5));
        assert!(!is_newer(0, 0) && !is_newer(0, 1) && !is_newer(u32::MAX, 0));
        assert!(!is_newer(1 << 31, 0), "neither is newer at the largest distance");
    }
}
