//! Reports of senders without YESSIR, by which a router measures their streams and reserves for them.

use earmark_core::Datagram;
use earmark_core::InterfaceId;
use earmark_wire::udp;
use earmark_wire::yessir::Report;

use crate::api::{Change, Event};
use crate::config::Measuring;
use crate::flowspec::RequestedRate;
use crate::instance::{HandlerContext, Received, Yessir};
use crate::next_hops::NextHops;
use crate::origin::Origin;
use crate::reserve::Request;

impl Yessir {
    /// Processes a report without YESSIR on an interface where these are measured. The packet itself is forwarded by
    /// the kernel.
    pub(crate) fn process_foreign_report<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        received: &Received<'_>,
        report: &Report<'_>,
    ) {
        let Some(measuring) = self.measuring_on(cx, datagram.interface) else { return };
        if report.sender.is_none() && !report.goodbye {
            return;
        }
        let interfaces = cx.context.interfaces;
        if received.checksum == udp::Checksum::Invalid || interfaces.is_local(datagram.destination)
        {
            return;
        }
        // Data have even ports, and reports the odd ones behind them, or those of the data (RFC 5761).
        let multiplexed = received.packet.destination_port.is_multiple_of(2);
        let Ok(stream) = received.stream(multiplexed) else { return };
        if !cx.context.is_core(datagram.interface) && !self.checks_source(cx, datagram) {
            return;
        }
        let found = self.store.find(&stream);
        if let Some(index) = found {
            let origin = Origin { ssrc: report.ssrc, arrival: datagram.interface };
            if let Err(reason) = self.store.session(index).may_touch(cx.context, origin, false) {
                return self.ignore(cx, datagram, reason);
            }
        }
        self.counters.measured += 1;
        if report.goodbye {
            return self.release(cx, found, report.ssrc, Change::Released);
        }
        let Some(sender) = report.sender else { return };
        let (incoming, source) = (Some(datagram.interface), datagram.source);
        let Ok(next_hops) =
            NextHops::of(cx.context, incoming, source, datagram.destination, Some(&stream))
        else {
            return;
        };
        let request = Request {
            stream: &stream,
            ssrc: report.ssrc,
            arrival: datagram.interface,
            asked: &RequestedRate::Measured(measuring),
            shared: false,
            lifetime_ms: self.config.lifetime_ms(0),
            fingerprint: 0,
            found: None,
            sender,
            sequence: None,
            has_own_report_flow: !multiplexed,
            token: None,
        };
        let Ok(session) = self.note_request(cx, &request, next_hops) else { return };
        for (interface, ours) in next_hops.iter(cx.context.interfaces) {
            if ours.is_some() {
                self.reserve_on(cx, session, interface);
            }
        }
    }

    /// Returns how foreign streams are measured that arrive on an interface, if they are.
    fn measuring_on<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
    ) -> Option<Measuring> {
        if self.config.measured.is_empty() {
            return None;
        }
        let interface = cx.context.interfaces.by_id(interface)?;
        self.config.measured.get(&interface.name).copied()
    }
}
