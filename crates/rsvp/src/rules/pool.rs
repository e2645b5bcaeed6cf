//! Members of a shared reservation: its senders on each outgoing interface.

use earmark_wire::rsvp::{FilterSpec, Style};

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::state::message_id_key::MessageIdKey;
use crate::state::store::NamedBlock;
use crate::state::{Block, Dropped, Filter, Holder, Index};

impl Rsvp {
    /// Removes a sender from a traffic-control block of its pool because its data no longer uses that interface.
    /// Traffic control changes once, whatever the number of next hops.
    pub(crate) fn remove_sender_from_tcsb<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
        template: &FilterSpec,
    ) {
        let Holder::Pool(pool) = self.store.tcsb(tcsb).holder else { return };
        if self.store.pool(pool).style == Style::Wildcard {
            let session = self.store.pool(pool).session;
            let outgoing = self.store.tcsb(tcsb).outgoing;
            if self
                .store
                .senders_of(session)
                .any(|psb| self.store.psb(psb).leaves_through(outgoing))
            {
                self.update_traffic_control(cx, tcsb);
            } else {
                self.remove_from_traffic_control(cx, tcsb, Change::Orphaned);
            }
            return;
        }
        let names_it = |filter: &Filter| filter.spec == *template;
        let mut any = false;
        let (mut before, mut next) = (None, self.store.first_rsb(tcsb));
        while let Some(rsb) = next {
            next = self.store.next_rsb(rsb);
            match self.store.rsb_mut(rsb).drop_filters(names_it) {
                Dropped::All => self.remove_request(before, rsb),
                Dropped::Some => {
                    // The next hop may not know, and may list a request that still includes this sender in summary
                    // refreshes.
                    self.store.set_message_id(
                        NamedBlock::new(Block::Reservation, rsb),
                        MessageIdKey::NONE,
                    );
                    before = Some(rsb);
                }
                Dropped::None => {
                    before = Some(rsb);
                    continue;
                }
            }
            any = true;
        }
        if any {
            self.update_after_removal(cx, tcsb, Change::Orphaned);
        }
    }
}
