//! Announcements of changes to traffic control that others make.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};

use earmark_core::InterfaceId;

use super::kernel::HEADER;
use super::{TcError, TrafficControl};
use crate::netlink::{Heard, NetlinkError, Subscription};

/// Room for announcements that wait, octets.
const ROOM: i32 = 1 << 20;
/// Datagrams that are read in one go.
const BATCH: usize = 64;

/// Listens for changes of qdiscs, classes and filters. What [`TrafficControl`] does itself is not announced here, so that
/// nothing wakes up for it.
#[derive(Debug)]
pub struct Monitor {
    subscription: Subscription,
}

/// What others have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Something of these interfaces.
    Interfaces(BTreeSet<InterfaceId>),
    /// More than could be announced.
    Anything,
}

impl TrafficControl {
    /// Listens for changes by others from now on.
    ///
    /// # Errors
    /// The socket could not be opened.
    pub fn monitor(&mut self) -> Result<Monitor, TcError> {
        let mut ports = vec![self.netlink.port()?];
        ports.extend(self.table.port()?);
        let subscription = Subscription::open(&[libc::RTNLGRP_TC], ROOM)?;
        subscription.ignore(&ports)?;
        Ok(Monitor { subscription })
    }
}

impl Monitor {
    /// What others have changed since the last call; bounded in work, so that the rest may come with the next call.
    ///
    /// # Errors
    /// The socket failed.
    pub fn changed(&mut self) -> Result<Changed, NetlinkError> {
        let mut interfaces = BTreeSet::new();
        for _ in 0..BATCH {
            match self.subscription.receive()? {
                Heard::Nothing => break,
                Heard::Lost => return Ok(Changed::Anything),
                Heard::Messages(messages) => {
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
