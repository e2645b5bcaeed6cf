//! Sessions of a measurement: the flow of each number, and the messages that hosts write about it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::Outgoing;
use earmark_wire::intserv::{Adspec, FlowSpec, TokenBucket};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, List,
    Message, Path, PathTear, Resv, ResvConf, RsvpHop, SenderDescriptor, Session, SourceSelector,
};
use serde::{Deserialize, Serialize};

use super::refresh_reduction;

/// Number of sessions that share a destination address; they differ in the port.
const SESSIONS_PER_ADDRESS: u32 = 50_000;
/// First destination port.
const FIRST_PORT: u16 = 10_000;
/// Prefix of the destinations, 10.255.255.0/24, used from its first host address on.
pub(super) const DESTINATIONS: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 255, 255, 0), 24);
/// IP protocol number of UDP.
const PROTOCOL: u8 = 17;
/// TTL of a host's messages, in the IP header and in the common header alike (RFC 2205 section 3.8).
pub(super) const TTL: u8 = 63;
/// TTL of messages of RSVP to the neighbour, of which only a message of this link has so large a one (RFC 5082).
pub(super) const NEIGHBOR_TTL: u8 = 255;

/// Returns the TTL of a message of RSVP.
pub(super) fn ttl_of(body: &Body<'_>) -> u8 {
    match body {
        Body::Path(_) | Body::PathTear(_) | Body::ResvConf(_) => TTL,
        _ => NEIGHBOR_TTL,
    }
}

/// Returns the envelope of a host's message, without router alert.
pub(super) fn envelope(protocol: u8, source: IpAddr, destination: IpAddr) -> Outgoing {
    Outgoing::new(protocol, source, destination, TTL)
}

/// Traffic of every session: 8 kbit/s of controlled load.
const BUCKET: TokenBucket = TokenBucket {
    rate: 1_000.0,
    depth: 1_500.0,
    peak: f32::INFINITY,
    min_policed_unit: 100,
    max_packet_size: 1_500,
};

/// The sessions from `sender`, numbered from 0, each with a fixed-filter reservation of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// Number of sessions.
    pub count: u32,
    /// Address of the sending host.
    pub sender: Ipv4Addr,
    /// Refresh period R that hosts announce.
    pub refresh: Duration,
    /// Whether hosts support refresh reduction.
    pub reduction: bool,
}

impl Sessions {
    /// Returns the destination addresses of the sessions.
    pub fn destinations(&self) -> impl Iterator<Item = Ipv4Addr> {
        (0..self.count.div_ceil(SESSIONS_PER_ADDRESS)).map(destination)
    }

    /// Returns session and sender of a number.
    pub fn names(&self, number: u32) -> (Session, FilterSpec) {
        let port = FIRST_PORT + (number % SESSIONS_PER_ADDRESS) as u16;
        let destination = destination(number / SESSIONS_PER_ADDRESS).into();
        let session = Session { destination, protocol: PROTOCOL, flags: 0, port };
        let selector = SourceSelector::Port(port);
        (session, FilterSpec { source: self.sender.into(), selector })
    }

    /// Returns the number of a session; `None` if it is not one of these.
    pub fn number(&self, session: &Session) -> Option<u32> {
        let IpAddr::V4(address) = session.destination else { return None };
        let place = u32::from(address).checked_sub(u32::from(DESTINATIONS.0) + 1)?;
        let port = u32::from(session.port.checked_sub(FIRST_PORT)?);
        let number = place.checked_mul(SESSIONS_PER_ADDRESS)?.checked_add(port)?;
        let is_ours = port < SESSIONS_PER_ADDRESS && number < self.count;
        is_ours.then_some(number)
    }

    /// Writes the Path of a session into `octets`.
    pub fn path(&self, number: u32, octets: &mut Vec<u8>) {
        let (session, template) = self.names(number);
        let adspec = Adspec::for_sender();
        let mut body = [0; 128];
        let length = adspec.emit(&mut body).expect("a sender's ADSPEC has 80 octets");
        let sender = SenderDescriptor { template, tspec: BUCKET, adspec: Some(&body[..length]) };
        let hop = RsvpHop { address: self.sender.into(), lih: 1 };
        let carried = Carried::Objects(&[]);
        let refresh_ms = self.refresh_ms();
        let path = Path { session, hop, refresh_ms, carried, sender };
        write(self.message(Some(number), Body::Path(path)), octets);
    }

    /// Writes the PathTear of a session into `octets`.
    pub fn path_tear(&self, number: u32, octets: &mut Vec<u8>) {
        let (session, template) = self.names(number);
        let tear = PathTear {
            session,
            hop: RsvpHop { address: self.sender.into(), lih: 1 },
            carried: Carried::Objects(&[]),
            template,
            tspec: Some(BUCKET),
        };
        write(self.message(None, Body::PathTear(tear)), octets);
    }

    /// Writes the Resv of a session into `octets`; `here` requests it, with a confirmation if `confirm` is set.
    pub fn resv(&self, number: u32, here: IpAddr, lih: u32, confirm: bool, octets: &mut Vec<u8>) {
        let (session, filter) = self.names(number);
        let flow = FixedFilterFlow { flowspec: Some(FlowSpec::ControlledLoad(BUCKET)), filter };
        let resv = Resv {
            session,
            hop: RsvpHop { address: here, lih },
            refresh_ms: self.refresh_ms(),
            confirm: confirm.then_some(here),
            scope: None,
            carried: Carried::Objects(&[]),
            flows: FlowDescriptors::FixedFilter(List::Items(&[flow])),
        };
        write(self.message(Some(number), Body::Resv(resv)), octets);
    }

    /// Writes the ResvConf of a session into `octets`, for the receiver that asked.
    pub fn resv_conf(&self, number: u32, receiver: IpAddr, octets: &mut Vec<u8>) {
        let (session, filter) = self.names(number);
        let flow = FixedFilterFlow { flowspec: Some(FlowSpec::ControlledLoad(BUCKET)), filter };
        let node = self.sender.into();
        let confirmation = ResvConf {
            session,
            error: ErrorSpec { node, flags: 0, code: ErrorCode::Confirmation, value: 0 },
            confirm: receiver,
            carried: Carried::Objects(&[]),
            flows: FlowDescriptors::FixedFilter(List::Items(&[flow])),
        };
        write(self.message(None, Body::ResvConf(confirmation)), octets);
    }

    /// Returns a message, with a MESSAGE_ID of the session's number if summaries are to refresh it.
    fn message<'m>(&self, number: Option<u32>, body: Body<'m>) -> Message<'m> {
        if !self.reduction {
            return Message::new(ttl_of(&body), body);
        }
        Message {
            message_id: number.map(refresh_reduction::number),
            ..refresh_reduction::message(body)
        }
    }

    fn refresh_ms(&self) -> u32 {
        u32::try_from(self.refresh.as_millis()).unwrap_or(u32::MAX).max(1)
    }
}

fn destination(place: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(DESTINATIONS.0) + 1 + place)
}

pub(super) fn write(message: Message<'_>, octets: &mut Vec<u8>) {
    octets.resize(message.buffer_len(), 0);
    let length = message.emit(octets).expect("the values are valid and the buffer is long enough");
    octets.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSIONS: Sessions = Sessions {
        count: 120_000,
        sender: Ipv4Addr::new(10, 0, 0, 1),
        refresh: Duration::from_secs(30),
        reduction: false,
    };

    #[test]
    fn a_session_is_found_by_its_name() {
        for number in [0, 1, 49_999, 50_000, 119_999] {
            let (session, _) = SESSIONS.names(number);
            assert_eq!(SESSIONS.number(&session), Some(number));
        }
        let (beyond, _) = SESSIONS.names(120_000);
        assert_eq!(SESSIONS.number(&beyond), None);
        let before = Session { port: FIRST_PORT - 1, ..beyond };
        assert_eq!(SESSIONS.number(&before), None);
        let last: Vec<_> = SESSIONS.destinations().collect();
        assert_eq!(last.last().map(ToString::to_string), Some("10.255.255.3".into()));
    }

    #[test]
    fn messages_have_the_fields_of_their_session() {
        let mut octets = Vec::new();
        let (session, filter) = SESSIONS.names(70_000);
        SESSIONS.path(70_000, &mut octets);
        let Ok(Message { body: Body::Path(path), .. }) = Message::parse(&octets) else {
            panic!("no Path");
        };
        assert_eq!(
            (path.session, path.sender.template, path.refresh_ms),
            (session, filter, 30_000)
        );
        let here = IpAddr::from([10, 0, 2, 2]);
        SESSIONS.resv(70_000, here, 9, true, &mut octets);
        let Ok(Message { body: Body::Resv(resv), .. }) = Message::parse(&octets) else {
            panic!("no Resv");
        };
        assert_eq!((resv.session, resv.hop.lih, resv.confirm), (session, 9, Some(here)));
        SESSIONS.path_tear(70_000, &mut octets);
        let Ok(Message { body: Body::PathTear(tear), .. }) = Message::parse(&octets) else {
            panic!("no PathTear");
        };
        assert_eq!((tear.session, tear.template), (session, filter));
        SESSIONS.resv_conf(70_000, here, &mut octets);
        let Ok(Message { body: Body::ResvConf(confirmation), .. }) = Message::parse(&octets) else {
            panic!("no ResvConf");
        };
        assert_eq!((confirmation.session, confirmation.confirm), (session, here));
    }
}
