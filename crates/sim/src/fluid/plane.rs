//! The plane that fluid flows in: links, the channels through them, and how a change at one place reaches the others.
//!
//! A *channel* is what of one link some streams have: a stream alone, where it has to be told from others, or all streams
//! without reservations towards one destination. What leaves a channel enters the next one, so channels towards one
//! destination join like brooks. Each link knows the sum of what its channels want and the share of it that they get. A
//! change enters a channel, and goes on along the channels that follow; only where the share of a congested link changes do
//! all its channels of best effort change with it. Links wait in a queue for being looked at, so that many changes at one of
//! them are one; the queue ends when nothing changes any more.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use slab::Slab;

use super::rate::{Flux, Share};

/// Number of a link of the plane.
pub(super) type LinkNumber = u32;
/// Number of a channel.
pub(super) type ChannelNumber = u32;

/// How often one link is looked at for one change, at most. Where best effort goes round in a circle the shares come closer
/// to their values each time; the rest is done with the next change.
const ROUNDS: usize = 64;

/// One direction of a link.
#[derive(Debug)]
struct Link {
    bandwidth: Flux,
    /// Channels of best effort, and what they want of the link.
    best_effort: Vec<ChannelNumber>,
    wanted: Flux,
    /// By the numbers of the egress.
    classes: BTreeMap<u32, Class>,
    /// What classes want of the link.
    reserved: Flux,
    /// What of it they get: all, unless there are more promises than bandwidth.
    class_share: Share,
    /// What best effort gets of what it wants.
    share: Share,
    /// Channels whose inflow has changed since the link was looked at,
    changed: Vec<ChannelNumber>,
    /// and classes.
    changed_classes: Vec<u32>,
    /// Whether it waits to be looked at.
    waits: bool,
}

/// A reserved class.
#[derive(Debug)]
struct Class {
    /// IP octets only, as its token bucket counts.
    rate: Flux,
    channels: Vec<ChannelNumber>,
    /// What flows in,
    inflow: Flux,
    /// and what that takes of the link.
    wanted: Flux,
    /// What of that its bucket lets pass, when the link was looked at last,
    passes: Flux,
    /// and what share of it that was.
    share: Share,
}

impl Class {
    fn new(rate: Flux) -> Class {
        Class {
            rate,
            channels: Vec::new(),
            inflow: Flux::ZERO,
            wanted: Flux::ZERO,
            passes: Flux::ZERO,
            share: Share::ALL,
        }
    }
}

/// See the module's text.
#[derive(Debug)]
struct Channel {
    link: LinkNumber,
    class: Option<u32>,
    /// Place among the channels of its class, or of best effort.
    place: u32,
    /// Octets of its packets.
    octets: u32,
    inflow: Flux,
    outflow: Flux,
    next: Next,
    /// The stream that has it alone.
    owner: Option<u32>,
    /// How many streams use it.
    users: u32,
    changed: bool,
}

/// Where what leaves a channel goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Into another one.
    Channel(ChannelNumber),
    /// To its destination, and somebody wants to know, by this name.
    Watched(u32),
    /// To its destination, or nowhere.
    Gone,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Plane {
    links: Vec<Link>,
    channels: Slab<Channel>,
    waiting: VecDeque<LinkNumber>,
    /// Names of watched ends whose flow has changed, and how much it is now.
    pub(super) arrivals: Vec<(u32, Flux)>,
}

impl Plane {
    /// Adds a link.
    pub(super) fn add_link(&mut self, bandwidth: Flux) -> LinkNumber {
        self.links.push(Link {
            bandwidth,
            best_effort: Vec::new(),
            wanted: Flux::ZERO,
            classes: BTreeMap::new(),
            reserved: Flux::ZERO,
            class_share: Share::ALL,
            share: Share::ALL,
            changed: Vec::new(),
            changed_classes: Vec::new(),
            waits: false,
        });
        self.links.len() as u32 - 1
    }

    /// Another bandwidth for a link.
    pub(super) fn set_bandwidth(&mut self, link: LinkNumber, bandwidth: Flux) {
        self.links[link as usize].bandwidth = bandwidth;
        self.look_at(link);
    }

    /// Another rate for a class of a link, if anything flows in it.
    pub(super) fn set_class_rate(&mut self, link: LinkNumber, number: u32, rate: Flux) {
        let known = &mut self.links[link as usize];
        if let Some(class) = known.classes.get_mut(&number).filter(|class| class.rate != rate) {
            class.rate = rate;
            known.changed_classes.push(number);
            self.look_at(link);
        }
    }

    /// The channels in a class, each with the stream that has it.
    pub(super) fn channels_of(&self, link: LinkNumber, class: u32) -> Vec<(ChannelNumber, u32)> {
        let class = self.links[link as usize].classes.get(&class);
        let channels = class.into_iter().flat_map(|class| &class.channels);
        let owned =
            channels.filter_map(|&channel| Some((channel, self.channels[channel as usize].owner?)));
        owned.collect()
    }

    /// Numbers of the classes of a link that something may flow in.
    pub(super) fn classes_of(&self, link: LinkNumber) -> Vec<u32> {
        self.links[link as usize].classes.keys().copied().collect()
    }

    /// Adds a channel of best effort without inflow, which nobody uses yet.
    pub(super) fn add_channel(
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
            inflow: Flux::ZERO,
            outflow: Flux::ZERO,
            next,
            owner,
            users: 0,
            changed: false,
        }) as u32;
        self.join(number, None);
        number
    }

    /// One user more of a channel.
    pub(super) fn use_channel(&mut self, channel: ChannelNumber) {
        self.channels[channel as usize].users += 1;
    }

    /// One user less; `true` where it was the last one, and the channel is gone. Nothing of that user may flow in it.
    pub(super) fn leave_channel(&mut self, number: ChannelNumber) -> bool {
        let channel = &mut self.channels[number as usize];
        channel.users -= 1;
        if channel.users > 0 {
            return false;
        }
        // Nothing, unless shares that go round in a circle are not at rest yet.
        let (link, inflow) = (channel.link, channel.inflow);
        self.flow_in(number, inflow, Flux::ZERO);
        self.pass(number, Flux::ZERO);
        self.part(number);
        self.links[link as usize].changed.retain(|changed| *changed != number);
        self.channels.remove(number as usize);
        true
    }

    /// What follows a channel.
    pub(super) fn next(&self, channel: ChannelNumber) -> Next {
        self.channels[channel as usize].next
    }

    /// The link of a channel.
    pub(super) fn link_of(&self, channel: ChannelNumber) -> LinkNumber {
        self.channels[channel as usize].link
    }

    /// A channel goes into a class with this rate, or back to best effort. The rate is that of the class from now on.
    pub(super) fn classify(&mut self, number: ChannelNumber, class: Option<(u32, Flux)>) {
        let channel = &self.channels[number as usize];
        let link = channel.link;
        if channel.class == class.map(|(number, _)| number) {
            if let Some((number, rate)) = class {
                self.set_class_rate(link, number, rate);
            }
            return;
        }
        let inflow = channel.inflow;
        self.flow_in(number, inflow, Flux::ZERO);
        self.part(number);
        self.join(number, class);
        self.flow_in(number, Flux::ZERO, inflow);
    }

    /// What flows into a channel changes by what one who lets something flow in changes.
    pub(super) fn flow_in(&mut self, number: ChannelNumber, before: Flux, now: Flux) {
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
        self.look_at(link);
    }

    /// Lets all changes reach wherever they have to.
    pub(super) fn settle(&mut self) {
        let most = ROUNDS * self.links.len();
        for _ in 0..most {
            let Some(link) = self.waiting.pop_front() else {
                return;
            };
            self.serve(link);
        }
    }

    fn look_at(&mut self, link: LinkNumber) {
        let known = &mut self.links[link as usize];
        if !known.waits {
            known.waits = true;
            self.waiting.push_back(link);
        }
    }

    /// Shares a link out, and passes on what has changed.
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
            self.pass(channel, self.outflow(channel));
        }
        self.links[number as usize].changed = changed; // with its room; no channel leads to its own link
    }

    /// What may leave a channel now.
    fn outflow(&self, number: ChannelNumber) -> Flux {
        let channel = &self.channels[number as usize];
        let link = &self.links[channel.link as usize];
        match channel.class.and_then(|class| link.classes.get(&class)) {
            None => channel.inflow.times(link.share),
            Some(class) => channel.inflow.times(class.share).times(link.class_share),
        }
    }

    fn pass(&mut self, number: ChannelNumber, outflow: Flux) {
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

    /// A channel without inflow joins a class, or best effort.
    fn join(&mut self, number: ChannelNumber, class: Option<(u32, Flux)>) {
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

    /// A channel without inflow leaves its class, or best effort. A class goes with its last channel.
    fn part(&mut self, number: ChannelNumber) {
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
