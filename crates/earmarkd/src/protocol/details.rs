//! Details of requests that not every protocol can signal.

use earmark_control::{Identity, ListenRequest, Problem, ReservationRequest, SenderName};
use earmark_wire::udp;

use super::{Protocol, check_selector, rejected};

/// A part of a request that not every protocol can signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// A query of the available rate, which reserves nothing.
    Query,
    /// The flow label of the data.
    FlowLabel,
    /// The SPI of the data.
    Spi,
    /// Data of an IP protocol other than UDP.
    IpProtocol,
    /// The name of a user or of an application.
    Name,
    /// A preemption priority.
    Priority,
    /// A token, by which routers verify the name of a user.
    Token,
}

impl Detail {
    /// Returns the detail in words.
    const fn text(self) -> &'static str {
        match self {
            Detail::Query => "a query that reserves nothing",
            Detail::FlowLabel => "a flow label",
            Detail::Spi => "an SPI",
            Detail::IpProtocol => "an IP protocol other than UDP",
            Detail::Name => "the name of a user or an application",
            Detail::Priority => "a priority",
            Detail::Token => "a token",
        }
    }

    /// Refuses the detail if a protocol cannot signal it.
    pub(crate) fn check(self, protocol: &dyn Protocol) -> Result<(), Problem> {
        if protocol.signals(self) {
            return Ok(());
        }
        let message = format!("{} cannot signal {}", protocol.name(), self.text());
        Err(rejected(message, "leave it out, or name another protocol"))
    }
}

/// Refuses a request to reserve that has a detail which its protocol cannot signal, or one that no packet can have:
/// nothing of a request is ignored.
pub(crate) fn check_reservation(
    protocol: &dyn Protocol,
    request: &ReservationRequest,
) -> Result<(), Problem> {
    let details = [
        (request.query, Detail::Query),
        (request.flow_label.is_some(), Detail::FlowLabel),
        (request.spi.is_some(), Detail::Spi),
        (request.ip_protocol != udp::PROTOCOL, Detail::IpProtocol),
    ];
    check_all(protocol, &details)?;
    let ReservationRequest { to, from, flow_label, spi, .. } = *request;
    let port = from.map_or(0, |from| from.port());
    check_selector(&SenderName { address: to.ip(), port, flow_label, spi })?;
    check_identity(protocol, &request.identity)
}

/// Refuses a request to listen that has a detail which its protocol cannot signal.
pub(crate) fn check_listener(
    protocol: &dyn Protocol,
    request: &ListenRequest,
) -> Result<(), Problem> {
    check_all(protocol, &[(request.ip_protocol != udp::PROTOCOL, Detail::IpProtocol)])?;
    check_identity(protocol, &request.identity)
}

fn check_identity(protocol: &dyn Protocol, identity: &Identity) -> Result<(), Problem> {
    let has_name = identity.user.is_some() || identity.application.is_some();
    let details = [
        (has_name, Detail::Name),
        (identity.priority.is_some(), Detail::Priority),
        (identity.token.is_some(), Detail::Token),
    ];
    check_all(protocol, &details)
}

fn check_all(protocol: &dyn Protocol, details: &[(bool, Detail)]) -> Result<(), Problem> {
    let asked = details.iter().filter(|(is_asked, _)| *is_asked);
    asked.map(|(_, detail)| *detail).try_for_each(|detail| detail.check(protocol))
}
