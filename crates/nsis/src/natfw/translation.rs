//! The addresses of flows on both sides of this translator, for other applications and their routing state.

use core::iter;

use earmark_core::{
    Context, Endpoint, FilterAction, FilterRule, FilteredPackets, Flow, InterfaceId, Time,
};
use earmark_wire::gist::{Direction, PathCoupled};

use super::binding::Binding;
use super::config::Translator;
use super::flow::{endpoints, known_packets_of, with_destination, with_source};
use super::instance::NatfwNslp;
use super::state::Flags;
use crate::route;

impl NatfwNslp {
    /// Returns whether this node may translate any flow now.
    #[inline]
    pub(crate) fn translates(&self) -> bool {
        !self.bindings.is_empty()
    }

    /// Returns whether this node is a translator.
    #[inline]
    pub(crate) fn is_translator(&self) -> bool {
        self.config.enabled && self.config.translator.is_some()
    }

    /// Returns whether packets of a flow leave the network untranslated here, although this node translates their source.
    pub(crate) fn leaves_untranslated(
        &self,
        context: &Context<'_>,
        flow: &PathCoupled,
        arrival: InterfaceId,
    ) -> bool {
        let translates = |translator: &Translator| translator.translates(flow.source);
        let is_external = |interface| self.config.is_external(context, interface);
        self.is_translator()
            && self.config.translator.as_ref().is_some_and(translates)
            && !is_external(arrival)
            && route::hop_of_flow(context, flow).is_some_and(|hop| is_external(hop.interface))
    }

    /// Returns the packets of a flow as they leave this node, if an installed rule translates them.
    pub fn translated(&self, now: Time, flow: &Flow) -> Option<Flow> {
        let port = |port: u16| (port != 0).then_some(port);
        let all_bits = if flow.destination.is_ipv4() { 32 } else { 128 };
        let before = PathCoupled {
            source: flow.source?,
            destination: flow.destination,
            source_prefix: all_bits,
            destination_prefix: all_bits,
            protocol: (flow.protocol != 0).then_some(flow.protocol),
            ds_field: None,
            flow_label: None,
            spi: None,
            source_port: port(flow.source_port),
            destination_port: port(flow.destination_port),
            direction: Direction::Downstream,
        };
        let after = self.downstream_form(now, &before)?;
        let (source, destination) = endpoints(&after);
        Some(Flow {
            source: Some(source.address),
            source_port: source.port,
            destination: destination.address,
            destination_port: destination.port,
            ..*flow
        })
    }

    /// Returns a flow of the upstream side as the downstream side knows it; `None` if no installed rule translates it. The
    /// answers to the data of a rule are translated with it.
    pub(crate) fn downstream_form(&self, now: Time, flow: &PathCoupled) -> Option<PathCoupled> {
        let answered = || self.data_before(now, &reversed(flow)).map(|data| reversed(&data));
        self.data_after(now, flow).or_else(answered)
    }

    /// Returns a flow of the downstream side as the upstream side knows it; `None` if no installed rule translates it.
    pub(crate) fn upstream_form(&self, now: Time, flow: &PathCoupled) -> Option<PathCoupled> {
        let answered = || self.data_after(now, &reversed(flow)).map(|data| reversed(&data));
        self.data_before(now, flow).or_else(answered)
    }

    /// Returns the data of a rule after their translation.
    fn data_after(&self, now: Time, before: &PathCoupled) -> Option<PathCoupled> {
        let (source, destination) = endpoints(before);
        let protocol = before.protocol?;
        let outside = self.bindings.of_internal(protocol, source);
        let inside = self.bindings.of_external(protocol, destination);
        if outside.is_none() && inside.is_none() || !is_of_one_host(before) {
            return None;
        }
        let Some(rule) = self.rule_for(before) else {
            // The rule of an earlier run of this node is still in the packet filter, and its session returns.
            let kept = |found: Option<(&Binding, Endpoint)>| {
                found.filter(|(binding, _)| binding.is_promised(now)).map(|(_, endpoint)| endpoint)
            };
            let of_source = || kept(outside).map(|outside| with_source(before, outside));
            return kept(inside).map(|inside| with_destination(before, inside)).or_else(of_source);
        };
        // Without a port the kernel chooses one for each connection.
        let known = |to: &Endpoint| to.port != 0;
        let after = match rule.source {
            Some(source) => with_source(before, Some(source).filter(known)?),
            None => *before,
        };
        Some(match rule.destination {
            Some(destination) => with_destination(&after, Some(destination).filter(known)?),
            None => after,
        })
    }

    /// Returns the data of a rule before their translation.
    fn data_before(&self, now: Time, after: &PathCoupled) -> Option<PathCoupled> {
        let (source, destination) = endpoints(after);
        let protocol = after.protocol?;
        let inside = self.bindings.of_external(protocol, source);
        let outside = self.bindings.of_internal(protocol, destination);
        let of_source = inside.map(|(_, inside)| with_source(after, inside));
        let of_destination = outside.map(|(_, outside)| with_destination(after, outside));
        let candidates = of_source.into_iter().chain(of_destination);
        candidates.into_iter().find(|before| self.data_after(now, before).as_ref() == Some(after))
    }

    /// Returns the installed rule that lets packets pass: for these, for those of all source ports, or of all sources.
    fn rule_for(&self, packets: &PathCoupled) -> Option<FilterRule> {
        let exact = known_packets_of(packets);
        let mut wider = exact;
        wider.flow.source_port = 0;
        let mut widest = wider;
        widest.flow.source = None;
        let candidates = iter::once(exact).chain([wider, widest]);
        candidates.into_iter().find_map(|packets| self.installed(packets))
    }

    fn installed(&self, packets: FilteredPackets) -> Option<FilterRule> {
        let sessions = self.store.holders(packets).map(|index| self.store.session(index));
        let installed = sessions.filter(|session| session.flags.has(Flags::INSTALLED));
        let mut rules = installed.flat_map(|session| session.rules());
        rules.find(|rule| rule.packets == packets && rule.action == FilterAction::Allow)
    }
}

/// Returns whether both ends of a flow are one host.
fn is_of_one_host(flow: &PathCoupled) -> bool {
    let bits = if flow.source.is_ipv4() { 32 } else { 128 };
    flow.source_prefix == bits && flow.destination_prefix == bits
}

/// Returns the flow of the answers to a flow.
fn reversed(flow: &PathCoupled) -> PathCoupled {
    PathCoupled {
        source: flow.destination,
        destination: flow.source,
        source_prefix: flow.destination_prefix,
        destination_prefix: flow.source_prefix,
        source_port: flow.destination_port,
        destination_port: flow.source_port,
        ..*flow
    }
}
