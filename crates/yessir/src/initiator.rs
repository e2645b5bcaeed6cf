//! The sender's side: sends RTCP for an RTP sender that has none, so that its stream is reserved.

use alloc::boxed::Box;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::outcome::{self, Outcome};
use earmark_core::{Context, Datagram, InterfaceId, Time};
use earmark_token::Token;
use earmark_wire::rtcp::{
    self, Application as App, CNAME_LEN, Chunks, Goodbye, Packet, SenderInfo, SenderReport,
};
use earmark_wire::udp;
use earmark_wire::yessir::{
    Auth, Command, Generic, LinkInfo, Message, NAME, Report, Style, VERSION,
};

use crate::api::{Answer, Application, Attachment, Event, Rejection, Stream};
use crate::auth::{Authentication, Covered};
use crate::counters::DropReason;
use crate::forward::own_address;
use crate::instance::{HandlerContext, Hint, Received, Yessir};
use crate::next_hops::NextHops;
use crate::roles::{Role, Sender};
use crate::state::{Index, Timer, TimerKind};

/// Maximum number of receivers whose answers are stored; an answer of any other is reported each time.
const MAX_RECEIVERS: usize = 256;
/// Length of an APP packet before its data, octets.
const APP_HEADER: usize = rtcp::HEADER + 8;

impl Yessir {
    /// Announces a stream of this host from now on.
    pub(crate) fn attach<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        attachment: Attachment,
    ) -> Result<(), Rejection> {
        let stream = self.check(cx, &attachment)?;
        let port = (stream.source, report_port(stream.source_port, attachment.multiplexed));
        let known = match self.roles.by_application.get(&application) {
            Some(Role::Listener(_)) => return Err(Rejection::Busy),
            Some(Role::Sender(known)) => Some(*known),
            None => None,
        };
        if self.roles.by_port.get(&port).is_some_and(|other| Some(*other) != known) {
            return Err(Rejection::Taken);
        }
        if let Some(index) = known {
            let old = &self.roles.senders[index as usize];
            if old.stream == stream && old.attachment.multiplexed == attachment.multiplexed {
                let ssrc = attachment.ssrc.unwrap_or(old.ssrc);
                let sender = &mut self.roles.senders[index as usize];
                if sender.attachment.flowspec != attachment.flowspec {
                    // Answers are about the earlier request, and the same ones are news for this one.
                    sender.answers.clear();
                }
                (sender.attachment, sender.ssrc) = (attachment, ssrc);
                self.announce(cx, index, Announcement::Now);
                return Ok(());
            }
            self.roles.by_application.remove(&application);
            self.detach(cx, index);
        } else if self.roles.by_application.len() >= self.config.limits.applications as usize {
            return Err(Rejection::Limit);
        }
        let ssrc = attachment.ssrc.unwrap_or_else(|| self.ssrcs.next_u64() as u32);
        let index = self.roles.senders.insert(Sender {
            application,
            attachment,
            stream,
            ssrc,
            sent: SenderInfo::default(),
            timer: None,
            answers: alloc::collections::BTreeMap::new(),
        }) as Index;
        self.roles.by_application.insert(application, Role::Sender(index));
        self.roles.by_port.insert(port, index);
        self.announce(cx, index, Announcement::Now);
        Ok(())
    }

    /// Checks an announcement. Returns its stream with the source address filled in.
    fn check<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        attachment: &Attachment,
    ) -> Result<Stream, Rejection> {
        let mut stream = attachment.stream;
        if !(1..=255).contains(&attachment.cname.len()) {
            return Err(Rejection::Name);
        }
        for port in [stream.source_port, stream.destination_port] {
            if port == 0 || (!attachment.multiplexed && port % 2 == 1) {
                return Err(Rejection::Ports);
            }
        }
        if stream.source.is_unspecified() {
            stream.source =
                own_address(cx.context, stream.destination).ok_or(Rejection::NoRoute)?;
        }
        if !cx.context.interfaces.is_local(stream.source) {
            return Err(Rejection::NotOurAddress);
        }
        if stream.source.is_ipv4() != stream.destination.is_ipv4() {
            return Err(Rejection::NoRoute);
        }
        let asked = self.config.requested_rate(Some(&attachment.flowspec), stream.source.is_ipv6());
        if asked.is_err() || matches!(attachment.style, Style::Unknown(_)) {
            return Err(Rejection::Flowspec);
        }
        Ok(stream)
    }

    /// Stores how much an application has sent.
    pub(crate) fn statistics(
        &mut self,
        application: Application,
        sent: SenderInfo,
    ) -> Result<(), Rejection> {
        match self.roles.by_application.get(&application) {
            Some(Role::Sender(index)) => {
                self.roles.senders[*index as usize].sent = sent;
                Ok(())
            }
            _ => Err(Rejection::NoApplication),
        }
    }

    /// Ends a stream of this host with a BYE.
    pub(crate) fn detach<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        self.announce(cx, index, Announcement::Last);
        let sender = self.roles.senders.remove(index as usize);
        let port = report_port(sender.stream.source_port, sender.attachment.multiplexed);
        self.roles.by_port.remove(&(sender.stream.source, port));
    }

    /// Handles the timer of the next report.
    pub(crate) fn handle_report_timer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        self.roles.senders[index as usize].timer = None;
        self.announce(cx, index, Announcement::Now);
    }

    /// Announces streams again whose destination may have another route.
    pub(crate) fn announce_again<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        concerned: impl Fn(IpAddr) -> bool,
    ) {
        for index in 0..self.roles.senders.capacity() {
            let sender = self.roles.senders.get(index);
            if sender.is_some_and(|sender| concerned(sender.stream.destination)) {
                self.announce(cx, index as Index, Announcement::Now);
            }
        }
    }

    /// Sends a report, which this host first processes as routers do, and arms the timer for the next one.
    fn announce<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        announcement: Announcement,
    ) {
        let last = announcement == Announcement::Last;
        let timer = self.roles.senders[index as usize].timer.take();
        if let Some(timer) = timer {
            self.store.timers.cancel(timer);
        }
        if !last {
            let interval = self.interval_of(index);
            let wait = self.jitter.uniform(interval * 7 / 10, interval * 13 / 10);
            let timer = Timer { kind: TimerKind::Report, block: index };
            let timer = self.store.timers.arm(cx.now + wait, timer);
            self.roles.senders[index as usize].timer = Some(timer);
        }
        let mut octets = core::mem::take(&mut self.scratch);
        octets.clear();
        octets.resize(MAX_REPORT_LEN, 0);
        match self.compose(cx, index, last, &mut octets) {
            Ok(length) => {
                octets.truncate(length);
                self.process_own_report(cx, index, &octets);
            }
            Err(reason) => *self.counters.ignored.entry(reason).or_default() += 1,
        }
        self.scratch = octets;
    }

    /// Processes a report of this host like a received one.
    fn process_own_report<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        octets: &[u8],
    ) {
        let Sender { stream, ref attachment, .. } = self.roles.senders[index as usize];
        let Ok(packet) = udp::Packet::parse(octets) else { return };
        let Ok(report) = Report::parse(packet.payload) else { return };
        let Some((message, places)) = &report.message else { return };
        let datagram = Datagram {
            interface: InterfaceId(0), // no incoming interface
            source: stream.source,
            destination: stream.destination,
            ttl: attachment.ttl,
            router_alert: true,
            encapsulated: false,
            payload: octets,
        };
        let received = Received {
            incoming: None,
            datagram: &datagram,
            packet,
            checksum: udp::Checksum::Valid,
            hint: &Hint::default(),
        };
        let done = self.dispatch(cx, &received, &stream, &report, message, places, None);
        if let Err(reason) = done {
            *self.counters.ignored.entry(reason).or_default() += 1;
        }
    }

    fn interval_of(&self, index: Index) -> Duration {
        let interval = match self.roles.senders[index as usize].attachment.interval {
            0 => self.config.interval,
            interval => interval,
        };
        Duration::from_secs(u64::from(interval.clamp(1, self.config.max_interval.max(1))))
    }

    /// Writes a report as a UDP packet, signed if it leaves by an interface that requires this, and returns its length.
    ///
    /// # Errors
    /// The reason why the report cannot be sent.
    fn compose<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        last: bool,
        buffer: &mut [u8],
    ) -> Result<usize, DropReason> {
        let unwritten = DropReason::Malformed;
        let interval = self.interval_of(index).as_secs() as u16; // read from a u16
        let sender = &self.roles.senders[index as usize];
        let Sender { stream, ssrc, sent, .. } = *sender;
        let sent = SenderInfo { ntp: ntp(cx.now), ..sent };
        let signer = match secured_next_hop(&self.auth, cx.context, &stream)? {
            Some(name) => Some(self.auth.signer(cx.now, name).ok_or(DropReason::NotSigned)?),
            None => None,
        };
        let attachment = &sender.attachment;
        let command = match (last, attachment.passive) {
            (true, _) => Command::Release,
            (false, true) => Command::Passive,
            (false, false) => Command::Active,
        };
        let generic = Generic {
            command,
            style: attachment.style,
            interval,
            reservation: reservation_of(ssrc),
            multiplexed: attachment.multiplexed,
        };
        let auth = signer.as_ref().map(|signer| Auth {
            key: signer.key.id,
            sequence: signer.sequence,
            digest: [0; 16],
        });
        let mut message = Message {
            ssrc,
            generic,
            flowspec: Some(attachment.flowspec),
            link_info: Some(LinkInfo::unknown(attachment.ttl)),
            failures: Default::default(),
            auth,
            token: attachment.token.as_ref().map(Token::octets),
            others: &[],
        };
        let mut app = [0; MAX_APP_LEN];
        let length = message.emit(&mut app).map_err(|_| unwritten)?;
        if let (Some(auth), Some(signer)) = (&mut message.auth, &signer) {
            let data = &app[APP_HEADER..length];
            let covered = Covered { stream: &stream, ssrc, sender: sent, goodbye: last, data };
            auth.digest = signer.key.digest(&covered, signer.sequence);
            message.emit(&mut app).map_err(|_| unwritten)?;
        }
        if let Some(key) = signer.and_then(|signer| signer.expired) {
            cx.out.notify(Event::LastKeyExpired { key });
        }
        let mut room = [0; CNAME_LEN];
        let cname = sender.attachment.cname.as_bytes();
        let sources = [ssrc.to_be_bytes()];
        let packets = [
            Packet::SenderReport(SenderReport { ssrc, sender: sent, blocks: &[], extension: &[] }),
            Packet::SourceDescription(
                Chunks::cname(ssrc, cname, &mut room).map_err(|_| unwritten)?,
            ),
            Packet::Application(App {
                subtype: VERSION,
                ssrc,
                name: NAME,
                data: &app[APP_HEADER..length],
            }),
            Packet::Goodbye(Goodbye { sources: &sources, reason: None }),
        ];
        let packets = if last { &packets[..] } else { &packets[..3] };
        let room = buffer.get_mut(udp::HEADER..).ok_or(unwritten)?;
        let end = udp::HEADER + rtcp::emit(packets, room).map_err(|_| unwritten)?;
        let header = udp::Repr {
            source: stream.source,
            destination: stream.destination,
            source_port: report_port(stream.source_port, sender.attachment.multiplexed),
            destination_port: report_port(stream.destination_port, sender.attachment.multiplexed),
        };
        let packet = buffer.get_mut(..end).ok_or(unwritten)?;
        header.emit(packet).map_err(|_| unwritten)?;
        Ok(end)
    }

    /// Handles a receiver's answer to a stream of this host.
    ///
    /// # Errors
    /// The stream is unknown, or the answer is not of its receiver.
    pub(crate) fn handle_answer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        received: &Received<'_>,
        message: &Message<'_>,
    ) -> Result<(), DropReason> {
        let port = (received.datagram.destination, received.packet.destination_port);
        let index = self.roles.by_port.get(&port).ok_or(DropReason::NotForUs)?;
        let sender = &mut self.roles.senders[*index as usize];
        if message.generic.reservation != reservation_of(sender.ssrc) {
            return Err(DropReason::NotForUs);
        }
        let receiver = received.datagram.source;
        // A group has receivers anywhere; a host that answers must be behind the interface in any case.
        let destination = sender.stream.destination;
        if !destination.is_multicast() && receiver != destination {
            return Err(DropReason::ForeignReceiver);
        }
        let answer =
            Answer { path: message.link_info, failures: message.failures.iter().collect() };
        if sender.answers.get(&receiver) != Some(&answer) {
            if sender.answers.len() < MAX_RECEIVERS || sender.answers.contains_key(&receiver) {
                sender.answers.insert(receiver, answer.clone());
            }
            let application = sender.application;
            let reach =
                answer.reach(&sender.stream, receiver, outcome::Message::new("receiver report"));
            let reach = Box::new(Outcome { offer: sender.attachment.passive, ..reach });
            cx.out.notify(Event::Answered { application, receiver, answer, reach });
        }
        Ok(())
    }
}

/// Returns the name of the first interface by which reports of a stream of this host leave signed.
fn secured_next_hop<'c>(
    auth: &Authentication,
    context: &Context<'c>,
    stream: &Stream,
) -> Result<Option<&'c str>, DropReason> {
    if !auth.signs() {
        return Ok(None);
    }
    let next_hops = NextHops::of(context, None, stream.source, stream.destination, Some(stream))?;
    let mut links = next_hops.iter(context.interfaces);
    Ok(links.find_map(|(interface, _)| auth.signs_on(context, interface)))
}

/// Kind of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announcement {
    Now,
    Last,
}

/// Maximum length of the APP packet of a sender: GENERIC 12, the largest flowspec 36, LINK_INFO 16, AUTH 32, and TOKEN.
const MAX_APP_LEN: usize = APP_HEADER + 12 + 36 + 16 + 32 + 4 + earmark_token::MAX_LENGTH;
/// Maximum length of a report of a sender: UDP, SR 28, SDES, APP, BYE 8.
const MAX_REPORT_LEN: usize = udp::HEADER + 28 + 4 + CNAME_LEN + MAX_APP_LEN + 8;

/// Returns the port of reports about data with this port.
pub(crate) fn report_port(port: u16, multiplexed: bool) -> u16 {
    if multiplexed { port } else { port + 1 } // an even port is no more than 65 534
}

/// Returns the reservation number of a sender of this host: receivers return it in their answers.
fn reservation_of(ssrc: u32) -> u32 {
    ssrc.rotate_left(16)
}

/// Returns the time as an NTP timestamp. Its origin is the engine's: only differences count (RFC 3550 section 4).
fn ntp(now: Time) -> u64 {
    ((u128::from(now.as_nanos()) << 32) / 1_000_000_000) as u64 // wraps after 136 years, as NTP does
}
