//! The receiver's side: tells senders what became of their requests on the way.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::net::IpAddr;

use earmark_core::outcome::{self, Outcome};
use earmark_core::{Datagram, Outgoing, Time};
use earmark_wire::rtcp::{
    self, Application as App, CNAME_LEN, Chunks, Packet, ReceiverReport, buffer_len,
};
use earmark_wire::udp;
use earmark_wire::yessir::{Command, LinkInfo, Message, NAME, Report, VERSION};

use crate::api::{Answer, Application, Event, Rejection, Stream};
use crate::counters::DropReason;
use crate::forward::{own_address, skipped};
use crate::instance::{HandlerContext, PROTOCOL, Passing, Yessir};
use crate::roles::{Heard, Listener, Role};
use crate::state::{Index, Timer, TimerKind};

/// Streams that one listener keeps apart.
const MOST_STREAMS: usize = 4_096;
/// TTL of answers.
const TTL: u8 = 64;

impl Yessir {
    /// Answers what is announced to a port of this host, from now on.
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
        let heard = BTreeMap::new();
        let listener = Listener { application, destination, port, cname, ssrc, timer: None, heard };
        let index = self.roles.listeners.insert(listener) as Index;
        self.roles.by_application.insert(application, Role::Listener(index));
        self.roles.listening.insert((port, destination), index);
        Ok(())
    }

    /// Answers no more.
    pub(crate) fn stop_listening(&mut self, index: Index) {
        let listener = self.roles.listeners.remove(index as usize);
        self.roles.listening.remove(&(listener.port, listener.destination));
        if let Some(timer) = listener.timer {
            self.store.timers.cancel(timer);
        }
    }

    /// A message for an address of this host: an answer to a sender, or an announcement to a receiver.
    pub(crate) fn message_for_us<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        passing: &Passing<'_>,
        report: &Report<'_>,
        message: &Message<'_>,
    ) {
        let known = if report.sender.is_some() {
            self.announced(cx, passing, report, message)
        } else {
            self.counters.answers += 1;
            self.answered(cx, passing, message)
        };
        if !known {
            self.ignore(cx, datagram, DropReason::NotForUs);
        }
    }

    /// A stream is announced: whether somebody listens to it.
    pub(crate) fn announced<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        report: &Report<'_>,
        message: &Message<'_>,
    ) -> bool {
        let Ok(stream) = passing.stream(message.generic.multiplexed) else { return false };
        let Some(index) = self.listener_of(&stream) else { return false };
        let path = message.link_info.map(|info| LinkInfo {
            other_hops: info.other_hops || skipped(Some(&info), passing.datagram.ttl),
            ..info
        });
        let answer = Answer { path, failures: message.failures.iter().collect() };
        let flowspec = message.flowspec;
        let expires_at = cx.now + self.config.lifetime(message.generic.interval);
        let listener = &mut self.roles.listeners[index as usize];
        let application = listener.application;
        if report.goodbye || message.generic.command == Command::Release {
            if listener.heard.remove(&stream).is_some() {
                cx.out.notify(Event::AnnouncementGone { application, stream });
            }
            return true;
        }
        let many = listener.heard.len() >= MOST_STREAMS;
        let news = match listener.heard.get_mut(&stream) {
            Some(heard) => {
                let news = heard.answer != answer || heard.flowspec != flowspec;
                (heard.answer, heard.flowspec) = (answer.clone(), flowspec);
                heard.expires_at = expires_at;
                news
            }
            None if many => false,
            None => {
                let answer = answer.clone();
                listener.heard.insert(stream, Heard { flowspec, answer, expires_at });
                if listener.timer.is_none() {
                    self.arm_announcements(index, expires_at);
                }
                true
            }
        };
        // A group would drown its sender in answers that say the same each time.
        if news || !passing.datagram.destination.is_multicast() {
            self.answer(cx, passing, message, index, path);
        }
        if news {
            let said = outcome::Message::SenderReport;
            let reach = answer.reach(&stream, stream.source, said);
            let offer = message.generic.command == Command::Passive;
            let reach = Box::new(Outcome { offer, ..reach });
            cx.out.notify(Event::Announced { application, stream, flowspec, answer, reach });
        }
        true
    }

    /// Who listens to a stream.
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

    /// Sends RR, SDES and what the announcement has gathered on its way back to where it came from.
    fn answer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        message: &Message<'_>,
        index: Index,
        path: Option<LinkInfo>,
    ) {
        let listener = &self.roles.listeners[index as usize];
        let ssrc = listener.ssrc;
        let source = if passing.datagram.destination.is_multicast() {
            own_address(cx.context, passing.datagram.source)
        } else {
            Some(passing.datagram.destination)
        };
        let Some(source) = source else { return };
        let said =
            Message { ssrc, flowspec: None, auth: None, others: &[], link_info: path, ..*message };
        let mut app = core::mem::take(&mut self.scratch);
        app.clear();
        app.resize(said.buffer_len(), 0);
        let written = said.emit(&mut app);
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
                protocol: PROTOCOL,
                interface: None,
                source,
                destination: passing.datagram.source,
                ttl: TTL,
                // The host of the sender looks into what has it, not into all of UDP.
                router_alert: true,
                encapsulated: false,
                neighbor: None,
                next_hop: None,
            };
            let header = udp::Repr {
                source,
                destination: passing.datagram.source,
                source_port: passing.packet.destination_port,
                destination_port: passing.packet.source_port,
            };
            let target = cx.out.send(how, udp::HEADER + buffer_len(&packets));
            let done =
                rtcp::emit(&packets, &mut target[udp::HEADER..]).and_then(|_| header.emit(target));
            if done.is_ok() {
                self.counters.sent += 1;
            } else {
                cx.out.take_back(); // longer than a UDP packet
            }
        }
        self.scratch = app;
    }

    fn arm_announcements(&mut self, index: Index, at: Time) {
        let timer = Timer { kind: TimerKind::Announcement, block: index };
        self.roles.listeners[index as usize].timer = Some(self.store.timers.arm(at, timer));
    }

    /// Some of the streams that a listener has heard of may have ended.
    pub(crate) fn announcements_are_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let now = cx.now;
        let listener = &mut self.roles.listeners[index as usize];
        listener.timer = None;
        let application = listener.application;
        listener.heard.retain(|&stream, heard| {
            let stays = heard.expires_at > now;
            if !stays {
                cx.out.notify(Event::AnnouncementGone { application, stream });
            }
            stays
        });
        let next = listener.heard.values().map(|heard| heard.expires_at).min();
        if let Some(next) = next {
            self.arm_announcements(index, next);
        }
    }
}
