//! Extent of a reservation on the path, as known to its sender and receiver.
//!
//! Routers without RSVP are detected only downstream: by the TTL of a Path (RFC 2205 section 3.8) and by the break bit
//! of its ADSPEC (RFC 2210 section 3.3.2), so the receiver knows of all of them. A sender knows its next hop. If that
//! is not on a link of this node, routers without RSVP are in between; only a trace shows what is behind it.

use core::net::IpAddr;

use earmark_core::Datagram;
use earmark_core::outcome::{Kind, Message, Outcome, Translation};
use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::{FilterSpec, Path, Session};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::filters::Filters;
use crate::instance::Rsvp;
use crate::state::{Holder, Index, Peer, Psb};

impl Rsvp {
    /// Returns what a sender of this node knows of its reservation.
    pub(crate) fn reach_of_sender<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        holder: Holder,
        filter: &FilterSpec,
    ) -> Outcome {
        let destination = self.store.session_key(holder).destination;
        let mut peers = self
            .store
            .tcsbs_of(holder)
            .flat_map(|tcsb| self.store.rsbs_of(tcsb))
            .map(|rsb| self.store.rsb(rsb).hop);
        let from = Some(filter.source);
        let known_locally = || Outcome { from, ..Outcome::known_locally(Kind::Whole) };
        let next = peers.find_map(|peer| self.store.neighbor_of(peer));
        // Without a neighbour the receiver is an application of this node.
        let Some((_, hop)) = next else { return known_locally() };
        let node = hop.address;
        let outcome = Outcome {
            from,
            ..Outcome::reported(Kind::Unverified, Some(node), Message::new("Resv"))
        };
        if !cx.context.is_adjacent(node) {
            // The receiver itself has no link to reserve.
            let kind = if node == destination { Kind::OnlyHere } else { Kind::Part };
            return Outcome { kind, ..outcome };
        }
        if node == destination {
            return Outcome { kind: Kind::Whole, to: Some(node), hops_without: Some(0), ..outcome };
        }
        outcome
    }

    /// Returns what a receiver of this node knows of a confirmed reservation.
    pub(crate) fn reach_of_receiver<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        session: &Session,
        filters: &Filters,
        node: IpAddr,
    ) -> Outcome {
        let named = filters.as_slice().iter().filter_map(|f| self.store.find_sender(session, f));
        let all = self.store.find_session(session);
        let all = all.into_iter().flat_map(|index| self.store.senders_of(index));
        let first = named.chain(all).next();
        let outcome = Outcome::reported(Kind::Unverified, Some(node), Message::new("ResvConf"));
        let Some(first) = first else { return outcome };
        let psb = self.store.psb(first);
        let sender = psb.template.source;
        let (to, nodes) = (Some(session.destination), self.hops_to(psb));
        let outcome = Outcome { from: Some(sender), to, nodes, ..outcome };
        if matches!(psb.hop, Peer::Local(_)) {
            return Outcome {
                by: Outcome::known_locally(Kind::Whole).by,
                kind: Kind::Whole,
                ..outcome
            };
        }
        let senders = filters.as_slice().iter().filter_map(|f| self.store.find_sender(session, f));
        let broken = core::iter::once(first).chain(senders).any(|psb| self.is_broken(psb));
        let kind = match broken {
            true => Kind::Part,
            // A ResvConf of another node shows that the reservation is merged there with one as large.
            false if node == sender && nodes.is_some() => Kind::Whole,
            false => Kind::Unverified,
        };
        let hops_without = (kind == Kind::Whole).then_some(0);
        let by = match cx.context.interfaces.is_local(node) {
            true => Outcome::known_locally(kind).by,
            false => outcome.by.clone(),
        };
        Outcome { kind, hops_without, by, ..outcome }
    }

    /// Reports if the IP source address of a sender's first Path is not that of the sender. Routers that use their own
    /// address are also the previous hop in the message; a UDP packet has the address of the encapsulating node.
    pub(crate) fn note_translation<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        path: &Path<'_>,
    ) {
        let (session, template) = (path.session, path.sender.template);
        let (named, seen) = (template.source, datagram.source);
        if seen == named || seen == path.hop.address || datagram.encapsulated {
            return;
        }
        self.counters.translated += 1;
        let translation = Translation { named, seen: Some(seen) };
        let mut reported = false;
        for application in self.applications.of_session(&session) {
            reported = true;
            let application = Some(application);
            cx.out.notify(Event::Translated { application, session, template, translation });
        }
        if !reported {
            let application = None;
            cx.out.notify(Event::Translated { application, session, template, translation });
        }
    }

    /// Returns the number of RSVP nodes from a sender, itself included, to this node; `None` if its Path does not count
    /// them.
    fn hops_to(&self, psb: &Psb) -> Option<u16> {
        let adspec = Adspec::parse(psb.adspec.as_deref()?).ok()?;
        Some(u16::try_from(adspec.general.hops).unwrap_or(u16::MAX))
    }

    /// Returns whether some hop between a sender and this node does not support RSVP.
    fn is_broken(&self, index: Index) -> bool {
        let psb = self.store.psb(index);
        let adspec = psb.adspec.as_deref().and_then(|body| Adspec::parse(body).ok());
        psb.flags & Psb::NON_RSVP != 0 || adspec.is_some_and(|adspec| adspec.general.break_bit)
    }
}
