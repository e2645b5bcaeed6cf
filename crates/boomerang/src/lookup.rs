//! What a message that passes by is about: which session, and whether it says anything new about it.
//!
//! Nearly all messages are refreshes. Those end here: they say how long a half lives on, and nothing else is done for them.

use core::net::{IpAddr, Ipv4Addr};

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{InterfaceId, Time};
use earmark_wire::boomerang::{CommonForm, Family, QosView, Rates, View};

use crate::api::Direction;
use crate::instance::Boomerang;
use crate::state::{Half, Index, flag};
use crate::store::{Key, Masks, Place};

/// What was found where a message's session should be.
#[derive(Clone, Copy)]
pub(crate) enum Looked {
    /// It is there, and the message was a refresh and no more; it leaves as it came, through this interface if the session
    /// has anything in this direction.
    Refreshed(Option<InterfaceId>),
    /// It is there, and there is more to the message.
    Found(Index),
    /// It is not there, but this would be its place.
    Missing(Key, Place),
    /// No session has such a mask.
    NewMask,
}

impl Boomerang {
    /// Looks for the session of a message, and if that is all, refreshes it.
    #[inline]
    pub(crate) fn look(
        &mut self,
        now: Time,
        view: &View<'_>,
        direction: Direction,
        initiator: IpAddr,
    ) -> Looked {
        let Some(number) = self.store.masks.find(view.mask_octets()) else {
            return Looked::NewMask;
        };
        let key = Key::new(number, self.store.masks.mask(number), view.classifier_octets());
        let found = self.store.look_up(&key);
        mark(Checkpoint::FindSession);
        match found {
            Err(place) => Looked::Missing(key, place),
            Ok(index) => {
                let refreshed = match view.qos() {
                    QosView::Bitrate(rates) if view.flags().0 == 0 => {
                        let interval = view.refresh_interval();
                        self.refresh(now, rates, interval, direction, initiator, index)
                    }
                    _ => None,
                };
                refreshed.map_or(Looked::Found(index), Looked::Refreshed)
            }
        }
    }

    /// Likewise for a plain message.
    #[inline]
    pub(crate) fn look_plain(
        &mut self,
        now: Time,
        plain: &CommonForm<'_>,
        direction: Direction,
        initiator: Ipv4Addr,
    ) -> Looked {
        let [w0, w1] = plain.flow();
        let found = self.store.look_up_short(Masks::ONE_FLOW, [w0, w1]);
        mark(Checkpoint::FindSession);
        match found {
            Err(place) => {
                let (mask, words) = (Masks::ONE_FLOW, [w0, w1, 0, 0, 0]);
                Looked::Missing(Key { mask, family: Family::V4, words }, place)
            }
            Ok(index) => {
                let interval = plain.refresh_interval();
                let initiator = initiator.into();
                self.refresh(now, plain.rates(), interval, direction, initiator, index)
                    .map_or(Looked::Found(index), Looked::Refreshed)
            }
        }
    }

    /// A message about a known session that asks for rates and has no flags. If it says nothing new, it only writes how
    /// long its half lives. Gives where it leaves, if this node has anything to say about that; `None` where there is more
    /// to the message.
    #[inline]
    fn refresh(
        &mut self,
        now: Time,
        rates: Rates,
        interval: u8,
        direction: Direction,
        initiator: IpAddr,
        index: Index,
    ) -> Option<Option<InterfaceId>> {
        let wanted = match direction {
            Direction::Forward => rates.forward,
            Direction::Reverse => rates.reverse,
        };
        let expires_at = self.config.end_of_life(now, interval);
        let (epoch, most) = (self.epoch, self.config.max_refresh_interval);
        let sources = &self.store.sources;
        let session = &mut self.store.sessions[index as usize];
        let known = sources[session.source as usize].address;
        let half = session.half_mut(direction);
        let Half { rate, interface, expires_at: before, .. } = *half;
        // Who treats refreshes, if somebody does, has to know of the session: if not yet, it is told the long way.
        let offloaded = if self.config.offload { flag::OFFLOADED } else { 0 };
        let plain = rate == wanted
            && session.flags & !flag::ASKED == offloaded
            && session.prime == 0
            && interval <= most
            && known == initiator;
        if !plain || rates == Rates::ZERO || (session.epoch != epoch && wanted != 0) {
            return None;
        }
        if wanted == 0 {
            return Some(None);
        }
        session.half_mut(direction).expires_at = expires_at;
        if expires_at < before {
            self.rearm(index);
        }
        self.counters.refreshed += 1;
        mark(Checkpoint::Refresh);
        Some(Some(interface))
    }
}
