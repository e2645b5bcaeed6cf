//! The packet filter: pinholes of a firewall and bindings of an address translator, enforced by nf_tables.
//!
//! All rules are in one table of our own, `inet earmark`, which a comment marks; other tables are never touched. A pinhole is
//! one element of a set, a translation one element of a map beside it, so that installing and removing take constant
//! time. There is a set for each shape of key (which of source, protocol, ports, SPI and ICMP type a rule gives), made
//! when first needed. An element ends by itself when its rule does: a daemon that dies leaves no pinhole open for longer.
//!
//! Packets are looked up by the first packet of their connection, as connection tracking remembers it: replies, ICMP errors and
//! translated packets belong to the rule of the packets that they answer. Denied packets are dropped, then allowed packets
//! are forwarded, then every packet that arrives through a guarded interface is dropped if it begins a connection or has
//! none, and every reply that leaves through one is: the pinhole of its connection is gone. All else is forwarded. Only the
//! narrowest of several translations of a packet is made.
//!
//! The tables of one hook are independent: what our table forwards another may drop, and what our table drops no other can
//! forward.
//!
//! This state outlives the daemon. The next [`PacketFilter::open`] returns the rules that are left, with their ends.
//! [`PacketFilter::reconcile`] repairs what other programs have changed.

mod adoption;
mod answers;
mod change;
mod connections;
mod error;
mod expression;
mod messages;
mod reconcile;
mod rule_table;
mod ruleset;
mod set;
mod shape;

use std::collections::BTreeSet;

use earmark_core::{FilteredPackets, Time};

use crate::clock::Clock;
use crate::netlink::{Connection, Message, NetlinkError};
use answers::Table;
use rule_table::RuleTable;
use set::SetId;

pub use adoption::{Adoption, Replaced};
pub use answers::FilterStatistics;
pub use error::PacketFilterError;
pub use reconcile::FilterReconciliation;

/// Most rules, unless the settings say otherwise.
pub const DEFAULT_LIMIT: u32 = 1_000_000;

/// Settings of the packet filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFilterSettings {
    /// Names of interfaces behind which nobody may begin a connection without a pinhole. They need not exist.
    pub guard: BTreeSet<String>,
    /// Most rules.
    pub limit: u32,
}

impl PacketFilterSettings {
    /// Creates settings that guard some interfaces, with the default limit.
    pub fn new<'a>(guard: impl IntoIterator<Item = &'a str>) -> PacketFilterSettings {
        let guard = guard.into_iter().map(str::to_owned).collect();
        PacketFilterSettings { guard, limit: DEFAULT_LIMIT }
    }

    fn check(&self) -> Result<(), PacketFilterError> {
        let is_valid = |name: &&String| {
            (1..messages::NAME_LENGTH).contains(&name.len()) && !name.contains('\0')
        };
        match self.guard.iter().find(|name| !is_valid(name)) {
            Some(name) => Err(PacketFilterError::InterfaceName { name: name.clone() }),
            None => Ok(()),
        }
    }
}

/// The packet filter of one network namespace: that of the thread that opened it.
#[derive(Debug)]
pub struct PacketFilter {
    netlink: Connection,
    /// Clock of the ends of rules.
    clock: Clock,
    settings: PacketFilterSettings,
    /// Sets that the table has.
    sets: BTreeSet<SetId>,
    rules: RuleTable,
    /// Whether the kernel changes the lifetime of an element in place, which keeps its counters.
    extends_lifetimes: bool,
    /// Generation of the namespace's rules if nobody else has changed them since they were last compared.
    generation: Option<u32>,
    /// Earliest time of the next comparison of all elements.
    elements_due: Time,
    /// Chains and rules in the kernel's octets after they were made.
    made: Vec<u8>,
    /// Repairs that no reconciliation has reported yet.
    repaired: FilterReconciliation,
}

impl PacketFilter {
    /// Returns the number of rules, including those that have ended since the last call.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.len() == 0
    }

    /// Returns the counters of a rule since its installation; `None` if there is no such rule. Replacing a rule by another
    /// action resets them, and before Linux 6.12 installing it again does, too.
    ///
    /// # Errors
    /// The kernel refuses to answer.
    pub fn statistics(
        &mut self,
        packets: &FilteredPackets,
    ) -> Result<Option<FilterStatistics>, PacketFilterError> {
        // The pinhole is the last element of a rule.
        let pinhole = self.rules.get(packets).and_then(|rule| rule.elements().pop());
        let Some(pinhole) = pinhole else { return Ok(None) };
        Ok(answers::element(&mut self.netlink, &pinhole)?.map(|found| found.counters))
    }

    /// Guards other interfaces from now on; rules stay.
    ///
    /// # Errors
    /// A name is invalid, or the kernel refuses.
    pub fn guard(&mut self, guard: BTreeSet<String>) -> Result<(), PacketFilterError> {
        let settings = PacketFilterSettings { guard, ..self.settings.clone() };
        settings.check()?;
        self.settings = settings;
        self.make("guard interfaces", &messages::guarded_interfaces(&self.settings.guard, 1))
    }

    /// Removes the table.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn teardown(mut self) -> Result<(), PacketFilterError> {
        remove_table(&mut self.netlink).map(drop)
    }

    /// Makes changes that belong to no rule: all or none.
    fn make(&mut self, doing: &'static str, changes: &[Message]) -> Result<(), PacketFilterError> {
        let refused = self.batch(doing, changes)?;
        refused.into_iter().next().map_or(Ok(()), |(_, error)| Err(error.into()))
    }

    /// Sends a batch; follows the generation as long as nobody else raises it. Returns the refused changes by position; if there
    /// is one, none was made.
    fn batch(
        &mut self,
        doing: &'static str,
        changes: &[Message],
    ) -> Result<Vec<(usize, NetlinkError)>, NetlinkError> {
        let before = answers::generation(&mut self.netlink)?;
        let outcome = self.netlink.batch(doing, messages::SUBSYSTEM, changes);
        let after = answers::generation(&mut self.netlink).ok();
        // A batch raises it by one, unless it is refused or has no effect.
        let most = u32::from(outcome.as_ref().is_ok_and(Vec::is_empty));
        let is_own = self.generation == Some(before);
        self.generation = after.filter(|after| is_own && after.wrapping_sub(before) <= most);
        outcome
    }
}

/// Removes the packet filter that a daemon has left in the network namespace of the calling thread; returns whether there was
/// one. A table of our name that another program has made is left alone.
///
/// Needs CAP_NET_ADMIN. No daemon may run in the namespace, which [`crate::NamespaceClaim`] ensures.
///
/// # Errors
/// The kernel refuses.
pub fn clear() -> Result<bool, PacketFilterError> {
    let mut netlink = match Connection::open_netfilter() {
        // Without nf_tables there is nothing to remove.
        Err(error) if error.errno() == Some(libc::EPROTONOSUPPORT) => return Ok(false),
        netlink => netlink?,
    };
    match remove_table(&mut netlink) {
        Err(error) if error.errno() == libc::EINVAL as u16 => Ok(false),
        outcome => outcome,
    }
}

fn remove_table(netlink: &mut Connection) -> Result<bool, PacketFilterError> {
    let Table::Ours(_) = answers::table(netlink)? else { return Ok(false) };
    let changes = [messages::delete_table()];
    let refused = netlink.batch("remove the packet filter", messages::SUBSYSTEM, &changes)?;
    match refused.into_iter().next() {
        Some((_, error)) if !error.is(libc::ENOENT) => Err(error.into()),
        refused => Ok(refused.is_none()),
    }
}
