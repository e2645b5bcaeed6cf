//! Settings that can be replaced while an engine runs.
//!
//! Existing state is kept: reservations that a new limit or rule would refuse stay and are refreshed as before. State
//! whose messages change (R, code points) is sent again, at the rate of retransmissions. Proxies follow the settings: a
//! proxy that is removed ends its senders and reservations.

mod new_settings;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use earmark_core::{InterfaceId, Time, slew};

use crate::api::Event;
use crate::config::Timing;
use crate::context::HandlerContext;
use crate::host::proxy::{SenderProxy, sender_proxy};
use crate::instance::Rsvp;
use crate::rules::policy::Policy;
use crate::rules::repair::RepairCause;

pub use self::new_settings::Renewal;
pub(crate) use self::new_settings::TimingChange;

impl Rsvp {
    /// Brings the refresh periods nearer to those configured, as far as RFC 2205 section 3.7 permits. Returns whether any
    /// timing has changed.
    fn follow_timing(&mut self, now: Time) -> bool {
        let Some(mut change) = self.timing_change.take() else { return false };
        let before = (self.config.timing, self.config.interfaces.clone());
        let interfaces = [&change.interfaces, &self.config.interfaces];
        let own: BTreeSet<InterfaceId> =
            interfaces.iter().flat_map(|own| own.keys().copied()).collect();
        // The general one last: an interface that gets its own rises from it.
        for place in own.into_iter().map(Some).chain([None]) {
            let general = (self.config.timing, change.timing);
            let (current, wanted) = match place {
                None => general,
                Some(id) => (
                    self.config.interfaces.get(&id).copied().unwrap_or(general.0),
                    change.interfaces.get(&id).copied().unwrap_or(general.1),
                ),
            };
            let rises_at = change.rises_at.remove(&place);
            let (refresh, rises_at) =
                slew::step(now, current.refresh, wanted.refresh, wanted.slew_percent, rises_at);
            change.rises_at.extend(rises_at.map(|at| (place, at)));
            let timing = Timing { refresh, ..wanted };
            match place {
                None => self.config.timing = timing,
                Some(id) if refresh == wanted.refresh && !change.interfaces.contains_key(&id) => {
                    self.config.interfaces.remove(&id);
                }
                Some(id) => {
                    self.config.interfaces.insert(id, timing);
                }
            }
        }
        self.timing_change = Some(change).filter(|change| !change.rises_at.is_empty());
        before != (self.config.timing, self.config.interfaces.clone())
    }

    /// Applies the timing that is configured by name for an interface that is new, and forgets that of one that is gone or has
    /// another name now. The interface has no state of an earlier period, so that its period does not rise slowly.
    pub(crate) fn set_interface_timing<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        id: InterfaceId,
    ) {
        if self.config.interface_timing.is_empty() {
            return;
        }
        let interface = cx.context.interfaces.by_id(id);
        let timing =
            interface.and_then(|known| self.config.interface_timing.get(&known.name)).copied();
        let rising = self.timing_change.as_mut().map(|change| &mut change.interfaces);
        for all in rising.into_iter().chain([&mut self.config.interfaces]) {
            match timing {
                Some(timing) => _ = all.entry(id).or_insert(timing),
                None => _ = all.remove(&id),
            }
        }
    }

    /// Lets refresh periods rise that are to rise by now.
    #[cold]
    pub(crate) fn let_periods_rise(&mut self, now: Time) {
        let change = self.timing_change.as_ref();
        let is_due = change.is_some_and(|change| change.rises_at.values().any(|&at| at <= now));
        if is_due && self.follow_timing(now) {
            self.resend_all_to_all_peers(now);
        }
    }

    /// Applies new settings.
    pub(crate) fn reload<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        new: Renewal,
    ) {
        let Renewal { timing, mut interfaces, max_sessions, diagnostics, limits, .. } = new;
        let Renewal {
            max_senders,
            max_next_hops,
            strict,
            without_router_alert,
            tokens,
            policy,
            dclass,
            proxies,
            notify,
            remove_path_state,
            interface_timing,
            restart,
            ..
        } = new;
        let content_changed = self.config.dclass != dclass;
        let answers_otherwise =
            self.config.proxies.receivers != proxies.receivers || self.config.notify != notify;
        self.config.max_sessions = max_sessions;
        self.config.max_senders = max_senders;
        self.config.max_next_hops = max_next_hops;
        self.config.strict = strict;
        self.config.notify = notify;
        self.config.remove_path_state = remove_path_state;
        self.set_restart_times(restart);
        self.config.diagnostics.answer = diagnostics;
        self.config.limits = limits;
        self.config.without_router_alert = without_router_alert;
        self.config.dclass = dclass;
        match &mut self.policy {
            Some(current) => current.reload(&policy),
            none => *none = Policy::new(&policy, !tokens.issuers.is_empty()).map(Into::into),
        }
        self.tokens.reload(tokens);
        self.config.policy = policy;
        self.config.proxies.receivers = proxies.receivers;
        self.replace_sender_proxies(cx, &proxies.senders);
        self.config.interface_timing = interface_timing;
        for (name, timing) in &self.config.interface_timing {
            let present = cx.context.interfaces.by_name(name);
            interfaces.extend(present.map(|interface| (interface.id, *timing)));
        }
        let rises_at = self.timing_change.take().map(|change| change.rises_at).unwrap_or_default();
        self.timing_change = Some(Box::new(TimingChange { timing, interfaces, rises_at }));
        let timing_changed = self.follow_timing(cx.now);
        if content_changed || timing_changed {
            self.resend_all_to_all_peers(cx.now);
        }
        if answers_otherwise {
            self.note_change(cx, RepairCause::ReceiverProxies);
        }
    }

    /// Replaces the sender proxies. The index in the list determines the application, so proxies that remain keep their
    /// index, and new ones get a free one.
    fn replace_sender_proxies<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        wanted: &[SenderProxy],
    ) {
        let mut wanted = wanted.to_vec();
        for place in 0..self.sender_proxies.len() {
            let Some(old) = self.sender_proxies[place] else { continue };
            let stays = wanted.iter().position(|new| new.is_of_the_same_flow(&old));
            let new = stays.map(|found| wanted.remove(found));
            self.sender_proxies[place] = new;
            match new {
                Some(new) if new != old => self.change_proxy(cx, place, &new),
                Some(_) => {}
                None => self.end_proxy(cx, sender_proxy(place)),
            }
        }
        for new in wanted {
            match self.sender_proxies.iter_mut().find(|place| place.is_none()) {
                Some(free) => *free = Some(new),
                None => self.sender_proxies.push(Some(new)),
            }
        }
        self.start_proxies(cx);
    }
}
