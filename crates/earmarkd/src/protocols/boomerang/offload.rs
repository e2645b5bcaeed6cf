//! Offload of Boomerang to the kernel: instructions of the engine become entries in the kernel's maps, and the kernel's
//! notifications become commands to the engine.
//!
//! An entry that cannot be added does no harm: the engine still gets the session's messages. An entry that cannot be removed
//! would do harm, so that all entries are suspended then.

mod delegations;

use std::io;
use std::net::IpAddr;

use earmark_boomerang::{
    Boomerang, Command, Event, LinkRate, Offloaded, Passed, Seen, Selector, Settled, Settlement,
};
use earmark_core::admission::LinkStatus;
use earmark_core::{Datagram, InterfaceId, Rate, RowFilter, Time};
use earmark_linux::{
    Activity, ForwardedMessages, InterfaceName, Offload, OffloadKey, OffloadSession, Share,
    ShareChange,
};
use earmark_node::{Command as NodeCommand, EngineSlots, Event as NodeEvent, Node, NodeEngine};
use earmark_wire::boomerang::Family;
use tracing::{debug, warn};

use self::delegations::Delegations;
use crate::protocol::KernelOffload;

/// State of the entries.
#[derive(Debug, Default)]
pub struct OffloadTable {
    /// Whether an entry was added since all were suspended.
    is_used: bool,
    /// Counts of messages that were reported to the engine.
    reported: ForwardedMessages,
    delegations: Delegations,
}

/// Starts offload as far as the settings ask for it and the kernel can do it.
///
/// # Errors
/// The kernel's error.
pub(super) fn start(
    share: f64,
    settings: &mut earmark_boomerang::Config,
    path: Option<&Offload>,
) -> io::Result<Option<Box<dyn KernelOffload>>> {
    let Some(path) = path else {
        if settings.offload {
            warn!(
                "the kernel cannot refresh sessions of Boomerang (boomerang.kernel): BPF is \
                 unavailable"
            );
            settings.offload = false;
        }
        return Ok(None);
    };
    let mut table = OffloadTable::default();
    if settings.offload {
        table.set_part(path, share, settings.max_refresh_interval)?;
    }
    Ok(Some(Box::new(table)))
}

impl OffloadTable {
    /// Sets the part of the reservable rate of each link that is delegated to the kernel at most, for sessions with an interval
    /// of at most `longest` seconds. With a part of zero nothing is delegated.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_part(&mut self, path: &Offload, part: f64, longest: u8) -> io::Result<()> {
        self.delegations.part = part;
        path.set_longest_interval((part > 0.0).then_some(longest))
    }

    /// Has the engine get all messages of a session. If that cannot be entered, set-up by the kernel is disabled.
    fn withhold(&mut self, path: &mut Offload, selector: &Selector) -> io::Result<()> {
        let Some(key) = key(selector) else { return Ok(()) };
        // The kernel sets up only sessions whose mask leaves nothing open.
        let shape = selector.keys().1;
        if (shape.source, shape.destination) != (32, 32)
            || !(shape.source_port && shape.destination_port && shape.protocol)
        {
            return path.remove(&key).map(drop);
        }
        let noted = path.exclude(&key);
        if noted.is_err() && self.delegations.part > 0.0 {
            warn!("there are too many sessions of Boomerang for the kernel to set up more");
            return self.set_part(path, 0.0, 0);
        }
        noted
    }

    /// Counts of the messages that the kernel forwarded without notification since the last call.
    fn passed(&mut self, path: &Offload) -> Option<Command> {
        let all = path.forwarded().ok().filter(|all| *all != self.reported)?;
        let reported = std::mem::replace(&mut self.reported, all);
        Some(Command::Passed(Passed {
            requests: all.requests - reported.requests,
            replies: all.replies - reported.replies,
            refreshed: all.refreshes - reported.refreshes,
        }))
    }
}

impl KernelOffload for OffloadTable {
    fn carry_out(
        &mut self,
        path: &mut Offload,
        now: Time,
        event: &NodeEvent,
    ) -> Option<NodeCommand> {
        let NodeEvent::Boomerang(event) = event else { return None };
        let outcome = match event {
            Event::Allowance { initiator: IpAddr::V4(initiator), interface, changes } => {
                if let Err(error) = path.allow(*initiator, *interface, *changes) {
                    debug!(%error, %initiator, "the kernel sets up no reservation for it");
                }
                return None;
            }
            Event::Offload(offloaded) => {
                self.is_used = true;
                for half in [offloaded.forward, offloaded.reverse].into_iter().flatten() {
                    self.delegations.grow(half.interface, half.rate);
                }
                if let Err(error) = enter(path, offloaded) {
                    debug!(%error, selector = %offloaded.selector, "not refreshed by the kernel");
                }
                return None;
            }
            Event::Withhold { selector } => self.withhold(path, selector),
            Event::Recall { selector } => remove(path, selector),
            Event::Expiring { selector } => match seen(path, now, selector) {
                Ok(seen) => return seen.map(|seen| NodeCommand::Boomerang(Command::Seen(seen))),
                Err(error) => Err(error),
            },
            _ => return None,
        };
        if let Err(error) = outcome {
            warn!(%error, "the kernel's sessions of Boomerang are disabled");
            self.suspend(path);
        }
        None
    }

    fn suspend(&mut self, path: &Offload) {
        self.delegations.pause();
        if self.is_used
            && let Err(error) = path.suspend_all()
        {
            warn!(%error, "the kernel refreshes sessions of Boomerang that may have moved");
        }
        self.is_used = false;
    }

    fn take_back(&mut self, path: &mut Offload) -> Vec<(InterfaceId, Rate)> {
        self.delegations.take_back(path)
    }

    fn delegate(
        &mut self,
        path: &mut Offload,
        now: Time,
        link: &dyn Fn(InterfaceId) -> Option<LinkStatus>,
    ) -> Vec<(InterfaceId, Rate)> {
        self.delegations.delegate(path, now, link)
    }

    fn next_look(&self) -> Option<Time> {
        self.delegations.next_look()
    }

    fn forget(&mut self, path: &mut Offload, interface: InterfaceId) {
        if let Err(error) = self.delegations.forget(path, interface) {
            debug!(%error, interface = %InterfaceName(interface), "what was delegated of it");
        }
    }

    fn settled(&mut self, datagram: &Datagram<'_>, done: ShareChange) -> NodeCommand {
        let outcome = match done {
            ShareChange::Reserved(share) => {
                let half = link_rate(share);
                self.delegations.take_note(half.interface, half.rate);
                Settlement::Reserved(half)
            }
            // A link without delegated bandwidth gets none back.
            ShareChange::Released(shares) => Settlement::Released(shares.map(|share| {
                let half = link_rate(share);
                (half.rate > Rate::ZERO && self.delegations.has(half.interface)).then_some(half)
            })),
        };
        NodeCommand::Boomerang(Command::Settled(Settled {
            interface: datagram.interface,
            source: datagram.source,
            destination: datagram.destination,
            message: datagram.payload.to_vec(),
            outcome,
        }))
    }

    fn catch_up(
        &mut self,
        path: &Offload,
        now: Time,
        node: &Node,
        EngineSlots { engine, slots }: &EngineSlots,
    ) -> Vec<NodeCommand> {
        let boomerang = node.engine::<Boomerang>().filter(|it| it.kind().name == *engine);
        let sessions = boomerang.into_iter().flat_map(|boomerang| {
            let end = slots.end.min(boomerang.session_slots().into());
            let at = |slot| boomerang.session_at(u32::try_from(slot).ok()?, &RowFilter::ALL);
            (slots.start..end).filter_map(at)
        });
        let offloaded = sessions.filter(|session| session.offloaded);
        let seen =
            offloaded.filter_map(|session| seen(path, now, &session.selector).ok().flatten());
        let commands = seen.map(Command::Seen).chain(self.passed(path));
        commands.map(NodeCommand::Boomerang).collect()
    }
}

/// Looks up the refreshes of a session that the kernel has seen; `None` if it does not know the session.
///
/// # Errors
/// The kernel's error.
fn seen(path: &Offload, now: Time, selector: &Selector) -> io::Result<Option<Seen>> {
    let Some(key) = key(selector) else { return Ok(None) };
    let Some(found) = path.activity(&key)? else { return Ok(None) };
    let at = |ago| Time::ZERO + now.since(Time::ZERO).saturating_sub(ago);
    // The engine knows of a setup by its copy: only what came after it is news.
    let last = |direction: &Activity| direction.ago.filter(|_| direction.refreshes > 0).map(at);
    Ok(Some(Seen {
        selector: *selector,
        interval: found.interval,
        forward: last(&found.forward),
        reverse: last(&found.reverse),
    }))
}

fn link_rate(share: Share) -> LinkRate {
    LinkRate { interface: share.interface, rate: Rate::from_bps(share.rate.into()) }
}

fn enter(path: &Offload, offloaded: &Offloaded) -> io::Result<()> {
    let (Some(key), IpAddr::V4(initiator), IpAddr::V4(far_end)) =
        (key(&offloaded.selector), offloaded.initiator, offloaded.far_end)
    else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let share = |half: LinkRate| {
        let rate = u32::try_from(half.rate.as_bps()).ok()?;
        Some(Share { interface: half.interface, rate })
    };
    let session = OffloadSession {
        initiator,
        far_end,
        arrivals: offloaded.arrivals,
        interval: offloaded.interval,
        forward: offloaded.forward.and_then(share),
        reverse: offloaded.reverse.and_then(share),
    };
    path.set(&key, &session)
}

fn remove(path: &Offload, selector: &Selector) -> io::Result<()> {
    key(selector).map_or(Ok(()), |key| path.remove(&key).map(drop))
}

/// Classifier and mask as in messages; `None` for IPv6.
fn key(selector: &Selector) -> Option<OffloadKey> {
    let (classifier, shape) = selector.keys();
    let mut key = OffloadKey { classifier: [0; 16], mask: [0; 16] };
    classifier.emit_to(&mut key.classifier).ok()?;
    shape.keys(Family::V4).ok()?.emit_to(&mut key.mask).ok()?;
    Some(key)
}
