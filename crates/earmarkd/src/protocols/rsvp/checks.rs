//! Checks of RSVP requests before the node sees them, and their conversion to RSVP's objects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use earmark_control::protocols::rsvp::ListenOptions;
use earmark_control::{ListenRequest, Problem, ReservationRequest, SenderName, StyleName};
use earmark_core::Rate;
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{SenderTemplate, SourceSelector};

use crate::protocol::{check_selector, rejected};

/// Returns the sender template.
pub(crate) fn template(request: &ReservationRequest) -> Result<SenderTemplate, Problem> {
    let any: IpAddr = match request.to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = request.from.unwrap_or(SocketAddr::new(any, 0));
    if from.is_ipv4() != request.to.is_ipv4() {
        return Err(rejected(
            format!("{} and {} are of different IP versions", from.ip(), request.to.ip()),
            "both IPv4 or both IPv6",
        ));
    }
    let (address, port) = (from.ip(), from.port());
    let ReservationRequest { flow_label, spi, .. } = *request;
    Ok(template_of(&SenderName { address, port, flow_label, spi }))
}

/// Returns the template of a sender.
pub(crate) fn template_of(sender: &SenderName) -> SenderTemplate {
    SenderTemplate {
        source: sender.address,
        selector: match (sender.flow_label, sender.spi) {
            (Some(label), _) => SourceSelector::FlowLabel(label),
            (None, Some(spi)) => SourceSelector::Spi(spi),
            (None, None) => SourceSelector::Port(sender.port),
        },
    }
}

/// Checks that the senders that a receiver names are possible.
pub(crate) fn check_senders(
    request: &ListenRequest,
    options: &ListenOptions,
) -> Result<(), Problem> {
    if options.style == StyleName::Wf && !options.senders.is_empty() {
        return Err(rejected(
            "the wildcard style takes no sender".to_owned(),
            "use the style SE to share among some",
        ));
    }
    for sender in &options.senders {
        if sender.address.is_ipv4() != request.on.is_ipv4() || sender.address.is_unspecified() {
            return Err(rejected(
                format!("{} cannot be a sender to {}", sender.address, request.on.ip()),
                "name the address of a sender, of the destination's IP version",
            ));
        }
        check_selector(sender)?;
    }
    Ok(())
}

/// Returns the token bucket of the data.
pub(crate) fn tspec(request: &ReservationRequest, rate: Rate) -> Result<TokenBucket, Problem> {
    if rate == Rate::ZERO {
        return Err(rejected(
            "a rate of 0 reserves nothing".to_owned(),
            "give a rate such as 2Mbit",
        ));
    }
    if request.min_packet > request.max_packet {
        return Err(rejected(
            format!(
                "the smallest packet ({} octets) is larger than the largest ({})",
                request.min_packet, request.max_packet
            ),
            "RFC 2210 section 3.1 wants m <= M",
        ));
    }
    if request.burst_octets < request.max_packet {
        return Err(rejected(
            format!(
                "a burst of {} octets does not hold one packet of {}",
                request.burst_octets, request.max_packet
            ),
            "make the burst a few packets large",
        ));
    }
    if request.peak_bps.is_some_and(|peak| peak < rate) {
        return Err(rejected(
            "the peak rate is below the token rate".to_owned(),
            "omit it if it is unknown",
        ));
    }
    Ok(TokenBucket {
        rate: rate.as_octets_per_second(),
        depth: request.burst_octets as f32,
        peak: request.peak_bps.map_or(f32::INFINITY, Rate::as_octets_per_second),
        min_policed_unit: request.min_packet,
        max_packet_size: request.max_packet,
    })
}
