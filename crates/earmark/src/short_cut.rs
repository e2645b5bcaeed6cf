//! Refreshes of Boomerang by the kernel: what the engine tells its driver about them, as entries of the kernel's map.
//!
//! An entry that cannot be made is no loss: the session's messages come to the engine as before. One that cannot be taken
//! out would be, so that then all of them are put out of force.

use std::io;

use earmark_boomerang::{Event, LinkRate, Offloaded, Seen, Selector};
use earmark_core::Time;
use earmark_linux::{FastKey, FastPath, FastSession, Share};
use earmark_wire::boomerang::Family;
use tracing::{debug, warn};

/// What is known of the entries.
#[derive(Debug, Default)]
pub(crate) struct ShortCut {
    /// Whether any has been made since all were put out of force.
    is_used: bool,
    /// How many refreshes the engine knows of.
    told: u64,
}

impl ShortCut {
    /// Does what an event says; gives the answer to a question, if there is one.
    pub(crate) fn carry_out(&mut self, path: &FastPath, now: Time, event: &Event) -> Option<Seen> {
        let outcome = match event {
            Event::Offload(offloaded) => {
                self.is_used = true;
                if let Err(error) = enter(path, offloaded) {
                    debug!(%error, selector = %offloaded.selector, "not refreshed by the kernel");
                }
                return None;
            }
            Event::Recall { selector } => remove(path, selector),
            Event::Expiring { selector } => match self.seen(path, now, selector) {
                Ok(seen) => return seen,
                Err(error) => Err(error),
            },
            _ => return None,
        };
        if let Err(error) = outcome {
            warn!(%error, "the kernel's sessions of Boomerang are put out of force");
            self.suspend(path);
        }
        None
    }

    /// Has the next message of each session come to the engine: routes or interfaces may have changed.
    pub(crate) fn suspend(&mut self, path: &FastPath) {
        if self.is_used
            && let Err(error) = path.suspend_all()
        {
            warn!(%error, "the kernel refreshes sessions of Boomerang that may have moved");
        }
        self.is_used = false;
    }

    fn seen(
        &mut self,
        path: &FastPath,
        now: Time,
        selector: &Selector,
    ) -> io::Result<Option<Seen>> {
        let Some(key) = key(selector) else { return Ok(None) };
        let Some(found) = path.seen(&key)? else { return Ok(None) };
        let at = |ago| Time::ZERO + now.since(Time::ZERO).saturating_sub(ago);
        let refreshes = path.refreshes();
        Ok(Some(Seen {
            selector: *selector,
            interval: found.interval,
            forward: found.forward.ago.map(at),
            reverse: found.reverse.ago.map(at),
            refreshes: refreshes - std::mem::replace(&mut self.told, refreshes),
        }))
    }
}

fn enter(path: &FastPath, offloaded: &Offloaded) -> io::Result<()> {
    let (Some(key), std::net::IpAddr::V4(initiator)) =
        (key(&offloaded.selector), offloaded.initiator)
    else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let share = |half: LinkRate| {
        let rate = u32::try_from(half.rate.as_bps()).ok()?;
        Some(Share { interface: half.interface, rate })
    };
    let session = FastSession {
        initiator,
        interval: offloaded.interval,
        forward: offloaded.forward.and_then(share),
        reverse: offloaded.reverse.and_then(share),
    };
    path.set(&key, &session)
}

fn remove(path: &FastPath, selector: &Selector) -> io::Result<()> {
    key(selector).map_or(Ok(()), |key| path.remove(&key).map(drop))
}

/// Classifier and mask as messages have them; `None` for IPv6.
fn key(selector: &Selector) -> Option<FastKey> {
    let (classifier, shape) = selector.keys();
    let mut key = FastKey { classifier: [0; 16], mask: [0; 16] };
    classifier.emit_to(&mut key.classifier).ok()?;
    shape.keys(Family::V4).ok()?.emit_to(&mut key.mask).ok()?;
    Some(key)
}
