//! The plane of the fluid model: links, the channels through them, and the propagation of changes.
//!
//! A *channel* is the part of one link that some streams use: one stream alone, if it must be distinguished from
//! others, or all streams without reservations towards one destination. The output of a channel enters the next one, so
//! channels towards one destination merge. Each link has the sum of its channels' demands and the share of it that they
//! get. A change enters a channel, and continues along the channels after it; only if the share of a congested link
//! changes do all its best-effort channels change with it. Changed links wait in a queue, so that many changes at one
//! of them are handled at once; the queue is empty when nothing changes any more.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use slab::Slab;

use super::rate::{FluidRate, Share};

/// Number of a link of the plane.
pub(crate) type LinkNumber = u32;
/// Number of a channel.
pub(crate) type ChannelNumber = u32;

/// Maximum number of updates of one link for one change. If best effort flows in a circle, the shares converge with
/// each update; the remainder is left to the next change.
const ROUNDS: usize = 64;

/// One direction of a link.
#[derive(Debug)]
struct Link {
    bandwidth: FluidRate,
    /// Best-effort channels of the link.
    best_effort: Vec<ChannelNumber>,
    /// Demand of best effort.
    wanted: FluidRate,
    /// Classes by their numbers in the egress.
    classes: BTreeMap<u32, Class>,
    /// Demand of the classes.
    reserved: FluidRate,
    /// Share of it that they get: all, unless the reserved rates exceed the bandwidth.
    class_share: Share,
    /// Share of its demand that best effort gets.
    share: Share,
    /// Channels whose inflow has changed since the last update of the link.
    changed: Vec<ChannelNumber>,
    /// Classes whose inflow has changed since the last update of the link.
    changed_classes: Vec<u32>,
    /// Whether it waits for an update.
    waits: bool,
}

/// A reserved class.
#[derive(Debug)]
struct Class {
    /// Rate in IP octets only, as its token bucket counts.
    rate: FluidRate,
    channels: Vec<ChannelNumber>,
    /// Inflow in IP octets.
    inflow: FluidRate,
    /// Demand on the link, with framing.
    wanted: FluidRate,
    /// Part of that which its bucket passed at the last update of the link.
    passes: FluidRate,
    /// Share of that part in the demand.
    share: Share,
}

impl Class {
    fn new(rate: FluidRate) -> Class {
        Class {
            rate,
            channels: Vec::new(),
            inflow: FluidRate::ZERO,
            wanted: FluidRate::ZERO,
            passes: FluidRate::ZERO,
            share: Share::ALL,
        }
    }
}

/// One channel of a link.
#[derive(Debug)]
struct Channel {
    link: LinkNumber,
    class: Option<u32>,
    /// Position among the channels of its class, or of best effort.
    place: u32,
    /// Octets of its packets.
    octets: u32,
    inflow: FluidRate,
    outflow: FluidRate,
    next: Next,
    /// The stream that has it alone, if any.
    owner: Option<u32>,
    /// Number of streams that use it.
    users: u32,
    changed: bool,
}

/// Destination of a channel's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another channel.
    Channel(ChannelNumber),
    /// The end of the path, watched by this number.
    Watched(u32),
    /// The end of the path, or nowhere.
    Gone,
}

/// All links and channels of a network.
#[derive(Debug, Default)]
pub(crate) struct Plane {
    links: Vec<Link>,
    channels: Slab<Channel>,
    waiting: VecDeque<LinkNumber>,
    /// Numbers of watched ends whose rate has changed, and the new rate.
    pub(crate) arrivals: Vec<(u32, FluidRate)>,
}

impl Plane {
    /// Adds a link.
    pub(crate) fn add_link(&mut self, bandwidth: FluidRate) -> LinkNumber {
        self.links.push(Link {
            bandwidth,
            best_effort: Vec::new(),
            wanted: FluidRate::ZERO,
            classes: BTreeMap::new(),
            reserved: FluidRate::ZERO,
            class_share: Share::ALL,
            share: Share::ALL,
            changed: Vec::new(),
            changed_classes: Vec::new(),
            waits: false,
        });
        self.links.len() as u32 - 1
    }

    /// Changes the bandwidth of a link.
    pub(crate) fn set_bandwidth(&mut self, link: LinkNumber, bandwidth: FluidRate) {
        self.links[link as usize].bandwidth = bandwidth;
        self.queue_update(link);
    }

    /// Changes the rate of a class of a link, if it has channels.
    pub(crate) fn set_class_rate(&mut self, link: LinkNumber, number: u32, rate: FluidRate) {
        let known = &mut self.links[link as usize];
        if let Some(class) = known.classes.get_mut(&number).filter(|class| class.rate != rate) {
            class.rate = rate;
            known.changed_classes.push(number);
            self.queue_update(link);
        }
    }

    /// Returns the channels in a class, each with the stream that has it.
    pub(crate) fn channels_of(&self, link: LinkNumber, class: u32) -> Vec<(ChannelNumber, u32)> {
        let class = self.links[link as usize].classes.get(&class);
        let channels = class.into_iter().flat_map(|class| &class.channels);
        let owned =
            channels.filter_map(|&channel| Some((channel, self.channels[channel as usize].owner?)));
        owned.collect()
    }

    /// Returns the numbers of the classes of a link that have channels.
    pub(crate) fn classes_of(&self, link: LinkNumber) -> Vec<u32> {
        self.links[link as usize].classes.keys().copied().collect()
    }

    /// Adds a best-effort channel without inflow and without users.
    pub(crate) fn add_channel(
        &mut self,
        link: LinkNumber,
        octets: u32,
        owner: Option<u32>,
        next: Next,
    ) -> ChannelNumber {
        let number = self.channels.insert(Channel {
            link,
            class: None,
            place: 0,
            octets,
            inflow: FluidRate::ZERO,
            outflow: FluidRate::ZERO,
            next,
            owner,
            users: 0,
            changed: false,
        }) as u32;
        self.enter_class(number, None);
        number
    }

    /// Adds a user to a channel.
    pub(crate) fn use_channel(&mut self, channel: ChannelNumber) {
        self.channels[channel as usize].users += 1;
    }

    /// Removes a user from a channel; `true` if it was the last one, and the channel is removed. The user must have no
    /// flow in it.
    pub(crate) fn leave_channel(&mut self, number: ChannelNumber) -> bool {
        let channel = &mut self.channels[number as usize];
        channel.users -= 1;
        if channel.users > 0 {
            return false;
        }
        // Zero, unless shares in a circle have not converged yet.
        let (link, inflow) = (channel.link, channel.inflow);
        self.flow_in(number, inflow, FluidRate::ZERO);
        self.set_outflow(number, FluidRate::ZERO);
        self.leave_class(number);
        self.links[link as usize].changed.retain(|changed| *changed != number);
        self.channels.remove(number as usize);
        true
    }

    /// Returns the destination of a channel's output.
    pub(crate) fn next(&self, channel: ChannelNumber) -> Next {
        self.channels[channel as usize].next
    }

    /// Returns the link of a channel.
    pub(crate) fn link_of(&self, channel: ChannelNumber) -> LinkNumber {
        self.channels[channel as usize].link
    }

    /// Moves a channel into a class with this rate, or back to best effort. The rate is that of the class from now on.
    pub(crate) fn classify(&mut self, number: ChannelNumber, class: Option<(u32, FluidRate)>) {
        let channel = &self.channels[number as usize];
        let link = channel.link;
        if channel.class == class.map(|(number, _)| number) {
            if let Some((number, rate)) = class {
                self.set_class_rate(link, number, rate);
            }
            return;
        }
        let inflow = channel.inflow;
        self.flow_in(number, inflow, FluidRate::ZERO);
        self.leave_class(number);
        self.enter_class(number, class);
        self.flow_in(number, FluidRate::ZERO, inflow);
    }

    /// Changes the inflow of a channel by the change of one of its inputs.
    pub(crate) fn flow_in(&mut self, number: ChannelNumber, before: FluidRate, now: FluidRate) {
        if before == now {
            return;
        }
        let channel = &mut self.channels[number as usize];
        let inflow = channel.inflow - before + now;
        let wanted = (channel.inflow.framed(channel.octets), inflow.framed(channel.octets));
        channel.inflow = inflow;
        let link = channel.link;
        let known = &mut self.links[link as usize];
        if !channel.changed {
            channel.changed = true;
            known.changed.push(number);
        }
        match channel.class {
            None => known.wanted = known.wanted - wanted.0 + wanted.1,
            Some(number) => {
                if let Some(class) = known.classes.get_mut(&number) {
                    class.inflow = class.inflow - before + now;
                    class.wanted = class.wanted - wanted.0 + wanted.1;
                    known.changed_classes.push(number);
                }
            }
        }
        self.queue_update(link);
    }

    /// Propagates all changes.
    pub(crate) fn settle(&mut self) {
        let most = ROUNDS * self.links.len();
        for _ in 0..most {
            let Some(link) = self.waiting.pop_front() else {
                return;
            };
            self.serve(link);
        }
    }

    fn queue_update(&mut self, link: LinkNumber) {
        let known = &mut self.links[link as usize];
        if !known.waits {
            known.waits = true;
            self.waiting.push_back(link);
        }
    }

    /// Shares a link among its channels, and propagates changes.
    fn serve(&mut self, number: LinkNumber) {
        let link = &mut self.links[number as usize];
        link.waits = false;
        let mut changed = core::mem::take(&mut link.changed);
        for number in link.changed_classes.drain(..) {
            let Some(class) = link.classes.get_mut(&number) else {
                continue;
            };
            let share = Share::of(class.rate, class.inflow);
            let passes = class.wanted.times(share);
            link.reserved = link.reserved - class.passes + passes;
            class.passes = passes;
            if share != class.share {
                class.share = share;
                changed.extend(&class.channels);
            }
        }
        let class_share = Share::of(link.bandwidth, link.reserved);
        if class_share != link.class_share {
            link.class_share = class_share;
            changed.extend(link.classes.values().flat_map(|class| &class.channels));
        }
        let share = Share::of(link.bandwidth.minus(link.reserved), link.wanted);
        if share != link.share {
            link.share = share;
            changed.extend(&link.best_effort);
        }
        for channel in changed.drain(..) {
            self.channels[channel as usize].changed = false;
            self.set_outflow(channel, self.outflow(channel));
        }
        self.links[number as usize].changed = changed; // keeps its capacity; no channel leads to its own link
    }

    /// Returns the current output of a channel.
    fn outflow(&self, number: ChannelNumber) -> FluidRate {
        let channel = &self.channels[number as usize];
        let link = &self.links[channel.link as usize];
        match channel.class.and_then(|class| link.classes.get(&class)) {
            None => channel.inflow.times(link.share),
            Some(class) => channel.inflow.times(class.share).times(link.class_share),
        }
    }

    fn set_outflow(&mut self, number: ChannelNumber, outflow: FluidRate) {
        let channel = &mut self.channels[number as usize];
        let before = core::mem::replace(&mut channel.outflow, outflow);
        if before == outflow {
            return;
        }
        match channel.next {
            Next::Channel(next) => self.flow_in(next, before, outflow),
            Next::Watched(name) => self.arrivals.push((name, outflow)),
            Next::Gone => {}
        }
    }

    /// Adds a channel without inflow to a class, or to best effort.
    fn enter_class(&mut self, number: ChannelNumber, class: Option<(u32, FluidRate)>) {
        let channel = &mut self.channels[number as usize];
        let link = &mut self.links[channel.link as usize];
        channel.class = class.map(|(number, _)| number);
        let channels = match class {
            None => &mut link.best_effort,
            Some((number, rate)) => {
                let class = link.classes.entry(number).or_insert_with(|| Class::new(rate));
                class.rate = rate;
                &mut class.channels
            }
        };
        channel.place = channels.len() as u32;
        channels.push(number);
    }

    /// Removes a channel without inflow from its class, or from best effort. A class is removed with its last channel.
    fn leave_class(&mut self, number: ChannelNumber) {
        let channel = &self.channels[number as usize];
        let (place, class) = (channel.place as usize, channel.class);
        let link = &mut self.links[channel.link as usize];
        let channels = match class {
            None => &mut link.best_effort,
            Some(number) => match link.classes.get_mut(&number) {
                Some(class) => &mut class.channels,
                None => return,
            },
        };
        channels.swap_remove(place);
        let emptied = channels.is_empty();
        if let Some(&moved) = channels.get(place) {
            self.channels[moved as usize].place = place as u32;
        }
        if let Some(gone) = class.filter(|_| emptied).and_then(|class| link.classes.remove(&class))
        {
            link.reserved -= gone.passes;
        }
    }
}

#[cfg(test)]
mod tests;
