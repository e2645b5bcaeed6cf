//! Recordings of inputs and effects, for bug reports and conformance cases.
//!
//! Inputs borrow their octets from a receive buffer, and effects keep theirs in one common buffer. The owned types
//! here contain their octets, written in hexadecimal, so that people can read a recording. Replaying the recorded
//! inputs at their times gives the recorded effects, byte for byte.

use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize, Serializer};

use crate::admission::ClaimId;
use crate::{
    CloseReason, Connect, ConnectionId, Datagram, Effect, Effects, FilterChange, Flow, HostEvent,
    Input, Installation, InterfaceId, Octets, Outgoing, StreamEvent, Time, Transport,
};

/// A value with its time: one line of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed<T> {
    /// Nanoseconds since the origin of the recording.
    pub at: Time,
    /// [`RecordedInput`], or [`RecordedEffect`].
    pub what: T,
}

/// An [`Input`] that owns its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordedInput<C> {
    /// [`Input::Datagram`].
    Datagram(RecordedDatagram),
    /// [`Input::Stream`].
    Stream(RecordedStreamEvent),
    /// [`Input::Expire`].
    Expire,
    /// [`Input::Host`].
    Host(HostEvent),
    /// [`Input::Command`].
    Command(C),
}

/// A [`Datagram`] that owns its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDatagram {
    /// Incoming interface.
    pub interface: InterfaceId,
    /// IP source address.
    pub source: IpAddr,
    /// IP destination address.
    pub destination: IpAddr,
    /// IP TTL or hop limit as received.
    pub ttl: u8,
    /// Whether the packet carried the router-alert option.
    pub router_alert: bool,
    /// Whether the packet was encapsulated in UDP.
    #[serde(default)]
    pub encapsulated: bool,
    /// The message.
    pub payload: Octets,
}

impl From<Datagram<'_>> for RecordedDatagram {
    fn from(datagram: Datagram<'_>) -> Self {
        let Datagram { interface, source, destination, ttl, router_alert, encapsulated, .. } =
            datagram;
        let payload = Octets(datagram.payload.to_vec());
        RecordedDatagram {
            interface,
            source,
            destination,
            ttl,
            router_alert,
            encapsulated,
            payload,
        }
    }
}

impl RecordedDatagram {
    /// Returns the original datagram.
    pub fn replay(&self) -> Datagram<'_> {
        let &RecordedDatagram {
            interface,
            source,
            destination,
            ttl,
            router_alert,
            encapsulated,
            ..
        } = self;
        let payload = &self.payload.0;
        Datagram { interface, source, destination, ttl, router_alert, encapsulated, payload }
    }
}

/// A [`StreamEvent`] that owns its octets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordedStreamEvent {
    /// [`StreamEvent::Open`].
    Open {
        /// The connection.
        connection: ConnectionId,
        /// Local end.
        local: SocketAddr,
        /// Remote end.
        peer: SocketAddr,
        /// Transport.
        transport: Transport,
    },
    /// [`StreamEvent::Data`].
    Data {
        /// The connection.
        connection: ConnectionId,
        /// The octets.
        octets: Octets,
    },
    /// [`StreamEvent::Closed`].
    Closed {
        /// The connection.
        connection: ConnectionId,
        /// The reason.
        reason: CloseReason,
    },
}

impl From<StreamEvent<'_>> for RecordedStreamEvent {
    fn from(event: StreamEvent<'_>) -> Self {
        match event {
            StreamEvent::Open { connection, local, peer, transport } => {
                RecordedStreamEvent::Open { connection, local, peer, transport }
            }
            StreamEvent::Data { connection, octets } => {
                RecordedStreamEvent::Data { connection, octets: Octets(octets.to_vec()) }
            }
            StreamEvent::Closed { connection, reason } => {
                RecordedStreamEvent::Closed { connection, reason }
            }
        }
    }
}

impl RecordedStreamEvent {
    /// Returns the original event.
    pub fn replay(&self) -> StreamEvent<'_> {
        match self {
            &RecordedStreamEvent::Open { connection, local, peer, transport } => {
                StreamEvent::Open { connection, local, peer, transport }
            }
            RecordedStreamEvent::Data { connection, octets } => {
                StreamEvent::Data { connection: *connection, octets: &octets.0 }
            }
            &RecordedStreamEvent::Closed { connection, reason } => {
                StreamEvent::Closed { connection, reason }
            }
        }
    }
}

impl<C> From<Input<'_, C>> for RecordedInput<C> {
    fn from(input: Input<'_, C>) -> Self {
        match input {
            Input::Datagram(datagram) => RecordedInput::Datagram(datagram.into()),
            Input::Stream(event) => RecordedInput::Stream(event.into()),
            Input::Expire => RecordedInput::Expire,
            Input::Host(event) => RecordedInput::Host(event),
            Input::Command(command) => RecordedInput::Command(command),
        }
    }
}

impl<C: Clone> RecordedInput<C> {
    /// Returns the original input, to be passed to an engine again.
    pub fn replay(&self) -> Input<'_, C> {
        match self {
            RecordedInput::Datagram(datagram) => Input::Datagram(datagram.replay()),
            RecordedInput::Stream(event) => Input::Stream(event.replay()),
            RecordedInput::Expire => Input::Expire,
            RecordedInput::Host(event) => Input::Host(*event),
            RecordedInput::Command(command) => Input::Command(command.clone()),
        }
    }
}

/// An [`Effect`] that owns its message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RecordedEffect<E> {
    /// [`Effect::Send`].
    Send {
        /// Parameters of the datagram.
        how: Outgoing,
        /// The message.
        payload: Octets,
    },
    /// [`Effect::Connect`].
    Connect(Connect),
    /// [`Effect::Write`].
    Write {
        /// The connection.
        connection: ConnectionId,
        /// The octets.
        octets: Octets,
    },
    /// [`Effect::Close`].
    Close(ConnectionId),
    /// [`Effect::Install`].
    Install(Installation),
    /// [`Effect::AddFlow`].
    AddFlow(ClaimId, Flow),
    /// [`Effect::RemoveFlow`].
    RemoveFlow(ClaimId, Flow),
    /// [`Effect::Remove`].
    Remove(ClaimId),
    /// [`Effect::Filter`].
    Filter(FilterChange),
    /// [`Effect::Notify`].
    Notify(E),
}

impl<E: Clone> Effects<E> {
    /// Returns all effects, oldest first, each with its octets.
    pub fn records(&self) -> impl Iterator<Item = RecordedEffect<E>> {
        self.iter().map(|effect| match effect {
            Effect::Send(how, range) => {
                RecordedEffect::Send { how: *how, payload: Octets(self.octets(range).to_vec()) }
            }
            Effect::Connect(connect) => RecordedEffect::Connect(*connect),
            Effect::Write(connection, range) => RecordedEffect::Write {
                connection: *connection,
                octets: Octets(self.octets(range).to_vec()),
            },
            Effect::Close(connection) => RecordedEffect::Close(*connection),
            Effect::Install(installation) => RecordedEffect::Install(*installation),
            Effect::AddFlow(claim, flow) => RecordedEffect::AddFlow(*claim, *flow),
            Effect::RemoveFlow(claim, flow) => RecordedEffect::RemoveFlow(*claim, *flow),
            Effect::Remove(claim, _) => RecordedEffect::Remove(*claim),
            Effect::Filter(change) => RecordedEffect::Filter(*change),
            Effect::Notify(event) => RecordedEffect::Notify(event.clone()),
        })
    }
}

impl<E: Clone + Serialize> Serialize for Effects<E> {
    /// Serializes the list of its [`records`](Effects::records).
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.records())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use core::net::Ipv4Addr;
    use std::string::ToString;
    use std::vec;
    use std::vec::Vec;

    use serde_json::{from_str, to_string};

    use super::*;

    const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 9, 9));

    /// The form of a recording must stay stable, and must give back the original input.
    #[test]
    fn recorded_input_is_readable_and_replays() {
        let datagram = Datagram {
            interface: InterfaceId(2),
            source: NEAR,
            destination: FAR,
            ttl: 63,
            router_alert: true,
            encapsulated: false,
            payload: &[0x10, 0x01, 0xab, 0xff],
        };
        let text = r#"{"Datagram":{"interface":2,"source":"10.0.0.1","destination":"10.0.9.9","#
            .to_string()
            + r#""ttl":63,"router_alert":true,"encapsulated":false,"payload":"1001abff"}}"#;
        let prefix = "10.0.0.0/8".parse().expect("a prefix");
        for (input, expected) in [
            (Input::Datagram(datagram), Some(text.as_str())),
            (Input::Expire, Some(r#""Expire""#)),
            (Input::Command(7), Some(r#"{"Command":7}"#)),
            (Input::Host(HostEvent::RouteChanged(prefix)), None),
        ] {
            let written = to_string(&input).expect("serialisable");
            assert_eq!(written, *expected.unwrap_or(&written));
            let recorded: RecordedInput<u32> = from_str(&written).expect("what was written");
            assert_eq!(recorded, RecordedInput::from(input));
            assert_eq!(recorded.replay(), input);
            assert_eq!(to_string(&recorded).expect("serialisable"), written);
        }
    }

    #[test]
    fn recorded_effects_keep_order_and_octets() {
        let how = Outgoing {
            interface: Some(InterfaceId(3)),
            router_alert: true,
            ..Outgoing::new(46, NEAR, FAR, 62)
        };
        let claim = ClaimId { slot: 1, generation: 2 };
        let mut effects = Effects::<u32>::new();
        effects.send(how, 2).copy_from_slice(&[0xca, 0xfe]);
        effects.remove(claim);
        effects.notify(5_u32);
        effects.send(how, 1).copy_from_slice(&[9]);

        let text = to_string(&effects).expect("serialisable");
        assert!(text.contains(r#""payload":"cafe""#), "{text}");
        let read: Vec<RecordedEffect<u32>> = from_str(&text).expect("what was written");
        assert_eq!(read, effects.records().collect::<Vec<_>>());
        let expected = vec![
            RecordedEffect::Send { how, payload: Octets(vec![0xca, 0xfe]) },
            RecordedEffect::Remove(claim),
            RecordedEffect::Notify(5),
            RecordedEffect::Send { how, payload: Octets(vec![9]) },
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn recorded_line_has_its_time() {
        let line = Timed { at: Time::from_millis(1), what: RecordedInput::<u32>::Expire };
        let text = to_string(&line).expect("serialisable");
        assert_eq!(text, r#"{"at":1000000,"what":"Expire"}"#);
        assert_eq!(from_str::<Timed<RecordedInput<u32>>>(&text).expect("what was written"), line);
    }
}
