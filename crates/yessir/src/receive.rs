//! Receipt of a message: validity checks, and dispatch to the rules for it.
//!
//! The engine forwards messages that carry YESSIR and are not for this host. Everything else that it receives,
//! reports without YESSIR and messages for this host, is a copy: the packet itself is delivered without the engine.

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, Interface, InterfaceId, Rate};
use earmark_wire::udp;
use earmark_wire::yessir::{
    Auth, Command, CommonForm, EditOffsets, Message, ParseError, Report, Style, has_message,
};

use crate::api::{Change, Event, Stream};
use crate::auth::Covered;
use crate::counters::DropReason;
use crate::flowspec::RequestedRate;
use crate::instance::{HandlerContext, Hint, Received, Yessir};
use crate::next_hops::NextHops;
use crate::origin::{OWN, Origin};
use crate::reserve::{Failure, Request};

impl Yessir {
    /// Handles an intercepted UDP packet that may carry YESSIR, or a report to be measured.
    pub(crate) fn handle_message<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        let Ok(packet) = udp::Packet::parse(datagram.payload) else {
            *self.counters.malformed.entry("udp").or_default() += 1;
            return self.ignore(cx, datagram, DropReason::Malformed);
        };
        let usual = CommonForm::read(packet.payload);
        let mut hint = Hint::default();
        if let Some(usual) = &usual
            && self.handle_refresh(cx, datagram, &packet, usual, &mut hint)
        {
            return;
        }
        let received = Received::of(datagram, packet, &hint);
        self.process_message(cx, datagram, &received, usual.as_ref());
    }

    /// Processes a message that is not known to be a refresh.
    #[inline]
    fn process_message<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        received: &Received<'_>,
        usual: Option<&CommonForm<'_>>,
    ) {
        // A report is large, so it is built in place and passed by reference.
        match &usual.and_then(CommonForm::report) {
            Some(report) => self.process_report(cx, datagram, received, report),
            None => self.process_unusual(cx, datagram, received),
        }
    }

    /// Processes a message of another form than nearly all have.
    #[inline(never)]
    fn process_unusual<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        received: &Received<'_>,
    ) {
        match &Report::parse(received.packet.payload) {
            Ok(report) => self.process_report(cx, datagram, received, report),
            Err(error) => self.handle_malformed(cx, datagram, received, error),
        }
    }

    /// Processes a report that is not a mere refresh.
    #[inline(always)]
    fn process_report<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        received: &Received<'_>,
        report: &Report<'_>,
    ) {
        mark(Checkpoint::Parse);
        let interfaces = cx.context.interfaces;
        let link = interfaces.by_id(datagram.interface);
        let takes_part = link.is_some_and(Interface::takes_part);
        let is_core = link.is_some_and(Interface::is_core);
        let Some((message, places)) = &report.message else {
            if takes_part {
                self.process_foreign_report(cx, datagram, received, report);
            }
            return;
        };
        if received.checksum == udp::Checksum::Invalid {
            self.ignore(cx, datagram, DropReason::Checksum);
            return self.relay_ignored(cx, datagram, received);
        }
        // Routers further on trust this one to have checked the source.
        if !is_core && !self.checks_source(cx, datagram) {
            return;
        }
        let is_local = interfaces.is_local(datagram.destination);
        let is_group = datagram.destination.is_multicast() && !self.roles.is_empty();
        let is_of_sender = report.sender.is_some()
            || (report.goodbye && self.is_goodbye_of_sender(received, report, message));
        let announces = is_of_sender && (is_local || is_group);
        if announces
            && self.auth.is_required
            && let Err(reason) = self.check_announcement(cx, datagram, received, report, message)
        {
            self.ignore(cx, datagram, reason);
            return self.relay_ignored(cx, datagram, received);
        }
        if is_local {
            let known = if is_of_sender {
                self.handle_announcement(cx, received, report, message)
            } else {
                self.counters.answers += 1;
                self.handle_answer(cx, received, message)
            };
            if let Err(reason) = known {
                self.ignore(cx, datagram, reason);
            }
            return;
        }
        if is_group && is_of_sender {
            match self.handle_announcement(cx, received, report, message) {
                Ok(()) | Err(DropReason::NotForUs) => {}
                Err(reason) => self.ignore(cx, datagram, reason),
            }
        }
        if !takes_part {
            return self.relay(cx, datagram, received);
        }
        if !is_of_sender {
            // Receiver reports are for senders.
            self.counters.answers += 1;
            return self.relay(cx, datagram, received);
        }
        if datagram.ttl <= 1 {
            return self.ignore(cx, datagram, DropReason::TtlExpired);
        }
        let computed;
        let stream = match &received.hint.stream {
            Some(stream) => stream,
            None => match received.stream(message.generic.multiplexed) {
                Ok(stream) => {
                    computed = stream;
                    &computed
                }
                Err(reason) => {
                    self.ignore(cx, datagram, reason);
                    return self.relay_ignored(cx, datagram, received);
                }
            },
        };
        let sequence = match self.check_report(cx, datagram, received, stream, report) {
            Ok(sequence) => sequence,
            Err(reason) => {
                self.ignore(cx, datagram, reason);
                return self.relay_ignored(cx, datagram, received);
            }
        };
        if let Err(reason) = self.dispatch(cx, received, stream, report, message, places, sequence)
        {
            self.ignore(cx, datagram, reason);
        }
    }

    /// Returns whether a report comes from the sender of a known or announced stream. A sender that has sent no data of late
    /// leaves with a receiver report (RFC 3550 section 6.4).
    #[cold]
    fn is_goodbye_of_sender(
        &self,
        received: &Received<'_>,
        report: &Report<'_>,
        message: &Message<'_>,
    ) -> bool {
        let Ok(stream) = received.stream(message.generic.multiplexed) else { return false };
        let found = self.store.find(&stream);
        found.is_some_and(|index| self.store.session(index).ssrc == report.ssrc)
            || self.announcer(&stream).is_some_and(|origin| origin.ssrc == report.ssrc)
    }

    /// Checks a report that announces a stream to this host like one that passes it.
    ///
    /// # Errors
    /// The reason to forward the report without effect.
    #[cold]
    fn check_announcement<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        received: &Received<'_>,
        report: &Report<'_>,
        message: &Message<'_>,
    ) -> Result<(), DropReason> {
        let stream = received.stream(message.generic.multiplexed)?;
        self.check_report(cx, datagram, received, &stream, report).map(|_| ())
    }

    /// Checks that a report of a stream is authentic, if it must be, and that its origin may touch the stream. Returns the
    /// sequence number of its signature.
    ///
    /// # Errors
    /// The reason to forward the report without effect.
    #[inline(always)]
    fn check_report<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        received: &Received<'_>,
        stream: &Stream,
        report: &Report<'_>,
    ) -> Result<Option<u64>, DropReason> {
        let Some((message, _)) = &report.message else { return Ok(None) };
        let mut sequence = None;
        if let Some(interface) = self.auth.required_on(cx.context, datagram.interface) {
            sequence = Some(self.verify_report(cx, interface, received, stream, report)?);
        }
        if message.generic.command == Command::Passive {
            return Ok(sequence);
        }
        if let Ok(index) = received.hint.found.unwrap_or_else(|| self.store.look_up(stream)) {
            let origin = Origin { ssrc: report.ssrc, arrival: datagram.interface };
            self.store.session(index).may_touch(cx.context, origin, sequence.is_some())?;
        }
        Ok(sequence)
    }

    /// Verifies the signature of a report. Returns its sequence number.
    #[cold]
    fn verify_report<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        interface: &str,
        received: &Received<'_>,
        stream: &Stream,
        report: &Report<'_>,
    ) -> Result<u64, DropReason> {
        let Some((message, places)) = &report.message else { return Ok(0) };
        let covered = Covered {
            stream,
            ssrc: report.ssrc,
            sender: report.sender.unwrap_or_default(),
            goodbye: report.goodbye,
            data: places.data(received.packet.payload),
        };
        let sequence = self.verify_sender(cx, interface, &covered, message.auth.as_ref())?;
        mark(Checkpoint::Integrity);
        Ok(sequence)
    }

    /// Applies a message and forwards it.
    ///
    /// # Errors
    /// The reason why the message cannot be forwarded.
    #[allow(clippy::too_many_arguments)] // one message, taken apart
    #[inline(always)]
    pub(crate) fn dispatch<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        received: &Received<'_>,
        stream: &Stream,
        report: &Report<'_>,
        message: &Message<'_>,
        places: &EditOffsets,
        sequence: Option<u64>,
    ) -> Result<(), DropReason> {
        let next_hops = NextHops::of(
            cx.context,
            received.incoming,
            received.datagram.source,
            received.datagram.destination,
            Some(stream),
        )?;
        mark(Checkpoint::Route);
        let command = if report.goodbye { Command::Release } else { message.generic.command };
        if let Some(arrival) = received.incoming
            && !cx.context.is_core(arrival)
            && self.asks_for_something_new(received, stream, message, command)
            && !may_forward(cx, arrival, next_hops)
        {
            return Err(DropReason::Limit);
        }
        match command {
            Command::Active => {
                self.counters.active += 1;
                self.process_request(
                    cx, received, stream, report, message, places, sequence, next_hops,
                );
            }
            Command::Passive => {
                self.counters.passive += 1;
                self.forward_all(cx, received, Some((message, places)), next_hops);
            }
            _ => {
                self.counters.release += 1;
                let found = received.hint.found.unwrap_or_else(|| self.store.look_up(stream));
                self.release(cx, found.ok(), report.ssrc, Change::Released);
                self.forward_all(cx, received, None, next_hops);
            }
        }
        Ok(())
    }

    /// Returns whether a message is more than a refresh: a new or changed request, a query, or a release of nothing.
    #[cold]
    fn asks_for_something_new(
        &self,
        received: &Received<'_>,
        stream: &Stream,
        message: &Message<'_>,
        command: Command,
    ) -> bool {
        let found = received.hint.found.unwrap_or_else(|| self.store.look_up(stream));
        let Ok(session) = found.map(|index| self.store.session(index)) else { return true };
        match command {
            Command::Active => {
                let is_ipv6 = received.datagram.source.is_ipv6();
                match self.config.requested_rate(message.flowspec.as_ref(), is_ipv6) {
                    Ok(RequestedRate::Demand(demand)) => session.asked != demand,
                    Ok(RequestedRate::Measured(_)) => false,
                    Err(_) => true,
                }
            }
            Command::Passive => true,
            _ => false,
        }
    }

    /// Forwards a message to all its next hops; with `message`, this node edits it on links where it takes part.
    fn forward_all<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        received: &Received<'_>,
        message: Option<(&Message<'_>, &EditOffsets)>,
        next_hops: NextHops<'_>,
    ) {
        for (interface, ours) in next_hops.iter(cx.context.interfaces) {
            let message =
                message.zip(ours).map(|((message, places), ours)| (message, places, ours));
            self.forward(cx, received, message, (interface, next_hops.next_hop()), None);
        }
    }

    /// Processes a request for bandwidth.
    #[allow(clippy::too_many_arguments)] // likewise
    fn process_request<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        received: &Received<'_>,
        stream: &Stream,
        report: &Report<'_>,
        message: &Message<'_>,
        places: &EditOffsets,
        sequence: Option<u64>,
        next_hops: NextHops<'_>,
    ) {
        let asked = self
            .config
            .requested_rate(message.flowspec.as_ref(), received.datagram.source.is_ipv6());
        let session = asked.as_ref().map_err(|reason| *reason).and_then(|asked| {
            let request = Request {
                stream,
                ssrc: report.ssrc,
                arrival: received.incoming.unwrap_or(OWN),
                asked,
                shared: message.generic.style == Style::Shared,
                lifetime_ms: self.config.lifetime_ms(message.generic.interval),
                // The counts of a measured stream change with each message.
                fingerprint: if matches!(asked, RequestedRate::Demand(_)) {
                    received.hint.fingerprint
                } else {
                    0
                },
                found: received.hint.found,
                sender: report.sender.unwrap_or_default(),
                sequence,
                has_own_report_flow: false,
                token: message.token,
            };
            self.note_request(cx, &request, next_hops)
        });
        for (interface, ours) in next_hops.iter(cx.context.interfaces) {
            let failure = ours.and_then(|_| match session {
                Ok(session) => self.reserve_on(cx, session, interface),
                Err(reason) => Some(Failure { reason, available: Rate::ZERO }),
            });
            let message = ours.map(|ours| (message, places, ours));
            self.forward(cx, received, message, (interface, next_hops.next_hop()), failure);
        }
    }

    /// Verifies the AUTH of a message. Returns its sequence number.
    fn verify_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        interface: &str,
        message: &Covered<'_>,
        auth: Option<&Auth>,
    ) -> Result<u64, DropReason> {
        let known = self.store.find(message.stream).map(|session| self.store.session(session));
        let last = known.and_then(|known| known.extra.as_ref()).and_then(|extra| extra.sequence);
        let (sequence, expired) = self.auth.verify(cx.now, interface, message, auth, last)?;
        if let Some(key) = expired {
            cx.out.notify(Event::LastKeyExpired { key });
        }
        Ok(sequence)
    }

    /// Counts a malformed message and forwards it.
    #[cold]
    fn handle_malformed<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        received: &Received<'_>,
        error: &ParseError,
    ) {
        *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
        self.ignore(cx, datagram, DropReason::Malformed);
        if has_message(received.packet.payload) {
            self.relay_ignored(cx, datagram, received);
        }
    }

    /// Forwards a message like a router without YESSIR.
    fn relay<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        received: &Received<'_>,
    ) {
        self.relay_within(cx, datagram, received, None);
    }

    /// Forwards a message that has no effect here. From an access interface it counts as a request does: no refresh of an
    /// honest host is among these.
    #[cold]
    fn relay_ignored<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        received: &Received<'_>,
    ) {
        let port = received.incoming.filter(|arrival| !cx.context.is_core(*arrival));
        self.relay_within(cx, datagram, received, port);
    }

    /// Forwards a message like a router without YESSIR, within the share that an access interface has of the signalling
    /// class of the outgoing links.
    fn relay_within<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        received: &Received<'_>,
        port: Option<InterfaceId>,
    ) {
        if cx.context.interfaces.is_local(datagram.destination) {
            return;
        }
        if datagram.ttl <= 1 {
            return self.ignore(cx, datagram, DropReason::TtlExpired);
        }
        let next_hops = NextHops::of(
            cx.context,
            received.incoming,
            received.datagram.source,
            received.datagram.destination,
            received.stream(false).ok().as_ref(),
        );
        match next_hops {
            Ok(next_hops) if port.is_some_and(|port| !may_forward(cx, port, next_hops)) => {
                self.ignore(cx, datagram, DropReason::Limit);
            }
            Ok(next_hops) => self.forward_all(cx, received, None, next_hops),
            Err(reason) => self.ignore(cx, datagram, reason),
        }
    }
}

/// Returns whether another message that is more than a refresh may be forwarded from an access interface.
fn may_forward<E>(
    cx: &mut HandlerContext<'_, '_, E>,
    arrival: InterfaceId,
    next_hops: NextHops<'_>,
) -> bool {
    let interfaces = cx.context.interfaces;
    next_hops
        .iter(interfaces)
        .all(|(outgoing, _)| cx.context.may_forward_request(cx.now, (arrival, outgoing), 1))
}
