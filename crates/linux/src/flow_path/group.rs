//! Nexthop objects that routes refer to.

use crate::mirror::{NEXT_HOP_HEADER, NHA_ID, NextHopObject, RTM_GETNEXTHOP};
use crate::netlink::{Connection, Message, NetlinkError};

/// A group of nexthop objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHopGroup {
    /// Number of buckets of a resilient group, which select the next hop; `None`: the hash alone does.
    pub buckets: Option<u16>,
}

impl NextHopGroup {
    /// Returns the group with this ID; `None` if the object is a single next hop, or was deleted.
    pub(super) fn find(
        netlink: &mut Connection,
        id: u32,
    ) -> Result<Option<NextHopGroup>, NetlinkError> {
        let message = Message::new(RTM_GETNEXTHOP, 0).fixed(&[0; NEXT_HOP_HEADER]).u32(NHA_ID, id);
        let answers = match netlink.ask("read a nexthop object", message) {
            Ok(answers) => answers,
            Err(error) if error.is(libc::ENOENT) => return Ok(None),
            Err(error) => return Err(error),
        };
        for message in &answers {
            if let Some(object) = NextHopObject::decode(&message?)? {
                return Ok(object.is_group().then_some(NextHopGroup { buckets: object.buckets }));
            }
        }
        Ok(None)
    }
}
