//! Requests of applications in the form of messages: a flow as message routing information, a rate as a QSPEC.

use alloc::vec::Vec;

use earmark_core::{Flow, Rate};
use earmark_wire::gist::{Direction, PathCoupled};

use super::QosNslp;
use super::api::{Rejection, RequestedQos};
use super::flow::flow_of;
use super::qspec::{self, Purpose};
use crate::nslp::HandlerContext;

impl QosNslp {
    /// Returns the message routing information of a flow that begins here.
    pub(super) fn mri_of(
        &self,
        cx: &HandlerContext<'_, '_>,
        flow: &Flow,
    ) -> Result<PathCoupled, Rejection> {
        let interfaces = cx.context.interfaces;
        let hop = cx.context.routes.lookup(flow.destination);
        let source = match flow.source.filter(|source| !source.is_unspecified()) {
            Some(source) => source,
            None => {
                let hop = hop.ok_or(Rejection::NoRoute)?;
                let interface = interfaces.by_id(hop.interface);
                hop.source
                    .or_else(|| interface.and_then(|i| i.address_like(flow.destination)))
                    .ok_or(Rejection::BadFlow)?
            }
        };
        let bits = if source.is_ipv4() { 32 } else { 128 };
        let port = |port: u16| (port != 0).then_some(port);
        let mri = PathCoupled {
            source,
            destination: flow.destination,
            source_prefix: bits - flow.source_open.min(bits),
            destination_prefix: bits - flow.destination_open.min(bits),
            protocol: (flow.protocol != 0).then_some(flow.protocol),
            ds_field: None,
            flow_label: (flow.flow_label != 0).then_some(flow.flow_label),
            spi: (flow.spi != 0).then_some(flow.spi),
            source_port: port(flow.source_port),
            destination_port: port(flow.destination_port),
            direction: Direction::Downstream,
        };
        let begins_here = flow.source_open > 0 || interfaces.is_local(source);
        if !begins_here || flow_of(&mri, None).is_none() {
            return Err(Rejection::BadFlow);
        }
        Ok(mri)
    }
}

/// Returns the QSPEC of a valid request.
pub(super) fn qspec_of(qos: &RequestedQos, purpose: Purpose) -> Result<Vec<u8>, Rejection> {
    let smallest = Rate::from_bps(8);
    let sound = qos.rate >= smallest
        && qos.burst > 0
        && qos.max_packet > 0
        && qos.peak.is_none_or(|peak| peak >= qos.rate)
        && qos.minimum.is_none_or(|minimum| {
            minimum <= qos.rate && (minimum == Rate::ZERO || minimum >= smallest)
        });
    sound.then(|| qspec::of_request(qos, purpose)).flatten().ok_or(Rejection::BadQos)
}
