//! Batches of changes to netfilter: either all of them take effect, at once, or none.
//!
//! A batch is one datagram: `NFNL_MSG_BATCH_BEGIN`, the changes, `NFNL_MSG_BATCH_END`. The kernel handles it while it is
//! sent, and answers every change that it refuses, with the sequence number of its message. (Linux:
//! `net/netfilter/nfnetlink.c`.)

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::message::{Message, Messages};
use super::socket::{Connection, failed, receive_with, refusal};
use super::{NetlinkError, Refusal};
use crate::sys::socket::{set_receive_buffer, set_send_buffer};
use std::os::fd::AsFd;

/// `NFNL_MSG_BATCH_BEGIN`.
const BATCH_BEGIN: u16 = 0x10;
/// `NFNL_MSG_BATCH_END`.
const BATCH_END: u16 = 0x11;
/// Receive buffer for the answers to a batch: some 20 000 refusals, as the kernel counts them.
const ANSWERS: i32 = 32 << 20;

impl Connection {
    /// Makes many changes of a netfilter subsystem (`NFNL_SUBSYS_NFTABLES`, ...) at once. Returns the changes that the
    /// kernel has refused, by their position, in order; if there is one, no change was made.
    ///
    /// # Errors
    /// The kernel refused the batch as a whole, or the socket failed.
    pub fn batch(
        &mut self,
        doing: &'static str,
        subsystem: u8,
        changes: &[Message],
    ) -> Result<Vec<(usize, NetlinkError)>, NetlinkError> {
        let first = self.sequence.wrapping_add(1);
        let mut octets = Vec::new();
        let flags = libc::NLM_F_REQUEST as u16;
        let edge = |kind| Message::new(kind, flags).fixed(&[0, 0, 0, subsystem]);
        octets.extend(edge(BATCH_BEGIN).finish(first));
        let mut last = first;
        for (position, change) in changes.iter().enumerate() {
            last = last.wrapping_add(1);
            // Success is silent: an acknowledgement of the last change proves that the batch was handled.
            let acknowledge = position + 1 == changes.len();
            let flags = if acknowledge { flags | libc::NLM_F_ACK as u16 } else { flags };
            octets.extend(change.clone().with_flags(flags).finish(last));
        }
        octets.extend(edge(BATCH_END).finish(last.wrapping_add(1)));
        self.sequence = last.wrapping_add(1);
        self.make_room(octets.len())?;
        self.transmit(&octets)?;
        self.collect_refusals(doing, first, last)
    }

    /// Sets buffers that hold a batch and its answers: the kernel takes a batch only as one datagram.
    fn make_room(&self, octets: usize) -> Result<(), NetlinkError> {
        let socket = self.socket.as_fd();
        let room = i32::try_from(octets).unwrap_or(i32::MAX / 2).saturating_add(1 << 12);
        let sized = set_send_buffer(socket, room);
        sized
            .and_then(|()| set_receive_buffer(socket, ANSWERS))
            .map_err(|source| NetlinkError::Socket { doing: "set the size of the buffers", source })
    }

    /// Reads the answers, which all wait already, to the messages from `first`, which begins the batch, to `last`.
    fn collect_refusals(
        &mut self,
        doing: &'static str,
        first: u32,
        last: u32,
    ) -> Result<Vec<(usize, NetlinkError)>, NetlinkError> {
        let (mut refused, mut lost, mut is_handled) = (Vec::new(), false, first == last);
        loop {
            let length = match receive_with(&self.socket, &mut self.buffer, RecvFlags::DONTWAIT) {
                Ok(length) => length,
                Err(Errno::AGAIN) => break,
                // More refusals than the buffer holds; the caller knows some of them.
                Err(Errno::NOBUFS) => {
                    lost = true;
                    continue;
                }
                Err(error) => return Err(failed("receive the answers to a batch", error)),
            };
            for message in Messages::new(&self.buffer[..length]) {
                let message = message?;
                let position = message.sequence.wrapping_sub(first);
                if i32::from(message.kind) != libc::NLMSG_ERROR
                    || position > last.wrapping_sub(first)
                {
                    continue;
                }
                is_handled |= message.sequence == last;
                match refusal(&message)? {
                    // Of the batch itself: out of memory, an unknown subsystem, no privilege.
                    Some(refusal) if position == 0 => return Err(refusal.of(doing)),
                    Some(refusal) => refused.push((position as usize - 1, refusal.of(doing))),
                    None => {}
                }
            }
        }
        if refused.is_empty() && (lost || !is_handled) {
            let errno = if lost { libc::ENOBUFS } else { libc::EIO };
            return Err(Refusal { errno, explanation: None }.of(doing));
        }
        refused.sort_by_key(|(position, _)| *position);
        refused.dedup_by_key(|(position, _)| *position);
        Ok(refused)
    }
}
