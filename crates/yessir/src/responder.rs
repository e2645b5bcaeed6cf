//! The receiver's side: reports the results of requests to their senders.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::net::IpAddr;

use earmark_core::outcome::{self, Outcome};
use earmark_core::{Outgoing, Time};
use earmark_wire::rtcp::{
    self, Application as App, CNAME_LEN, Chunks, Packet, ReceiverReport, buffer_len,
};
use earmark_wire::udp;
use earmark_wire::yessir::{Command, LinkInfo, Message, NAME, Report, VERSION};

use crate::api::{Answer, Application, Event, Rejection, Stream};
use crate::counters::DropReason;
use crate::forward::{own_address, passed_other_routers};
use crate::instance::{HandlerContext, PROTOCOL, Received, Yessir};
use crate::origin::Origin;
use crate::roles::{AnnouncedStream, Listener, Role};
use crate::state::{Index, Timer, TimerKind};

/// Maximum number of streams that one listener stores.
const MAX_STREAMS: usize = 4_096;
/// TTL of answers.
const TTL: u8 = 64;

impl Yessir {
    /// Answers streams announced to a port of this host from now on.
    pub(crate) fn listen(
        &mut self,
        application: Application,
        destination: IpAddr,
        port: u16,
        cname: String,
    ) -> Result<(), Rejection> {
        if !(1..=255).contains(&cname.len()) {
            return Err(Rejection::Name);
        }
        if port == 0 {
            return Err(Rejection::Ports);
        }
        if self.roles.listening.contains_key(&(port, destination)) {
            return Err(Rejection::Taken);
        }
        if self.roles.by_application.contains_key(&application) {
            return Err(Rejection::Busy);
        }
        if self.roles.by_application.len() >= self.config.limits.applications as usize {
            return Err(Rejection::Limit);
        }
        let ssrc = self.ssrcs.next_u64() as u32;
        let streams = BTreeMap::new();
        let listener =
            Listener { application, destination, port, cname, ssrc, timer: None, streams };
        let index = self.roles.listeners.insert(listener) as Index;
        self.roles.by_application.insert(application, Role::Listener(index));
        self.roles.listening.insert((port, destination), index);
        Ok(())
    }

    /// Ends the answers of a listener.
    pub(crate) fn stop_listening(&mut self, index: Index) {
        let listener = self.roles.listeners.remove(index as usize);
        self.roles.listening.remove(&(listener.port, listener.destination));
        if let Some(timer) = listener.timer {
            self.store.timers.cancel(timer);
        }
    }

    /// Handles an announcement.
    ///
    /// # Errors
    /// No application listens to the stream, or another origin has announced it.
    pub(crate) fn handle_announcement<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        received: &Received<'_>,
        report: &Report<'_>,
        message: &Message<'_>,
    ) -> Result<(), DropReason> {
        let stream = received.stream(message.generic.multiplexed);
        let stream = stream.map_err(|_| DropReason::NotForUs)?;
        let index = self.listener_of(&stream).ok_or(DropReason::NotForUs)?;
        let origin = Origin { ssrc: report.ssrc, arrival: received.datagram.interface };
        if let Some(known) = self.roles.listeners[index as usize].streams.get(&stream) {
            known.origin.admits(cx.context, origin, stream.source)?;
        }
        let path = message.link_info.map(|info| LinkInfo {
            other_hops: info.other_hops || passed_other_routers(Some(&info), received.datagram.ttl),
            ..info
        });
        let answer = Answer { path, failures: message.failures.iter().collect() };
        let flowspec = message.flowspec;
        let expires_at = cx.now + self.config.lifetime(message.generic.interval);
        let listener = &mut self.roles.listeners[index as usize];
        let application = listener.application;
        if report.goodbye || message.generic.command == Command::Release {
            if listener.streams.remove(&stream).is_some() {
                cx.out.notify(Event::AnnouncementGone { application, stream });
            }
            return Ok(());
        }
        let many = listener.streams.len() >= MAX_STREAMS;
        let mut unchanged = 0;
        let changed = match listener.streams.get_mut(&stream) {
            Some(known) => {
                let changed = known.answer != answer || known.flowspec != flowspec;
                (known.answer, known.flowspec) = (answer.clone(), flowspec);
                (known.origin, known.expires_at) = (origin, expires_at);
                known.unchanged = if changed { 0 } else { known.unchanged.saturating_add(1) };
                unchanged = known.unchanged;
                changed
            }
            None if many => false,
            None => {
                let answer = answer.clone();
                let announced = AnnouncedStream { origin, flowspec, answer, expires_at, unchanged };
                listener.streams.insert(stream, announced);
                if listener.timer.is_none() {
                    self.arm_announcements(index, expires_at);
                }
                true
            }
        };
        // A group would flood its sender with repeated answers, and without them the sender would never know what a lost one
        // said: an unchanged answer is repeated after 1, 2, 4, ... announcements.
        if changed || !received.datagram.destination.is_multicast() || unchanged.is_power_of_two() {
            self.answer(cx, received, message, index, path);
        }
        if changed {
            let source_message = outcome::Message::new("sender report");
            let reach = answer.reach(&stream, stream.source, source_message);
            let offer = message.generic.command == Command::Passive;
            let reach = Box::new(Outcome { offer, ..reach });
            cx.out.notify(Event::Announced { application, stream, flowspec, answer, reach });
        }
        Ok(())
    }

    /// Returns who has announced a stream to a listener of this host.
    pub(crate) fn announcer(&self, stream: &Stream) -> Option<Origin> {
        let listener = &self.roles.listeners[self.listener_of(stream)? as usize];
        listener.streams.get(stream).map(|known| known.origin)
    }

    /// Returns the listener of a stream.
    fn listener_of(&self, stream: &Stream) -> Option<Index> {
        let any = if stream.destination.is_ipv4() {
            IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED)
        } else {
            IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED)
        };
        let port = stream.destination_port;
        let exactly = self.roles.listening.get(&(port, stream.destination));
        let any = || self.roles.listening.get(&(port, any));
        let any = || any().filter(|_| !stream.destination.is_multicast());
        exactly.or_else(any).copied()
    }

    /// Sends RR, SDES and the collected path information to the source of the announcement.
    fn answer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        received: &Received<'_>,
        message: &Message<'_>,
        index: Index,
        path: Option<LinkInfo>,
    ) {
        let listener = &self.roles.listeners[index as usize];
        let ssrc = listener.ssrc;
        let source = if received.datagram.destination.is_multicast() {
            own_address(cx.context, received.datagram.source)
        } else {
            Some(received.datagram.destination)
        };
        let Some(source) = source else { return };
        let reply = Message {
            ssrc,
            flowspec: None,
            auth: None,
            token: None,
            others: &[],
            link_info: path,
            ..*message
        };
        let mut app = core::mem::take(&mut self.scratch);
        app.clear();
        app.resize(reply.buffer_len(), 0);
        let written = reply.emit(&mut app);
        let mut room = [0; CNAME_LEN];
        if let Ok(chunks) = Chunks::cname(ssrc, listener.cname.as_bytes(), &mut room)
            && let Ok(length) = written
        {
            let data = &app[rtcp::HEADER + 8..length];
            let packets = [
                Packet::ReceiverReport(ReceiverReport { ssrc, blocks: &[], extension: &[] }),
                Packet::SourceDescription(chunks),
                Packet::Application(App { subtype: VERSION, ssrc, name: NAME, data }),
            ];
            let how = Outgoing {
                // The sender's host intercepts packets with router alert, not all of UDP.
                router_alert: true,
                ..Outgoing::new(PROTOCOL, source, received.datagram.source, TTL)
            };
            let header = udp::Repr {
                source,
                destination: received.datagram.source,
                source_port: received.packet.destination_port,
                destination_port: received.packet.source_port,
            };
            let target = cx.out.send(how, udp::HEADER + buffer_len(&packets));
            let done =
                rtcp::emit(&packets, &mut target[udp::HEADER..]).and_then(|_| header.emit(target));
            if done.is_ok() {
                self.counters.sent += 1;
            } else {
                cx.out.discard_last(); // longer than a UDP packet
            }
        }
        self.scratch = app;
    }

    fn arm_announcements(&mut self, index: Index, at: Time) {
        let timer = Timer { kind: TimerKind::Announcement, block: index };
        self.roles.listeners[index as usize].timer = Some(self.store.timers.arm(at, timer));
    }

    /// Removes the expired streams of a listener.
    pub(crate) fn handle_announcement_timer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let now = cx.now;
        let listener = &mut self.roles.listeners[index as usize];
        listener.timer = None;
        let application = listener.application;
        listener.streams.retain(|&stream, known| {
            let stays = known.expires_at > now;
            if !stays {
                cx.out.notify(Event::AnnouncementGone { application, stream });
            }
            stays
        });
        let next = listener.streams.values().map(|known| known.expires_at).min();
        if let Some(next) = next {
            self.arm_announcements(index, next);
        }
    }
}
