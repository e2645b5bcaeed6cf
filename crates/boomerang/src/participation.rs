//! Count of the nodes that take part in a loop: each node counts itself in the record of a message (see
//! [`earmark_wire::boomerang::Participation`]), and the initiating node reads from it how far its reservation
//! reaches.
//!
//! An echo reply alone proves nothing: a stock host answers any ping, whether nodes on the path have reserved or not.

use core::net::IpAddr;

use earmark_core::outcome::{Kind, Message, Outcome, Translation};
use earmark_core::{Context, Datagram};
use earmark_wire::boomerang::iana::participation_flag::{FAR_END, FORWARD_ENDS};
use earmark_wire::boomerang::{Participation, PassCount, Rates, View};

use crate::message::Outcome as Treated;
use crate::selector::Direction;

/// The record of a message, with its offset.
pub(crate) type Record = (usize, Participation);

/// Returns the record of a message as this node forwards it, if there is one and this node has reserved.
#[inline(always)]
pub(crate) fn counted_record(
    context: &Context<'_>,
    datagram: &Datagram<'_>,
    view: &View<'_>,
    direction: Direction,
    processed: &Treated,
) -> Option<Record> {
    match view.has_options() && !processed.edits.nack {
        true => count(context, datagram, view, direction, processed),
        false => None,
    }
}

fn count(
    context: &Context<'_>,
    datagram: &Datagram<'_>,
    view: &View<'_>,
    direction: Direction,
    processed: &Treated,
) -> Option<Record> {
    let interface =
        context.interfaces.by_id(processed.interface?).filter(|link| link.takes_part())?;
    let (at, mut record) = view.options().participation()?;
    let own = interface.address_like(datagram.destination)?;
    match direction {
        Direction::Forward => {
            count_arrival(&mut record, datagram);
            record.last_forward = own;
            record.set(FORWARD_ENDS, context.is_adjacent(datagram.destination));
        }
        Direction::Reverse if record.reverse.nodes == 0 => {
            record.first_reverse = own;
            // The initial TTL of a stock host is unknown.
            if !context.is_adjacent(datagram.source) {
                record.reverse.gaps = 1;
            }
        }
        Direction::Reverse => add_gaps(&mut record.reverse, record.ttl, datagram.ttl),
    }
    let count = match direction {
        Direction::Forward => &mut record.forward,
        Direction::Reverse => &mut record.reverse,
    };
    count.nodes = count.nodes.saturating_add(1);
    record.ttl = datagram.ttl.saturating_sub(1);
    Some((at, record))
}

/// Returns the record of a message as the far end returns it with this TTL.
pub(crate) fn returned_record(
    context: &Context<'_>,
    datagram: &Datagram<'_>,
    view: &View<'_>,
    processed: &Treated,
    ttl: u8,
) -> Option<Record> {
    if !view.has_options() {
        return None;
    }
    let (at, mut record) = view.options().participation()?;
    count_arrival(&mut record, datagram);
    record.set(FORWARD_ENDS, true);
    let reserves =
        processed.interface.is_some_and(|interface| context.interfaces.takes_part(interface));
    if reserves && !processed.edits.nack {
        record.set(FAR_END, true);
        record.first_reverse = datagram.destination;
        record.reverse = PassCount { nodes: 1, gaps: 0 };
        record.ttl = ttl;
    }
    Some((at, record))
}

/// Counts the arrival of a message on the outward pass: routers on the path that do not take part, and address
/// translation.
fn count_arrival(record: &mut Participation, datagram: &Datagram<'_>) {
    add_gaps(&mut record.forward, record.ttl, datagram.ttl);
    if datagram.source != record.initiator && record.seen.is_unspecified() {
        record.seen = datagram.source;
    }
}

fn add_gaps(count: &mut PassCount, sent: u8, arrived: u8) {
    count.gaps = count.gaps.saturating_add(sent.saturating_sub(arrived));
}

/// Returns how far a reservation at these rates reaches, by a record that arrived with this TTL at the initiating
/// node.
pub(crate) fn reach(record: &Participation, rates: Rates, far_end: IpAddr, ttl: u8) -> Outcome {
    let mut reverse = record.reverse;
    if reverse.nodes > 0 {
        add_gaps(&mut reverse, record.ttl, ttl);
    }
    let (there, back) = (rates.forward > 0, rates.reverse > 0);
    let forward = record.forward;
    let is_there = forward.gaps == 0 && record.has(FORWARD_ENDS);
    let is_back = reverse.gaps == 0 && record.has(FAR_END);
    let translation = (!record.seen.is_unspecified())
        .then_some(Translation { named: record.initiator, seen: Some(record.seen) });
    let is_whole = (!there || is_there) && (!back || is_back) && translation.is_none();
    let nobody = (!there || forward.nodes == 0) && (!back || reverse.nodes == 0);
    let kind = match (is_whole, nobody) {
        (true, _) => Kind::Whole,
        // This node reserves where its own packets leave, and nothing in the reverse direction.
        (false, true) if there => Kind::OnlyHere,
        (false, true) => Kind::Unanswered,
        (false, false) => Kind::Part,
    };
    // Behind the last node that takes part no node counts, but the far end of the reverse path is one.
    let ends = (!there || record.has(FORWARD_ENDS)) && (!back || reverse.nodes > 0);
    let mut gaps = 0;
    if there {
        gaps += u16::from(forward.gaps);
    }
    if back {
        gaps += u16::from(reverse.gaps) + u16::from(!record.has(FAR_END));
    }
    Outcome {
        from: Some(if there { record.initiator } else { record.first_reverse })
            .filter(|address| !address.is_unspecified()),
        to: Some(if there { record.last_forward } else { record.initiator }),
        hops_without: ends.then_some(gaps),
        nodes: Some(u16::from(match (there, back) {
            (true, false) => forward.nodes,
            (false, true) => reverse.nodes,
            _ => forward.nodes.max(reverse.nodes),
        })),
        translation,
        ..Outcome::reported(kind, Some(far_end), Message::new("echo reply"))
    }
}
