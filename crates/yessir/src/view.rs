//! What the engine shows of its state, for listings. Streams are shown in the order of their slab, a page at a time, so
//! that even a million of them can be listed without holding the engine up for long.

use alloc::vec::Vec;

use earmark_core::admission::{ClaimId, Demand, Owner};
use earmark_core::{InterfaceId, Time};
use earmark_wire::yessir::Style;

use crate::api::{Answer, Application, Stream};
use crate::instance::Yessir;
use crate::roles::Role;
use crate::state::{Holder, Index, Leg, NONE};

/// One stream that asks for bandwidth.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// Which.
    pub stream: Stream,
    /// SSRC of its sender.
    pub ssrc: u32,
    /// Alone, or together with the other senders of its session.
    pub style: Style,
    /// What it asks for; a rate of zero where that is not known yet.
    pub asked: Demand,
    /// Whether its rate is taken from its reports.
    pub measured: bool,
    /// When it ends without another report.
    pub expires_at: Time,
    /// The links that it leaves by.
    pub legs: Vec<LegView>,
}

/// One link that a stream leaves by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LegView {
    /// Which link.
    pub interface: InterfaceId,
    /// What it holds there, alone or with others that share.
    pub claim: Option<ClaimId>,
    /// Whether that is all it asks for.
    pub full: bool,
    /// Whether it waits for others to give back.
    pub waiting: bool,
    /// How often it was put into the line of those that wait: the counter c of the study.
    pub waits: u32,
}

/// One application of this host.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplicationView {
    /// It sends, and this is announced.
    Sender {
        /// Who.
        application: Application,
        /// What.
        stream: Stream,
        /// What receivers have answered last.
        answers: Vec<(core::net::IpAddr, Answer)>,
    },
    /// It listens.
    Listener {
        /// Who.
        application: Application,
        /// To what has this port; the source of the stream is of no account.
        port: u16,
        /// What it has heard of.
        streams: Vec<(Stream, Answer)>,
    },
}

impl Yessir {
    /// How many streams are known.
    pub fn session_count(&self) -> usize {
        self.store.sessions.len()
    }

    /// The streams from the `from`th place of the slab on, each with its place. Take some, and go on behind the last.
    pub fn sessions(&self, from: u32) -> impl Iterator<Item = (u32, SessionView)> {
        let places = from as usize..self.store.sessions.capacity();
        places
            .filter(|&place| self.store.sessions.contains(place))
            .map(|place| (place as u32, self.session_view(place as Index)))
    }

    /// What is known of a stream.
    pub fn session(&self, stream: &Stream) -> Option<SessionView> {
        self.store.find(stream).map(|index| self.session_view(index))
    }

    /// The stream that a claim is behind, and its place among the links of the stream; of streams that share, the first.
    pub fn reservation_of(&self, claim: ClaimId, owner: Owner) -> Option<(SessionView, usize)> {
        let place = |index: Index| {
            let session = self.session_view(index);
            let leg = session.legs.iter().position(|leg| leg.claim == Some(claim))?;
            Some((session, leg))
        };
        match self.store.leg(self.leg_behind(claim, owner)?).holder {
            Holder::Session(index) => place(index),
            Holder::Pool(pool) => self.store.pool(pool).members.iter().copied().find_map(place),
        }
    }

    /// All applications of this host, in order.
    pub fn applications(&self) -> impl Iterator<Item = ApplicationView> {
        self.roles.by_application.iter().map(|(&application, role)| match *role {
            Role::Sender(index) => {
                let sender = &self.roles.senders[index as usize];
                let answers = sender.answers.iter().map(|(&who, answer)| (who, answer.clone()));
                let stream = sender.stream;
                ApplicationView::Sender { application, stream, answers: answers.collect() }
            }
            Role::Listener(index) => {
                let listener = &self.roles.listeners[index as usize];
                let heard = listener.heard.iter();
                let streams = heard.map(|(&stream, heard)| (stream, heard.answer.clone()));
                let port = listener.port;
                ApplicationView::Listener { application, port, streams: streams.collect() }
            }
        })
    }

    fn session_view(&self, index: Index) -> SessionView {
        let session = self.store.session(index);
        let shared = session.pool != NONE;
        let legs = self.store.legs_of(Holder::Session(index)).map(|leg| {
            let own = self.store.leg(leg);
            let pooled =
                shared.then(|| self.store.leg_on(Holder::Pool(session.pool), own.interface));
            let Leg { interface, claim, full, waiting, waits, .. } =
                *pooled.flatten().map_or(own, |leg| self.store.leg(leg));
            LegView { interface, claim, full, waiting, waits }
        });
        SessionView {
            stream: session.stream,
            ssrc: session.ssrc,
            style: if shared { Style::Shared } else { Style::Individual },
            asked: session.asked,
            measured: session.extra.as_ref().is_some_and(|extra| extra.measurement.is_some()),
            expires_at: session.expires_at,
            legs: legs.collect(),
        }
    }
}
