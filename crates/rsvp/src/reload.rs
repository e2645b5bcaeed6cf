//! Settings that may be replaced while an engine runs.
//!
//! What stands is never given up for it: reservations that a new limit or rule would refuse stay, and are refreshed as
//! before. What messages say is told anew where it is another now (R, code points), at the pace of what is sent again. What
//! this node says for others follows its settings, for that is theirs alone: a proxy that is no longer named ends what it
//! began.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use earmark_core::InterfaceId;
use earmark_wire::rsvp::Dscp;
use serde::{Deserialize, Serialize};

use crate::api::{Application, Event};
use crate::config::{Config, Timing};
use crate::instance::{HandlerContext, Rsvp};
use crate::policy::Policy;
use crate::proxy::SenderProxy;
use crate::{limits, policy, proxy};

/// The part of [`Config`] that may change; the rest holds for an engine's life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// See [`Config::timing`].
    pub timing: Timing,
    /// See [`Config::interfaces`].
    pub interfaces: BTreeMap<InterfaceId, Timing>,
    /// See [`Config::max_sessions`].
    pub max_sessions: u32,
    /// Whether questions about sessions are answered; see [`crate::diagnostics::Settings::answer`].
    pub diagnostics: bool,
    /// See [`Config::limits`].
    pub limits: limits::Settings,
    /// See [`Config::policy`]. A rule that keeps its conditions keeps its account, whatever its limits are now.
    pub policy: policy::Settings,
    /// See [`Config::dclass`].
    pub dclass: BTreeMap<String, Vec<Dscp>>,
    /// See [`Config::proxies`].
    pub proxies: proxy::Settings,
}

impl From<Config> for Renewal {
    fn from(config: Config) -> Renewal {
        Renewal {
            timing: config.timing,
            interfaces: config.interfaces,
            max_sessions: config.max_sessions,
            diagnostics: config.diagnostics.answer,
            limits: config.limits,
            policy: config.policy,
            dclass: config.dclass,
            proxies: config.proxies,
        }
    }
}

impl Rsvp {
    /// Takes other settings.
    pub(crate) fn renew<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        new: Renewal,
    ) {
        let Renewal { timing, interfaces, max_sessions, diagnostics, limits, .. } = new;
        let Renewal { policy, dclass, proxies, .. } = new;
        let said = (&self.config.timing, &self.config.interfaces, &self.config.dclass);
        let says_otherwise = said != (&timing, &interfaces, &dclass);
        let answers_otherwise = self.config.proxies.receivers != proxies.receivers;
        self.config.timing = timing;
        self.config.interfaces = interfaces;
        self.config.max_sessions = max_sessions;
        self.config.diagnostics.answer = diagnostics;
        self.config.limits = limits;
        self.config.dclass = dclass;
        match &mut self.policy {
            Some(current) => current.renew(&policy),
            none => *none = Policy::new(&policy).map(Into::into),
        }
        self.config.policy = policy;
        self.config.proxies.receivers = proxies.receivers;
        self.speak_for(cx, &proxies.senders);
        if says_otherwise {
            self.resend_all_to_all_peers(cx.now);
        }
        if answers_otherwise {
            self.answers_change(cx.now);
        }
    }

    /// Announces these senders, and no others, for hosts that do not speak RSVP. A place in the list is what an application
    /// is called by, so who stays keeps its place, and who comes takes one that is free.
    fn speak_for<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        wanted: &[SenderProxy],
    ) {
        let mut wanted = wanted.to_vec();
        for place in 0..self.announced.len() {
            let Some(old) = self.announced[place] else { continue };
            let stays = wanted.iter().position(|new| new.is_of_the_same_flow(&old));
            let new = stays.map(|found| wanted.remove(found));
            self.announced[place] = new;
            match new {
                Some(new) if new != old => self.change_proxy(cx, place, &new),
                Some(_) => {}
                None => self.end_proxy(cx, Application::proxy(place)),
            }
        }
        for new in wanted {
            match self.announced.iter_mut().find(|place| place.is_none()) {
                Some(free) => *free = Some(new),
                None => self.announced.push(Some(new)),
            }
        }
        self.start_proxies(cx);
    }
}
