//! The record of this node in a message: its address, its time and its reservable rate.

use earmark_core::{Context, Time};
use earmark_wire::gist::{Direction, Mri};
use earmark_wire::ping_nslp::{self as wire, Timestamp};

use crate::nslp::{HandlerContext, Received};
use crate::route;

/// Creates the record of this node for a message.
pub(super) fn visit(cx: &HandlerContext<'_, '_>, message: &Received<'_>) -> wire::NodeRecord {
    let (source, _) = message.mri.addresses();
    let interface = cx.context.interfaces.by_id(message.interface);
    wire::NodeRecord {
        // Without an address of this family the node could not have been reached.
        address: interface.and_then(|it| it.address_like(source)).unwrap_or(source),
        time: timestamp(cx.now),
        available: available(cx.context, &message.mri),
    }
}

/// Returns a time of this node: since the start of its daemon, or of the simulation.
pub(super) fn timestamp(now: Time) -> Timestamp {
    let since = now.since(Time::ZERO);
    Timestamp {
        seconds: u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
        microseconds: since.subsec_micros(),
    }
}

/// Returns the reservable rate in the direction of `mri`, bit/s; `None` if the path ends here.
pub(super) fn available(context: &Context<'_>, mri: &Mri) -> Option<u64> {
    let (source, destination) = mri.addresses();
    let end = match mri.direction() {
        Direction::Downstream => destination,
        Direction::Upstream => source,
    };
    if context.interfaces.is_local(end) {
        return None;
    }
    let link = route::hop(context, mri)?.interface;
    context.ledger.link(link).map(|_| context.ledger.available(link).as_bps())
}
