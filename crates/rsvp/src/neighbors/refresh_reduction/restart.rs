//! Peers that restart: what Hello tells of them, and their summary refreshes meanwhile (RFC 3473 sections 9.3 to 9.5).

use core::time::Duration;

use earmark_core::Time;
use earmark_wire::rsvp::{Capability, HelloKind};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::neighbors::graceful_restart::{Held, NeighborKey, Phase};
use crate::state::Index;

impl Rsvp {
    /// Begins to wait for a silent neighbour that supports state recovery, instead of losing it: Hellos have Dst_Instance 0
    /// and the same Src_Instance (section 9.3). Returns whether its state is kept.
    pub(super) fn await_return<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) -> bool {
        let times = self.config.hello.restart;
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return false };
        let (key, hello) = ((peer.interface, peer.address), &mut peer.hello);
        let Some(restart_cap) = hello.restart_cap else { return false };
        let before = (hello.neighbor_instance, hello.held);
        let held = self.graceful_restart.await_return(cx.now, key, restart_cap, &times, before);
        let Some(held) = held else { return false };
        (hello.neighbor_instance, hello.wrong_instances) = (0, 0);
        self.hold(cx, index, held);
        true
    }

    /// Begins the recovery of a neighbour that has restarted with its state in the data plane (section 9.5.3). Returns whether
    /// its state is kept.
    pub(super) fn begin_recovery<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) -> bool {
        let times = self.config.hello.restart;
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return false };
        let (key, hello) = ((peer.interface, peer.address), &peer.hello);
        let Some(restart_cap) = hello.restart_cap else { return false };
        let is_desired = hello.capability & Capability::RECOVERY_PATH_DESIRED != 0;
        let options = (is_desired, hello.held);
        let held = self.graceful_restart.begin_recovery(cx.now, key, restart_cap, &times, options);
        let Some(held) = held else { return false };
        // No summary refresh may list what the neighbour has lost; the walk over all senders sends it.
        peer.summary_list.take();
        peer.to_resend.clear();
        self.hold(cx, index, held);
        true
    }

    /// Reports until when state of a neighbour is kept.
    fn hold<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        held: Held,
    ) {
        self.graceful_restart.arm(&mut self.store.timers, Time::ZERO);
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        peer.hello.held = held;
        let (interface, address) = (peer.interface, peer.address);
        let kept_ms = held.until.since(cx.now).as_millis() as u64;
        cx.out.notify(Event::NeighborRestarting { interface, address, kept_ms });
    }

    /// Handles the return of a neighbour with the same Src_Instance: all state shared with it is refreshed, summaries first
    /// (section 9.4).
    pub(super) fn restore_channel(&mut self, now: Time, index: Index) {
        let Some(peer) = self.refresh_reduction.peers.get(index) else { return };
        let key = (peer.interface, peer.address);
        let recovery_ms = peer.hello.restart_cap.map_or(0, |restart_cap| restart_cap.recovery_ms);
        self.graceful_restart.restore(now, key, recovery_ms);
        self.graceful_restart.arm(&mut self.store.timers, Time::ZERO);
        self.begin_summaries(now, index, Duration::from_millis(recovery_ms.into()));
    }

    /// Handles a new epoch of a peer. If it supports state recovery the answer to a Hello tells what it has lost; all is sent
    /// again otherwise.
    pub(super) fn epoch_changed<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let Some(peer) = self.refresh_reduction.peers.get(index) else { return };
        let restart = self.graceful_restart.get((peer.interface, peer.address));
        if restart.is_some_and(|restart| restart.phase == Phase::Recovering) {
            return;
        }
        let asks = self.config.hello.restart.restart_time.and(peer.hello.restart_cap).is_some()
            && self.config.hello.interval.is_some();
        match asks {
            true => self.send_hello(cx, index, HelloKind::Request, None),
            false => self.resend_all(cx.now, index),
        }
    }

    /// Handles the end of the time for which state of a neighbour was kept: one that has not returned is lost.
    pub(crate) fn end_restart<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        key: NeighborKey,
    ) {
        let is_silent = self.graceful_restart.is_restarting(key);
        self.graceful_restart.remove(key);
        let index = self.refresh_reduction.peers.find(key.0, key.1).filter(|_| is_silent);
        if let Some(index) = index {
            self.lose_neighbor(cx, index);
        }
    }
}
