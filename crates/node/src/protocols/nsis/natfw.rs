//! Rows of NATFW NSLP: the rules of its sessions, and the addresses and ports that they have reserved.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::net::SocketAddr;

use earmark_core::listing::{FilterSessionRow, PinholeRow, ReservationRow, TranslationRow};
use earmark_core::{FilterRule, Flow, Prefix};
use earmark_nsis::Nsis;
use earmark_nsis::natfw::{NatfwNslp, PinholeView, SessionView, TranslationView};

use crate::engine::{NodeView, rows_of_slot};

/// Iterates over the slots of sessions, each with its rules.
pub(super) fn pinhole_rows<'a>(
    natfw: &'a NatfwNslp,
    from: u32,
    view: NodeView<'a>,
) -> impl Iterator<Item = (u32, Option<PinholeRow>)> + 'a {
    (from..natfw.session_slots()).flat_map(move |slot| {
        let rules = natfw.pinholes_at(slot);
        rows_of_slot(slot, rules.map(move |pinhole| pinhole_row(pinhole, view)))
    })
}

/// Iterates over the slots of sessions, each with the address and port that it has reserved.
pub(super) fn translation_rows<'a>(
    natfw: &'a NatfwNslp,
    from: u32,
    view: NodeView<'a>,
) -> impl Iterator<Item = (u32, Option<TranslationRow>)> + 'a {
    let row = move |translation| {
        let TranslationView { session, protocol, internal, external, action, from } = translation;
        TranslationRow {
            session: session_row(session, view),
            action,
            ip_protocol: protocol,
            internal,
            external,
            from,
        }
    };
    let slots = from..natfw.session_slots();
    slots.map(move |slot| (slot, natfw.translation_at(slot).map(row)))
}

fn pinhole_row(pinhole: PinholeView, view: NodeView<'_>) -> PinholeRow {
    let FilterRule { packets, action, source, destination } = pinhole.rule;
    let flow = packets.flow;
    PinholeRow {
        action,
        ip_protocol: flow.protocol,
        source: flow.source,
        source_port: flow.source_port,
        destination: flow.destination,
        destination_port: flow.destination_port,
        spi: (flow.spi != 0).then_some(flow.spi),
        icmp_type: packets.icmp_type,
        new_source: source,
        new_destination: destination,
        installed: pinhole.session.is_installed,
        reason: reason(&pinhole.session),
        session: session_row(pinhole.session, view),
    }
}

/// Returns the reason why the packet filter does not have the rules of a session.
fn reason(session: &SessionView) -> Option<Cow<'static, str>> {
    match (session.is_installed, session.stage) {
        (true, _) => None,
        (false, "pending") => Some("waits for the responder".into()),
        (false, _) => Some("not installed yet".into()),
    }
}

fn session_row(session: SessionView, view: NodeView<'_>) -> FilterSessionRow {
    FilterSessionRow {
        session: session.session,
        message: session.message.into(),
        role: session.role.name().into(),
        stage: session.stage.into(),
        application: session.application,
        user: session.user,
        expires_in_s: session.expires_at.and_then(|at| view.seconds_until(at)),
    }
}

/// Returns why packets of a reservation of another protocol do not have it: this node translates them, and traffic control sees
/// them afterwards.
pub(super) fn obstacle(engine: &Nsis, row: &ReservationRow, view: NodeView<'_>) -> Option<String> {
    if row.protocol == "nsis" {
        return None;
    }
    row.senders.iter().find_map(|sender| {
        let flow = Flow {
            source: Some(sender.address),
            source_port: sender.port,
            protocol: row.ip_protocol,
            destination_port: row.destination_port,
            ..Flow::to_range(Prefix::host(row.destination))
        };
        let after = engine.natfw().translated(view.now, &flow)?;
        let source = SocketAddr::new(after.source?, after.source_port);
        Some(format!(
            "packets leave as those of {source}, by address translation: reserve with nsis"
        ))
    })
}
