//! How far a reservation reaches, as its sender and its receiver can know.
//!
//! Routers without RSVP show downstream only: by the TTL of a Path (RFC 2205 section 3.8) and by the break bit of its
//! ADSPEC (RFC 2210 section 3.3.2), so the receiver knows of all of them. A sender knows its next hop. Where that is not on
//! a link of this node, routers without RSVP are between; what lies behind it, only a trace tells.

use core::net::IpAddr;

use earmark_core::Datagram;
use earmark_core::outcome::{Kind, Message, Outcome, Translation};
use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::{FilterSpec, Path, Session};

use crate::api::{Event, Filters};
use crate::instance::{HandlerContext, Rsvp};
use crate::state::{Holder, Index, Peer, Psb};

impl Rsvp {
    /// What a sender of this node knows of the reservation that has come up the path.
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
        let known_here = || Outcome { from, ..Outcome::known_locally(Kind::Whole) };
        let next = peers.find_map(|peer| self.store.neighbor_of(peer));
        // Without a neighbour the receiver is an application of this node.
        let Some((_, hop)) = next else { return known_here() };
        let node = hop.address;
        let said =
            Outcome { from, ..Outcome::reported(Kind::Unverified, Some(node), Message::Resv) };
        if !cx.context.is_adjacent(node) {
            // The receiver itself has no link to reserve.
            let kind = if node == destination { Kind::OnlyHere } else { Kind::Part };
            return Outcome { kind, ..said };
        }
        if node == destination {
            return Outcome { kind: Kind::Whole, to: Some(node), hops_without: Some(0), ..said };
        }
        said
    }

    /// What a receiver of this node knows of a reservation that a node has confirmed.
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
        let said = Outcome::reported(Kind::Unverified, Some(node), Message::ResvConf);
        let Some(first) = first else { return said };
        let psb = self.store.psb(first);
        let sender = psb.template.source;
        let (to, nodes) = (Some(session.destination), self.hops_to(psb));
        let said = Outcome { from: Some(sender), to, nodes, ..said };
        if matches!(psb.hop, Peer::Local(_)) {
            return Outcome {
                by: Outcome::known_locally(Kind::Whole).by,
                kind: Kind::Whole,
                ..said
            };
        }
        let senders = filters.as_slice().iter().filter_map(|f| self.store.find_sender(session, f));
        let broken = core::iter::once(first).chain(senders).any(|psb| self.is_broken(psb));
        let kind = match broken {
            true => Kind::Part,
            // A confirmation of another node says that the reservation is merged there with one that is as large.
            false if node == sender && nodes.is_some() => Kind::Whole,
            false => Kind::Unverified,
        };
        let hops_without = (kind == Kind::Whole).then_some(0);
        let by = match cx.context.interfaces.is_local(node) {
            true => Outcome::known_locally(kind).by,
            false => said.by.clone(),
        };
        Outcome { kind, hops_without, by, ..said }
    }

    /// Tells if the first Path of a sender comes from an address that it does not name. Routers that write their own
    /// address there name it as the previous hop; a UDP packet has that of whoever encapsulated it.
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
        let mut told = false;
        for application in self.applications.of_session(&session) {
            told = true;
            let application = Some(application);
            cx.out.notify(Event::Translated { application, session, template, translation });
        }
        if !told {
            let application = None;
            cx.out.notify(Event::Translated { application, session, template, translation });
        }
    }

    /// Nodes with RSVP between a sender, itself included, and this node; `None` where its Path does not count them.
    fn hops_to(&self, psb: &Psb) -> Option<u16> {
        let adspec = Adspec::parse(psb.adspec.as_deref()?).ok()?;
        Some(u16::try_from(adspec.general.hops).unwrap_or(u16::MAX))
    }

    /// Whether some hop between a sender and this node does not speak RSVP.
    fn is_broken(&self, index: Index) -> bool {
        let psb = self.store.psb(index);
        let adspec = psb.adspec.as_deref().and_then(|body| Adspec::parse(body).ok());
        psb.flags & Psb::NON_RSVP != 0 || adspec.is_some_and(|adspec| adspec.general.break_bit)
    }
}
