//! Announcements of changes to traffic control by other programs.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};

use earmark_core::InterfaceId;

use super::kernel::HEADER;
use super::{TcError, TrafficControl};
use crate::netlink::{Announcements, NetlinkError, Subscription};

/// Receive buffer for announcements, octets.
const RECEIVE_BUFFER: i32 = 1 << 20;
/// Datagrams read in one call.
const BATCH: usize = 64;

/// Receives changes of qdiscs, classes and filters. The changes of [`TrafficControl`] itself are filtered out, so that
/// they do not wake the daemon.
#[derive(Debug)]
pub struct Monitor {
    subscription: Subscription,
}

/// Changes by other programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Changes on these interfaces.
    Interfaces(BTreeSet<InterfaceId>),
    /// Unknown changes: announcements were lost.
    Anything,
}

impl TrafficControl {
    /// Subscribes to changes by others from now on.
    ///
    /// # Errors
    /// The socket could not be opened.
    pub fn monitor(&mut self) -> Result<Monitor, TcError> {
        let mut ports = vec![self.netlink.port()?];
        ports.extend(self.table.port()?);
        let subscription = Subscription::open(&[libc::RTNLGRP_TC], RECEIVE_BUFFER)?;
        subscription.ignore(&ports)?;
        Ok(Monitor { subscription })
    }
}

impl Monitor {
    /// Returns the changes by others since the last call. The work is bounded; further changes come with the next call.
    ///
    /// # Errors
    /// The socket failed.
    pub fn changed(&mut self) -> Result<Changed, NetlinkError> {
        let mut interfaces = BTreeSet::new();
        for _ in 0..BATCH {
            match self.subscription.receive()? {
                Announcements::None => break,
                Announcements::Lost => return Ok(Changed::Anything),
                Announcements::Messages(messages) => {
                    for message in messages {
                        let fixed = message?;
                        let fixed = fixed.fixed(HEADER, "traffic control")?;
                        interfaces.insert(InterfaceId(super::kernel::u32_at(fixed, 4)));
                    }
                }
            }
        }
        Ok(Changed::Interfaces(interfaces))
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.subscription.as_fd()
    }
}
