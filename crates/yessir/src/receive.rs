//! Receipt of a message: whether it is valid and counts, and which rules treat it.
//!
//! The engine sends on what carries YESSIR and is not for this host. Everything else that it is shown, reports of those
//! who know nothing of YESSIR and messages for this host, is a copy: the packet itself goes its own way.

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, Interface, InterfaceId, Rate};
use earmark_wire::udp;
use earmark_wire::yessir::{
    Command, CommonForm, EditOffsets, Message, ParseError, Report, Style, has_message,
};

use crate::api::{Change, Event, Stream};
use crate::config::Measuring;
use crate::counters::DropReason;
use crate::flowspec::RequestedRate;
use crate::instance::{HandlerContext, Hint, Passing, Yessir};
use crate::next_hops::NextHops;
use crate::reserve::{Failure, Request};

impl Yessir {
    /// A UDP packet arrives that interception holds for YESSIR's, or for a report to be measured.
    pub(crate) fn message_arrives<E: From<Event>>(
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
            && self.refreshed(cx, datagram, &packet, usual, &mut hint)
        {
            return;
        }
        let passing = Passing::of(datagram, packet, &hint);
        self.news_arrives(cx, datagram, &passing, usual.as_ref());
    }

    /// A message arrives that is not known to say nothing new.
    #[inline]
    fn news_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        passing: &Passing<'_>,
        usual: Option<&CommonForm<'_>>,
    ) {
        // A report is large, so it is made where it is to be, and only looked at from there.
        let report = match usual.and_then(CommonForm::report) {
            Some(report) => Ok(report),
            None => Report::parse(passing.packet.payload),
        };
        match &report {
            Ok(report) => self.report_arrives(cx, datagram, passing, report),
            Err(error) => self.malformed_arrives(cx, datagram, passing, error),
        }
    }

    /// Some report arrives, and it says more than the one before.
    fn report_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        passing: &Passing<'_>,
        report: &Report<'_>,
    ) {
        mark(Checkpoint::Parse);
        let interfaces = cx.context.interfaces;
        let takes_part = interfaces.by_id(datagram.interface).is_some_and(Interface::takes_part);
        let Some((message, places)) = &report.message else {
            if takes_part {
                self.plain_report_arrives(cx, datagram, passing, report);
            }
            return;
        };
        if passing.checksum == udp::Checksum::Invalid {
            self.ignore(cx, datagram, DropReason::Checksum);
            return self.relay(cx, datagram, passing);
        }
        if interfaces.is_local(datagram.destination) {
            return self.message_for_us(cx, datagram, passing, report, message);
        }
        if datagram.destination.is_multicast() && !self.roles.is_empty() && report.sender.is_some()
        {
            self.announced(cx, passing, report, message);
        }
        if !takes_part {
            return self.relay(cx, datagram, passing);
        }
        if report.sender.is_none() {
            // What receivers say is for senders.
            self.counters.answers += 1;
            return self.relay(cx, datagram, passing);
        }
        if datagram.ttl <= 1 {
            return self.ignore(cx, datagram, DropReason::TtlExpired);
        }
        let worked_out;
        let stream = match &passing.hint.stream {
            Some(stream) => stream,
            None => match passing.stream(message.generic.multiplexed) {
                Ok(stream) => {
                    worked_out = stream;
                    &worked_out
                }
                Err(reason) => {
                    self.ignore(cx, datagram, reason);
                    return self.relay(cx, datagram, passing);
                }
            },
        };
        let mut sequence = None;
        if self.config.auth.is_required(cx.context, datagram.interface) {
            match self.authentic(stream, passing.packet.payload, message, places) {
                Ok(number) => {
                    mark(Checkpoint::Integrity);
                    sequence = Some(number);
                }
                Err(reason) => {
                    self.ignore(cx, datagram, reason);
                    return self.relay(cx, datagram, passing);
                }
            }
        }
        if let Err(reason) = self.act(cx, passing, stream, report, message, places, sequence) {
            self.ignore(cx, datagram, reason);
        }
    }

    /// What a message brings about, and on it goes.
    ///
    /// # Errors
    /// It cannot go on.
    #[allow(clippy::too_many_arguments)] // one message, taken apart
    #[inline(always)]
    pub(crate) fn act<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        stream: &Stream,
        report: &Report<'_>,
        message: &Message<'_>,
        places: &EditOffsets,
        sequence: Option<u64>,
    ) -> Result<(), DropReason> {
        let ways = NextHops::of(
            cx.context,
            passing.incoming,
            passing.datagram.source,
            passing.datagram.destination,
            Some(stream),
        )?;
        mark(Checkpoint::Route);
        let command = if report.goodbye { Command::Release } else { message.generic.command };
        match command {
            Command::Active => {
                self.counters.active += 1;
                self.wants(cx, passing, stream, report, message, places, sequence, ways);
            }
            Command::Passive => {
                self.counters.passive += 1;
                self.pass_on(cx, passing, Some((message, places)), ways);
            }
            _ => {
                self.counters.release += 1;
                let found = passing.hint.found.unwrap_or_else(|| self.store.look_up(stream));
                self.release(cx, found.ok(), report.ssrc, Change::Released);
                self.pass_on(cx, passing, None, ways);
            }
        }
        Ok(())
    }

    /// It goes on by all its ways as it came; with `said`, this node writes into it where it speaks YESSIR.
    fn pass_on<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        said: Option<(&Message<'_>, &EditOffsets)>,
        ways: NextHops<'_>,
    ) {
        for (interface, ours) in ways.iter(cx.context.interfaces) {
            let message = said.zip(ours).map(|((message, places), ours)| (message, places, ours));
            self.forward(cx, passing, message, (interface, ways.next_hop()), None);
        }
    }

    /// A message wants bandwidth.
    #[allow(clippy::too_many_arguments)] // likewise
    fn wants<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        stream: &Stream,
        report: &Report<'_>,
        message: &Message<'_>,
        places: &EditOffsets,
        sequence: Option<u64>,
        ways: NextHops<'_>,
    ) {
        let asked = self
            .config
            .requested_rate(message.flowspec.as_ref(), passing.datagram.source.is_ipv6());
        let session = asked.and_then(|asked| {
            let request = Request {
                stream: *stream,
                ssrc: report.ssrc,
                asked,
                shared: message.generic.style == Style::Shared,
                lifetime_ms: self.config.lifetime_ms(message.generic.interval),
                // The counts of a measured stream say something new each time.
                said: if matches!(asked, RequestedRate::Demand(_)) { passing.hint.said } else { 0 },
                found: passing.hint.found,
                sender: report.sender.unwrap_or_default(),
                sequence,
                plain: false,
            };
            self.note_request(cx, &request, ways)
        });
        for (interface, ours) in ways.iter(cx.context.interfaces) {
            let failure = ours.and_then(|_| match session {
                Ok(session) => self.reserve_on(cx, session, interface),
                Err(reason) => Some(Failure { reason, available: Rate::ZERO }),
            });
            let message = ours.map(|ours| (message, places, ours));
            self.forward(cx, passing, message, (interface, ways.next_hop()), failure);
        }
    }

    /// A report of somebody who knows nothing of YESSIR, where such are measured. It goes its own way.
    fn plain_report_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        passing: &Passing<'_>,
        report: &Report<'_>,
    ) {
        let (Some(sender), Some(measuring)) =
            (report.sender, self.measuring_on(cx, datagram.interface))
        else {
            return;
        };
        let interfaces = cx.context.interfaces;
        if passing.checksum == udp::Checksum::Invalid || interfaces.is_local(datagram.destination) {
            return;
        }
        let Ok(stream) = passing.stream(false) else { return };
        self.counters.measured += 1;
        if report.goodbye {
            let found = self.store.find(&stream);
            return self.release(cx, found, report.ssrc, Change::Released);
        }
        let (incoming, source) = (Some(datagram.interface), datagram.source);
        let Ok(ways) =
            NextHops::of(cx.context, incoming, source, datagram.destination, Some(&stream))
        else {
            return;
        };
        let request = Request {
            stream,
            ssrc: report.ssrc,
            asked: RequestedRate::Measured(measuring),
            shared: false,
            lifetime_ms: self.config.lifetime_ms(0),
            said: 0,
            found: None,
            sender,
            sequence: None,
            plain: true,
        };
        let Ok(session) = self.note_request(cx, &request, ways) else { return };
        for (interface, ours) in ways.iter(cx.context.interfaces) {
            if ours.is_some() {
                self.reserve_on(cx, session, interface);
            }
        }
    }

    /// How foreign streams are measured that come in through an interface, if they are.
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

    /// Who sent it, as far as its AUTH tells: its sequence number.
    fn authentic(
        &self,
        stream: &Stream,
        compound: &[u8],
        message: &Message<'_>,
        places: &EditOffsets,
    ) -> Result<u64, DropReason> {
        let known = self.store.find(stream).map(|session| self.store.session(session));
        let last = known.and_then(|known| known.extra.as_ref()).and_then(|extra| extra.sequence);
        let data = places.data(compound);
        self.config.auth.verify(stream, message.ssrc, data, message.auth.as_ref(), last)
    }

    /// Counts what cannot be read, and passes it on.
    #[cold]
    fn malformed_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        passing: &Passing<'_>,
        error: &ParseError,
    ) {
        *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
        self.ignore(cx, datagram, DropReason::Malformed);
        if has_message(passing.packet.payload) {
            self.relay(cx, datagram, passing);
        }
    }

    /// Sends a message on as it came, as a router does that does not speak YESSIR.
    fn relay<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        passing: &Passing<'_>,
    ) {
        if cx.context.interfaces.is_local(datagram.destination) {
            return;
        }
        if datagram.ttl <= 1 {
            return self.ignore(cx, datagram, DropReason::TtlExpired);
        }
        let ways = NextHops::of(
            cx.context,
            passing.incoming,
            passing.datagram.source,
            passing.datagram.destination,
            passing.stream(false).ok().as_ref(),
        );
        match ways {
            Ok(ways) => self.pass_on(cx, passing, None, ways),
            Err(reason) => self.ignore(cx, datagram, reason),
        }
    }
}
