//! DIAG_RESPONSE of a node (RFC 2745 section 3.6).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::{InterfaceId, Time};
use earmark_wire::EmitError;
use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::{DiagResponse, Diagnosis, List, Object, ObjectClass, Selected, Style};

use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::state::{Holder, Index};

/// Objects in a response if the DREQ does not select any (RFC 2745 section 3.6).
const USUAL: [ObjectClass; 4] =
    [ObjectClass::SenderTspec, ObjectClass::Style, ObjectClass::FlowSpec, ObjectClass::FilterSpec];

/// Maximum length of an object in a response, octets.
const LONGEST_OBJECT: usize = 16 * 1_024;

/// Octets of DIAG_RESPONSE without objects, and of a FILTER_SPEC.
const HEADER_V4: usize = 24;
const HEADER_V6: usize = 60;
const FILTER_V4: usize = 12;
const FILTER_V6: usize = 24;

/// Outgoing interface of data from this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutgoingLink {
    /// Not given by the DREQ, or none.
    Unknown,
    /// Applications of this host.
    Here,
    Through(InterfaceId),
}

impl Rsvp {
    /// Returns a response without its objects.
    pub(super) fn response<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        dreq: &Diagnosis<'_>,
        sender: Option<Index>,
        out: OutgoingLink,
        ip_hops: u8,
    ) -> DiagResponse<'static> {
        let like = dreq.session.destination;
        let address = |interface: InterfaceId| {
            let interface = cx.context.interfaces.by_id(interface);
            interface.and_then(|interface| interface.address_like(like)).unwrap_or(unknown(like))
        };
        let mut response = DiagResponse {
            arrival: self.ntp_time(cx.now),
            incoming: unknown(like),
            outgoing: unknown(like),
            previous_hop: unknown(like),
            ip_hops,
            merged: false,
            error: 0,
            refresh_multiple: 0,
            refresh_s: 0,
            objects: &[],
        };
        if let OutgoingLink::Through(interface) = out {
            response.outgoing = address(interface);
        }
        let Some(psb) = sender else {
            return DiagResponse { error: DiagResponse::NO_PATH_STATE, ..response };
        };
        let upstream = self.store.neighbor_of(self.store.psb(psb).hop);
        if let Some((interface, hop)) = upstream {
            response.incoming = address(interface);
            response.previous_hop = hop.address;
        }
        let interface = match out {
            OutgoingLink::Through(interface) => Some(interface),
            _ => upstream.map(|(interface, _)| interface),
        };
        let timing =
            interface.map_or(self.config.timing, |interface| self.config.timing(interface));
        response.refresh_s = u16::try_from(timing.refresh.as_secs()).unwrap_or(u16::MAX);
        response.refresh_multiple = timing.lifetime_factor.min(0x0f) as u8;
        response.merged = self
            .reservation(psb, out)
            .is_some_and(|(holder, tcsb)| self.is_merged(psb, holder, tcsb));
        response
    }

    /// Returns the requested objects that this node has. A long list of filters is cut to `room` octets, with the
    /// sender's own first.
    pub(super) fn response_objects(
        &self,
        dreq: &Diagnosis<'_>,
        sender: Option<Index>,
        out: OutgoingLink,
        room: usize,
    ) -> Vec<u8> {
        let mut row = ObjectList { wanted: dreq.select, octets: Vec::new() };
        let Some(index) = sender else { return row.octets };
        let psb = self.store.psb(index);
        if let Some((_, hop)) = self.store.neighbor_of(psb.hop) {
            row.push(Object::RsvpHop(hop));
        }
        row.push(Object::SenderTemplate(psb.template));
        row.push(Object::SenderTspec(psb.tspec));
        if let Some(adspec) = psb.adspec.as_deref().and_then(|body| Adspec::parse(body).ok()) {
            row.push(Object::Adspec(adspec));
        }
        let Some((holder, tcsb)) = self.reservation(index, out) else { return row.octets };
        let style = self.store.style(holder);
        row.push(Object::Style(style));
        row.push(Object::FlowSpec(self.store.tcsb(tcsb).flowspec));
        let mut scope: Vec<IpAddr> = self
            .store
            .rsbs_of(tcsb)
            .flat_map(|rsb| self.store.rsb(rsb).scope().unwrap_or_default())
            .copied()
            .collect();
        scope.sort_unstable();
        scope.dedup();
        if !scope.is_empty() {
            row.push(Object::Scope(List::Items(&scope)));
        }
        if style != Style::Wildcard {
            let others = match holder {
                Holder::Pool(pool) => self.store.filters_of(pool, tcsb),
                Holder::Sender(_) => &[],
            };
            let others = others.iter().copied().filter(|filter| *filter != psb.template);
            let (header, length) = if dreq.session.destination.is_ipv4() {
                (HEADER_V4, FILTER_V4)
            } else {
                (HEADER_V6, FILTER_V6)
            };
            row.push(Object::FilterSpec(psb.template));
            for filter in others {
                if header + row.octets.len() + length > room {
                    break;
                }
                row.push(Object::FilterSpec(filter));
            }
        }
        row.octets
    }

    /// Returns the reservation for a sender on one outgoing interface, and its holder.
    pub(super) fn reservation(&self, psb: Index, out: OutgoingLink) -> Option<(Holder, Index)> {
        let outgoing = match out {
            OutgoingLink::Unknown => return None,
            OutgoingLink::Here => None,
            OutgoingLink::Through(interface) => Some(interface),
        };
        let block = self.store.psb(psb);
        let pool = self.store.pool_of(block.session).map(Holder::Pool);
        [Some(Holder::Sender(psb)), pool].into_iter().flatten().find_map(|holder| {
            let tcsb = self.store.find_tcsb(holder, outgoing)?;
            self.includes_sender(holder, tcsb, &block.template).then_some((holder, tcsb))
        })
    }

    /// Returns whether the reservation on one outgoing interface is merged with others in the request upstream.
    fn is_merged(&self, psb: Index, holder: Holder, tcsb: Index) -> bool {
        let block = self.store.psb(psb);
        self.store.tcsbs_of(holder).any(|other| {
            other != tcsb
                && block.leaves_through(self.store.tcsb(other).outgoing)
                && self.includes_sender(holder, other, &block.template)
        })
    }

    /// Returns the middle 32 bits of the NTP time.
    fn ntp_time(&self, now: Time) -> u32 {
        let nanos = u128::from(now.as_nanos());
        let since = (nanos << 32) / 1_000_000_000;
        let ntp = u128::from(self.config.diagnostics.ntp_origin).wrapping_add(since);
        (ntp >> 16) as u32
    }
}

/// Requested objects of a response.
struct ObjectList<'q> {
    wanted: Option<List<'q, Selected>>,
    octets: Vec<u8>,
}

impl ObjectList<'_> {
    fn push(&mut self, object: Object<'_>) {
        let start = self.octets.len();
        let mut room = 64;
        loop {
            self.octets.resize(start + room, 0);
            match object.emit(&mut self.octets[start..]) {
                Ok(length) => break self.octets.truncate(start + length),
                Err(EmitError::BufferTooShort) if room < LONGEST_OBJECT => room *= 2,
                Err(_) => return self.octets.truncate(start),
            }
        }
        if !self.wants(self.octets[start + 2], self.octets[start + 3]) {
            self.octets.truncate(start);
        }
    }

    fn wants(&self, class_num: u8, c_type: u8) -> bool {
        match self.wanted {
            None => USUAL.iter().any(|class| class.code() == class_num),
            Some(wanted) => wanted.iter().any(|entry| {
                entry.class_num == class_num && (entry.c_type == 0 || entry.c_type == c_type)
            }),
        }
    }
}

/// Returns the unspecified address of the same family.
fn unknown(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
