//! What the stories of QoS NSLP and NATFW NSLP have in common: one application on one node, without GIST. Peers are
//! letters, and the story says what they send.

use std::collections::BTreeMap;

use earmark_core::{Effects, InterfaceId, Time};
use earmark_nsis::nslp::{
    Channel, NetworkNotification, Notification, Origin, PeerHandle, Received, Request, Requests,
    SendMessage, Validity,
};
use earmark_nsis::{Event, HandlerContext};
use earmark_testkit::conformance::tables::Tables;
use earmark_testkit::conformance::words::{Fault, Words};
use earmark_wire::gist::{Mri, SessionId};

/// Identifiers of 128 bits, by their names in stories, in the order of appearance.
#[derive(Debug, Default)]
pub(crate) struct Identifiers(BTreeMap<String, [u8; 16]>);

impl Identifiers {
    /// Returns the name of an identifier: its number in the story, or `kind` with a new number.
    pub(crate) fn name_of(&mut self, kind: char, id: [u8; 16]) -> String {
        if let ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [high, low]) = id.split_at(14) {
            return u16::from_be_bytes([*high, *low]).to_string();
        }
        if let Some((name, _)) = self.0.iter().find(|(_, known)| **known == id) {
            return name.clone();
        }
        let count = self.0.keys().filter(|name| name.starts_with(kind)).count();
        let name = format!("{kind}{}", count + 1);
        self.0.insert(name.clone(), id);
        name
    }

    /// Returns the identifier of a name.
    pub(crate) fn find(&self, text: &str) -> Result<[u8; 16], Fault> {
        if let Ok(number) = text.parse::<u16>() {
            return Ok(u128::from(number).to_be_bytes());
        }
        self.0.get(text).copied().ok_or_else(|| format!("no `{text}` was seen"))
    }

    /// Takes `session=...`.
    pub(crate) fn session(&self, words: &mut Words<'_>) -> Result<SessionId, Fault> {
        self.find(words.text("session").ok_or("session=... is missing")?).map(SessionId)
    }
}

/// Returns the peer of a letter.
pub(crate) fn peer(name: &str) -> Result<PeerHandle, Fault> {
    match name.as_bytes() {
        [letter @ b'a'..=b'z'] => Ok(PeerHandle { slot: u32::from(letter - b'a'), generation: 0 }),
        _ => Err(format!("`{name}`: a peer is a letter")),
    }
}

/// Returns ` to=` with the letter of the peer to which a message is explicitly routed.
pub(crate) fn explicit_peer(message: &SendMessage) -> String {
    let letter = |peer: PeerHandle| char::from(b'a' + peer.slot as u8);
    message.to.map(|to| format!(" to={}", letter(to))).unwrap_or_default()
}

/// A message that arrives, without its octets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) session: SessionId,
    pub(crate) mri: Mri,
    pub(crate) peer: PeerHandle,
    pub(crate) interface: InterfaceId,
    pub(crate) channel: Channel,
    pub(crate) explicitly_routed: bool,
    pub(crate) ip_distance: u8,
}

impl Arrival {
    /// Takes what all messages have, and returns the name of the message as well: `eth1 a NAME`, the routing, and
    /// `session=1`. The message is a datagram.
    pub(crate) fn read<'w>(
        words: &mut Words<'w>,
        tables: &Tables,
        identifiers: &Identifiers,
        routing: impl FnOnce(&mut Words<'w>) -> Result<Mri, Fault>,
    ) -> Result<(&'w str, Arrival), Fault> {
        let interface = tables.links.id(words.next("an interface")?)?;
        let peer = peer(words.next("a peer")?)?;
        let name = words.next("a message")?;
        let mri = routing(words)?;
        let session = identifiers.session(words)?;
        let ip_distance = words.maybe("distance")?.unwrap_or(1);
        let channel = Origin::datagram(None, interface).channel;
        let explicitly_routed = words.flag("by-name");
        let arrival =
            Arrival { session, mri, peer, interface, channel, explicitly_routed, ip_distance };
        Ok((name, arrival))
    }

    /// Returns the message with its octets.
    pub(crate) fn received<'a>(&self, data: &'a [u8]) -> Received<'a> {
        Received {
            data,
            session: self.session,
            mri: self.mri,
            upstream: None,
            origin: Origin { peer: Some(self.peer), channel: self.channel },
            explicitly_routed: self.explicitly_routed,
            ip_distance: Some(self.ip_distance),
            hops: 10,
            interface: self.interface,
        }
    }
}

/// What GIST says in a story.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FromGist {
    /// The last message of the node has no receiver.
    FindsNobody,
    /// The path has changed.
    Notification(NetworkNotification),
}

impl FromGist {
    /// Takes `finds-nobody`, `next c` with the routing and `session=1`, or `last` with them.
    pub(crate) fn read<'w>(
        words: &mut Words<'w>,
        identifiers: &Identifiers,
        routing: impl FnOnce(&mut Words<'w>) -> Result<Mri, Fault>,
    ) -> Result<FromGist, Fault> {
        let what = match words.next("what it says")? {
            "finds-nobody" => return Ok(FromGist::FindsNobody),
            "next" => {
                let peer = Some(peer(words.next("a peer")?)?);
                Notification::RoutingStatusChange { status: Validity::Good, peer }
            }
            "last" => Notification::LastNode,
            other => return Err(format!("GIST does not say `{other}`")),
        };
        let mri = routing(words)?;
        let session = identifiers.session(words)?;
        Ok(FromGist::Notification(NetworkNotification { mri, session, what }))
    }
}

/// A message that the node sends.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) nslpid: u16,
    pub(crate) message: SendMessage,
    pub(crate) data: Vec<u8>,
}

/// Calls an application on a node; returns its effects and its messages.
pub(crate) fn call<N>(
    application: &mut N,
    tables: &mut Tables,
    (now, nslpid): (Time, u16),
    act: impl FnOnce(&mut N, &mut HandlerContext<'_, '_>),
) -> (Effects<Event>, Vec<Sent>) {
    let mut effects = Effects::<Event>::new();
    let mut requests = Requests::default();
    let mut context = tables.context();
    act(
        application,
        &mut HandlerContext::new(now, &mut context, &mut effects, nslpid, &mut requests),
    );
    let mut messages = Vec::new();
    for (nslpid, request) in requests.iter() {
        if let Request::Send(message, range) = request {
            let data = requests.octets(range).to_vec();
            messages.push(Sent { nslpid: *nslpid, message: *message, data });
        }
    }
    (effects, messages)
}

/// Messages already shown in full, by their first line.
#[derive(Debug, Default)]
pub(crate) struct Shown(BTreeMap<String, Vec<String>>);

impl Shown {
    /// Returns the text of a message. Objects that repeat those of the last message with this first line are abbreviated.
    pub(crate) fn text(&mut self, head: String, objects: &[String]) -> String {
        let before = self.0.insert(head.clone(), objects.to_vec());
        if before.is_some_and(|before| before == objects && objects.len() > 2) {
            return format!("{head} as before");
        }
        objects.iter().fold(head, |text, line| format!("{text}\n     {line}"))
    }
}
