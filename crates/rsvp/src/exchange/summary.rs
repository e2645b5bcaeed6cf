//! Summary refreshes: one short message says that all that was told still holds (RFC 2961 section 5).

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Datagram, InterfaceId, Time};
use earmark_wire::rsvp::{AcknowledgementKind, Body, List, RefreshList, RefreshNames, Srefresh};

use super::names::{MessageIdKey, Named};
use super::send::Letter;
use crate::instance::{Rsvp, Turn};
use crate::refresh::to_neighbor;
use crate::state::{Block, Index, Timer, TimerKind};

/// IP header with options, RSVP headers, a signature and some acknowledgements, octets; the rest of a packet is names.
const OVERHEAD: u32 = 256;

impl Rsvp {
    /// A partner has acknowledged something: it will be reminded of it, in the rounds that it is reminded in anyhow.
    pub(super) fn arm_summary(&mut self, now: Time, index: Index) {
        let Some(partner) = self.exchange.partners.get_mut(index) else { return };
        if partner.summary.is_some() {
            return;
        }
        let refresh = self.config.timing(partner.interface).refresh_ms();
        partner.roster.begin_round(now, Duration::from_millis(refresh.into()));
        let timer = Timer { kind: TimerKind::Summary, block: index };
        partner.summary = Some(self.store.timers.arm(partner.roster.due(now, usize::MAX), timer));
    }

    /// The next summary refresh to a partner is due.
    pub(crate) fn summary_is_due<E>(&mut self, turn: &mut Turn<'_, '_, E>, index: Index) {
        let now = turn.now;
        let Some(partner) = self.exchange.partners.get_mut(index) else { return };
        partner.summary = None;
        if partner.roster.is_empty() {
            return;
        }
        let (interface, address) = (partner.interface, partner.address);
        let link = turn.context.interfaces.by_id(interface);
        if partner.roster.round_is_over(now) {
            let refresh = self.config.timing(interface).refresh_ms();
            let refresh = Duration::from_millis(refresh.into());
            // Never later than R after the last one, and not in step with others.
            let length = self.exchange.jitter.uniform(refresh - refresh / 8, refresh);
            partner.roster.begin_round(now, length);
        }
        let most = link.map_or(1, |link| (link.mtu.saturating_sub(OVERHEAD) / 4).max(1)) as usize;
        if let Some(source) = link.and_then(|link| link.address_like(address)) {
            // Taken out for as long as the message is written, which needs the rest of the exchange.
            let mut roster = core::mem::take(&mut partner.roster);
            let ids = roster.tell(most);
            if !ids.is_empty() {
                partner.summaries.0 += 1;
                self.counters.reduction.named += ids.len() as u64;
                let names = RefreshNames::Messages(List::Items(ids));
                let lists = [RefreshList { epoch: self.exchange.book.epoch(), names }];
                let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
                let how = to_neighbor(source, address);
                let letter = Letter::new(how).to(Some(index));
                self.exchange.send(&mut self.counters, turn.out, letter, &body);
            }
            if let Some(partner) = self.exchange.partners.get_mut(index) {
                partner.roster = roster;
            }
        }
        let Some(partner) = self.exchange.partners.get_mut(index) else { return };
        let timer = Timer { kind: TimerKind::Summary, block: index };
        partner.summary = Some(self.store.timers.arm(partner.roster.due(now, most), timer));
    }

    /// A partner says that what it told still holds.
    pub(crate) fn srefresh_arrives<E>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        srefresh: &Srefresh<'_>,
    ) {
        let most = self.config.reduction.max_partners as usize;
        let (interface, address) = (datagram.interface, datagram.source);
        let Some(index) = self.exchange.partners.meet(interface, address, most) else { return };
        let Some(partner) = self.exchange.partners.get_mut(index) else { return };
        partner.summaries.1 += 1;
        let timing = self.config.timing(interface);
        let announced = Some(partner.refresh_ms).filter(|&refresh_ms| refresh_ms > 0);
        let expires_at =
            turn.now + timing.lifetime(announced.unwrap_or_else(|| timing.refresh_ms()));
        let neighbor = self.store.find_neighbor(interface, address);
        let mut reminder = Reminder { neighbor, expires_at, last: None };
        for list in srefresh.lists {
            let name = |id| MessageIdKey { epoch: list.epoch, id };
            match list.names {
                RefreshNames::Messages(ids) => {
                    for id in ids {
                        if !self.refresh_named(&mut reminder, name(id)) {
                            self.does_not_know(turn, index, name(id));
                        }
                    }
                }
                RefreshNames::Sources(items) => {
                    for item in items {
                        if !self.refresh_named(&mut reminder, name(item.id))
                            && forwards(turn, interface, item.source, datagram.destination)
                        {
                            self.does_not_know(turn, index, name(item.id));
                        }
                    }
                }
                RefreshNames::Multicast(items) => {
                    for item in items {
                        if !self.refresh_named(&mut reminder, name(item.id))
                            && forwards(turn, interface, item.source, item.destination)
                        {
                            self.does_not_know(turn, index, name(item.id));
                        }
                    }
                }
            }
        }
        if let Some(neighbor) = neighbor.filter(|_| reminder.last.is_some()) {
            self.store.neighbors[neighbor as usize].heard = turn.now;
        }
    }

    /// Refreshes the state that a neighbour named so; gives whether there is any.
    #[inline]
    fn refresh_named(&mut self, reminder: &mut Reminder, name: MessageIdKey) -> bool {
        let &mut Reminder { neighbor, expires_at, last } = reminder;
        let named = neighbor.and_then(|neighbor| self.store.find_named_after(last, neighbor, name));
        let Some(named) = named else {
            self.counters.reduction.unknown += 1;
            return false;
        };
        reminder.last = Some(named);
        self.counters.reduction.refreshed += 1;
        match named.block() {
            (Block::Sender, index) => {
                let ends = &mut self.store.psb_mut(index).expires_at;
                *ends = expires_at.max(*ends);
            }
            (Block::Reservation, index) => {
                let rsb = self.store.rsb_mut(index);
                rsb.expires_at = expires_at.max(rsb.expires_at);
                // A name stands for all filters of a request or for none.
                for filter in rsb.extra.iter_mut().flat_map(|extra| &mut extra.filters) {
                    filter.expires_at = expires_at.max(filter.expires_at);
                }
            }
        }
        true
    }

    #[cold]
    fn does_not_know<E>(&mut self, turn: &Turn<'_, '_, E>, partner: Index, name: MessageIdKey) {
        self.acknowledge(turn.now, partner, AcknowledgementKind::Nack, name);
    }
}

/// What a summary does to the blocks that it names.
struct Reminder {
    /// Who sent it; `None` where no state hangs on the sender.
    neighbor: Option<Index>,
    expires_at: Time,
    /// The block that was refreshed last.
    last: Option<Named>,
}

/// Whether this node would pass on what that source sends to that group, if it came in there (RFC 2961 section 5.3).
fn forwards<E>(
    turn: &Turn<'_, '_, E>,
    interface: InterfaceId,
    source: IpAddr,
    group: IpAddr,
) -> bool {
    let branches = turn.context.routes.multicast(source, group);
    branches.is_some_and(|branches| branches.incoming == Some(interface))
}
