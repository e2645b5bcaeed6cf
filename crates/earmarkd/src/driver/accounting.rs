//! The driver's part in accounting records: what it notes, and when it reads counters.

use earmark_core::{Effect, Effects, Flow, InterfaceId, Time};
use earmark_node::{Event, HostUpdate, Input};

use super::{Driver, Kernel};
use crate::history::{Accounts, flow_key};

impl<K: Kernel> Driver<K> {
    /// Keeps accounting records from now on.
    pub fn keep_accounts(&mut self, accounts: Accounts) {
        self.accounts = Some(Box::new(accounts));
    }

    /// Returns the accounting records.
    pub fn accounts(&self) -> Option<&Accounts> {
        self.accounts.as_deref()
    }

    /// Returns the accounting records for changes.
    pub(crate) fn accounts_mut(&mut self) -> Option<&mut Accounts> {
        self.accounts.as_deref_mut()
    }

    /// Reads the counters of the reservations whose turn it is, for the accounting records.
    pub fn read_counters(&mut self, now: Time) {
        if let Some(accounts) = &mut self.accounts {
            accounts.read(now, &self.inside.node, &mut self.kernel);
        }
    }

    /// Time by which [`Driver::read_counters`] must be called.
    pub fn next_counters(&self) -> Option<Time> {
        self.accounts.as_ref().map(|accounts| accounts.next_reading())
    }

    /// Closes the accounting records: the reservations stay in the kernel, or are about to be removed.
    pub fn close_accounts(&mut self, stay: bool) {
        if let Some(accounts) = &mut self.accounts {
            accounts.close(&mut self.kernel, stay);
        }
    }

    /// Notes that adopted flows are about to be removed, except for those that a claim has continued.
    pub fn note_not_adopted(&mut self, flows: impl Iterator<Item = (InterfaceId, Flow)>) {
        let Driver { inside, kernel, accounts, .. } = self;
        let Some(accounts) = accounts else { return };
        accounts.not_adopted(flows.filter_map(|(interface, flow)| {
            let counts = kernel.adopted_counted(interface, flow)?;
            Some((flow_key(&inside.node, interface, flow, None), counts))
        }));
    }

    /// Notes the ends of reservations among the effects, before they are carried out.
    pub(super) fn note_ends(&mut self, effects: &Effects<Event>) {
        let Some(accounts) = &mut self.accounts else { return };
        let ends = effects.iter().filter_map(|effect| match effect {
            Effect::Remove(claim, reason) => Some((*claim, *reason)),
            _ => None,
        });
        accounts.end(ends, &mut self.kernel);
    }

    /// Notes that the kernel still has a flow of an earlier daemon, if the input says so.
    pub(super) fn note_adopted(&mut self, input: &Input<'_>) {
        if let (
            Some(accounts),
            Input::Host(HostUpdate::Adopted { interface, flow, protocol, .. }),
        ) = (&mut self.accounts, input)
        {
            let node = &self.inside.node;
            let protocol = protocol.and_then(|protocol| node.protocol_name(protocol));
            accounts.adopted(flow_key(node, *interface, *flow, protocol));
        }
    }
}
