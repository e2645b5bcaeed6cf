//! Lookup of the session of a message, and whether the message is a refresh.
//!
//! Nearly all messages are refreshes. They end here: they extend the lifetime of a half, and need nothing else.

use core::net::{IpAddr, Ipv4Addr};

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{InterfaceId, Time};
use earmark_wire::boomerang::{CommonForm, Family, QosView, Rates};

use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::message::{Refused, TransitMessage};
use crate::selector::Direction;
use crate::state::{Half, Index, flag};
use crate::store::{Grant, Key, Masks, VacantEntry};

/// Result of a lookup.
#[derive(Clone, Copy)]
pub(crate) enum Lookup {
    /// The session exists, and the message was a refresh. The message leaves unchanged, through this interface if the
    /// session has a reservation in this direction.
    Refreshed(Option<InterfaceId>),
    /// The session exists, and the message is more than a refresh.
    Found(Index),
    /// The session does not exist; this is its free entry.
    Missing(Key, VacantEntry),
    /// No session has this mask.
    NewMask,
}

impl Boomerang {
    /// Looks up the session of a message, and refreshes it if the message is a refresh.
    #[inline]
    pub(crate) fn look_up_message(&mut self, now: Time, transit: &TransitMessage<'_>) -> Lookup {
        let view = &transit.view;
        let Some(number) = self.store.masks.find(view.mask_octets()) else {
            return Lookup::NewMask;
        };
        let key = Key::new(number, self.store.masks.mask(number), view.classifier_octets());
        let found = self.store.look_up(&key);
        mark(Checkpoint::FindSession);
        match found {
            Err(place) => Lookup::Missing(key, place),
            Ok(index) => {
                let refreshed = match view.qos() {
                    QosView::Bitrate(rates)
                        if view.flags().0 == 0 && !self.has_other_token(transit, index) =>
                    {
                        let interval = view.refresh_interval();
                        let ends = (transit.initiator, transit.far_end);
                        let is_reply = transit.is_reply;
                        let way = (transit.direction, transit.arrival, is_reply);
                        self.refresh(now, rates, interval, way, ends, index)
                    }
                    _ => None,
                };
                refreshed.map_or(Lookup::Found(index), Lookup::Refreshed)
            }
        }
    }

    /// Returns the session of a message, or the entry for a new one. A new mask is numbered.
    pub(crate) fn find_or_vacant(
        &mut self,
        transit: &TransitMessage<'_>,
    ) -> Result<Grant, Refused> {
        let view = &transit.view;
        let number = match self.store.masks.find(view.mask_octets()) {
            Some(number) => number,
            None => {
                let shape = view.shape().map_err(|error| {
                    self.counters.malform(error.kind.name());
                    Refused::without_offer(RefusalReason::Mask)
                })?;
                let entered =
                    self.store.masks.insert(view.family(), shape, self.config.limits.masks);
                entered.ok_or(Refused::without_offer(RefusalReason::Limit))?
            }
        };
        let found = self.store.grant(number, view.classifier_octets());
        mark(Checkpoint::FindSession);
        Ok(found)
    }

    /// Looks up the session of a plain message, and refreshes it if the message is a refresh.
    #[inline]
    pub(crate) fn look_up_plain(
        &mut self,
        now: Time,
        plain: &CommonForm<'_>,
        direction: Direction,
        (initiator, far_end): (Ipv4Addr, Ipv4Addr),
        arrival: InterfaceId,
    ) -> Lookup {
        let [w0, w1] = plain.flow();
        let found = self.store.look_up_short(Masks::ONE_FLOW, [w0, w1]);
        mark(Checkpoint::FindSession);
        match found {
            Err(place) => {
                let (mask, words) = (Masks::ONE_FLOW, [w0, w1, 0, 0, 0]);
                Lookup::Missing(Key { mask, family: Family::V4, words }, place)
            }
            Ok(index) => {
                let interval = plain.refresh_interval();
                let ends = (initiator.into(), far_end.into());
                let way = (direction, arrival, direction == Direction::Reverse);
                self.refresh(now, plain.rates(), interval, way, ends, index)
                    .map_or(Lookup::Found(index), Lookup::Refreshed)
            }
        }
    }

    /// Handles a message about a known session that requests rates and has no flags. If the message changes nothing,
    /// it extends the lifetime of its half. Returns the outgoing interface, if this node has reserved in this
    /// direction; `None` if the message is more than a refresh.
    #[inline(always)]
    fn refresh(
        &mut self,
        now: Time,
        rates: Rates,
        interval: u8,
        (direction, arrival, is_reply): (Direction, InterfaceId, bool),
        (initiator, far_end): (IpAddr, IpAddr),
        index: Index,
    ) -> Option<Option<InterfaceId>> {
        let wanted = match direction {
            Direction::Forward => rates.forward,
            Direction::Reverse => rates.reverse,
        };
        let expires_at = self.config.expiry_time(now, interval);
        let (epoch, most) = (self.epoch, self.config.max_refresh_interval);
        let sources = &self.store.sources;
        let session = &mut self.store.sessions[index as usize];
        let known = &sources[session.source as usize];
        let expected = if is_reply { session.reply_arrival } else { known.port };
        let is_origin = expected == arrival && session.is_far_end(far_end);
        let half = session.half_mut(direction);
        let Half { rate, interface, expires_at: before, .. } = *half;
        // An offload needs to know the session: if it does not, the full processing reports it.
        let offloaded = if self.config.offload { flag::OFFLOADED } else { 0 };
        let plain = rate == wanted
            && session.flags & !flag::ASKED == offloaded
            && session.prime == 0
            && interval <= most
            && known.address == initiator
            && is_origin;
        if !plain || rates == Rates::ZERO || (session.epoch != epoch && wanted != 0) {
            return None;
        }
        if wanted == 0 {
            return Some(None);
        }
        session.half_mut(direction).expires_at = expires_at;
        if expires_at < before {
            self.store.rearm(index);
        }
        self.counters.refreshed += 1;
        mark(Checkpoint::Refresh);
        Some(Some(interface))
    }
}
