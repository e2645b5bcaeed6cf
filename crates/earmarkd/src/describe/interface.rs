//! Interface that an event concerns.

use earmark_boomerang as boomerang;
use earmark_core::InterfaceId;
use earmark_node::Event;
use earmark_nsis::{self as nsis, gist, qos};
use earmark_rsvp as rsvp;
use earmark_yessir as yessir;

/// Returns the interface that an event contains as an index, if any.
pub fn interface_of(event: &Event) -> Option<InterfaceId> {
    match event {
        Event::Rsvp(
            rsvp::Event::Reservation { interface, .. }
            | rsvp::Event::Refused { interface, .. }
            | rsvp::Event::NeighborLost { interface, .. }
            | rsvp::Event::Dropped { interface, .. },
        )
        | Event::Boomerang(
            boomerang::Event::Reservation { interface, .. }
            | boomerang::Event::Dropped { interface, .. },
        )
        | Event::Yessir(
            yessir::Event::Reservation { interface, .. }
            | yessir::Event::Refused { interface, .. }
            | yessir::Event::Ignored { interface, .. },
        )
        | Event::Nsis(nsis::Event::Qos(
            qos::Event::Reservation { interface, .. } | qos::Event::Dropped { interface, .. },
        ))
        | Event::NotAdopted { interface, .. } => Some(*interface),
        Event::Nsis(nsis::Event::Gist(gist::Event::Ignored { interface, .. })) => *interface,
        _ => None,
    }
}
