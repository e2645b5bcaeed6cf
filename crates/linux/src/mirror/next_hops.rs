//! Nexthop objects and their groups (Linux: `nexthop.h`), which routes refer to by ID.
//!
//! When an object is deleted, the kernel announces the object and its groups, but none of the routes that use them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use earmark_core::{Hop, InterfaceId};

use super::decode::ip_address;
use crate::netlink::{Answers, NetlinkError, Received};

pub(super) const RTM_NEWNEXTHOP: u16 = 104;
pub(super) const RTM_DELNEXTHOP: u16 = 105;
pub(crate) const RTM_GETNEXTHOP: u16 = 106;
pub(super) const RTM_GETNEXTHOPBUCKET: u16 = 118;
/// Octets of `struct nhmsg`.
pub(crate) const NEXT_HOP_HEADER: usize = 8;
/// Octets of `struct nexthop_grp`.
const MEMBER: usize = 8;

pub(crate) const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_GROUP_TYPE: u16 = 3;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_RES_GROUP: u16 = 12;
const NHA_RES_BUCKET: u16 = 13;
const NHA_RES_GROUP_BUCKETS: u16 = 1;
const NHA_RES_BUCKET_INDEX: u16 = 1;
const NHA_RES_BUCKET_NH_ID: u16 = 3;
/// `NEXTHOP_GRP_TYPE_RES`.
const RESILIENT: u16 = 1;

/// A nexthop object that routes can refer to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NextHopObject {
    pub(super) id: u32,
    interface: Option<InterfaceId>,
    gateway: Option<IpAddr>,
    /// Members of a group with their weights; `None` for a single next hop.
    members: Option<Vec<(u32, u16)>>,
    /// Number of buckets of a resilient group.
    pub(crate) buckets: Option<u16>,
}

impl NextHopObject {
    pub(crate) fn decode(message: &Received<'_>) -> Result<Option<NextHopObject>, NetlinkError> {
        message.fixed(NEXT_HOP_HEADER, "nexthop")?;
        let mut object =
            NextHopObject { id: 0, interface: None, gateway: None, members: None, buckets: None };
        let (mut resilient, mut buckets) = (false, 0);
        for attribute in message.attributes(NEXT_HOP_HEADER) {
            let attribute = attribute?;
            match attribute.kind {
                NHA_ID => object.id = attribute.u32("nexthop id")?,
                NHA_OIF => object.interface = Some(InterfaceId(attribute.u32("interface")?)),
                NHA_GATEWAY => object.gateway = Some(ip_address(&attribute)?),
                NHA_GROUP => {
                    let (members, []) = attribute.value.as_chunks::<MEMBER>() else {
                        return Err(attribute.malformed("nexthop group"));
                    };
                    object.members = Some(members.iter().map(member).collect());
                }
                NHA_GROUP_TYPE => {
                    let kind = u16::from_ne_bytes(attribute.array("nexthop group type")?);
                    resilient = kind == RESILIENT;
                }
                NHA_RES_GROUP => {
                    for attribute in attribute.nested() {
                        let attribute = attribute?;
                        if attribute.kind == NHA_RES_GROUP_BUCKETS {
                            buckets = u16::from_ne_bytes(attribute.array("bucket count")?);
                        }
                    }
                }
                _ => {}
            }
        }
        object.buckets = resilient.then_some(buckets);
        Ok((object.id != 0).then_some(object))
    }

    pub(crate) fn is_group(&self) -> bool {
        self.members.is_some()
    }

    pub(super) fn has_member(&self, id: u32) -> bool {
        self.members.as_ref().is_some_and(|members| members.iter().any(|(m, _)| *m == id))
    }

    /// Returns the hop; for a group, that of its first member.
    pub(super) fn hop(&self, objects: &BTreeMap<u32, NextHopObject>) -> Option<Hop> {
        let single = match &self.members {
            None => self,
            // Groups do not nest.
            Some(members) => members.iter().find_map(|(id, _)| objects.get(id))?,
        };
        Some(Hop { interface: single.interface?, gateway: single.gateway, source: None })
    }
}

fn member(octets: &[u8; MEMBER]) -> (u32, u16) {
    let [a, b, c, d, low, high, ..] = *octets;
    (u32::from_ne_bytes([a, b, c, d]), u16::from_le_bytes([low, high]))
}

/// Returns a hash of the assignment of buckets to next hops in resilient groups.
pub(super) fn bucket_hash(answers: &Answers) -> Result<u64, NetlinkError> {
    let mut hash = DefaultHasher::new();
    for message in answers {
        let message = message?;
        message.fixed(NEXT_HOP_HEADER, "nexthop bucket")?;
        for attribute in message.attributes(NEXT_HOP_HEADER) {
            let attribute = attribute?;
            if attribute.kind != NHA_RES_BUCKET {
                continue;
            }
            for attribute in attribute.nested() {
                let attribute = attribute?;
                if matches!(attribute.kind, NHA_RES_BUCKET_INDEX | NHA_RES_BUCKET_NH_ID) {
                    attribute.value.hash(&mut hash);
                }
            }
        }
    }
    Ok(hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Message, Messages};

    fn decode(build: impl FnOnce(Message) -> Message) -> Result<NextHopObject, NetlinkError> {
        let message = Message::new(RTM_NEWNEXTHOP, 0).fixed(&[0; NEXT_HOP_HEADER]);
        let octets = build(message).finish(0);
        let message = Messages::new(&octets).next().expect("one").expect("well-formed");
        NextHopObject::decode(&message).map(|object| object.expect("has an id"))
    }

    #[test]
    fn group_has_the_hop_of_its_first_member() {
        let single =
            decode(|m| m.u32(NHA_ID, 2).u32(NHA_OIF, 7).attribute(NHA_GATEWAY, &[10, 0, 0, 2]))
                .expect("well-formed");
        let members = [9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        let group = decode(|m| {
            m.u32(NHA_ID, 10).attribute(NHA_GROUP, &members).nested(NHA_RES_GROUP, |m| {
                m.attribute(NHA_RES_GROUP_BUCKETS, &32_u16.to_ne_bytes())
            })
        })
        .expect("well-formed");
        assert!(group.is_group() && group.has_member(2) && !group.has_member(3));
        assert_eq!(group.buckets, None, "it does not say that it is resilient");
        let objects = BTreeMap::from([(2, single.clone())]);
        let hop = group.hop(&objects).expect("one member is known");
        assert_eq!((hop.interface, hop.gateway), (InterfaceId(7), Some([10, 0, 0, 2].into())));
        assert_eq!(single.hop(&objects), Some(hop));
        assert_eq!(group.hop(&BTreeMap::new()), None);
    }

    #[test]
    fn malformed_nexthop_is_refused_with_its_field() {
        for build in [
            |m: Message| m.u32(NHA_ID, 1).attribute(NHA_GROUP, &[0; 7]),
            |m: Message| m.u8(NHA_ID, 1),
            |m: Message| m.u32(NHA_ID, 1).attribute(NHA_GATEWAY, &[0; 5]),
            |m: Message| m.u32(NHA_ID, 1).u8(NHA_GROUP_TYPE, 1),
        ] {
            let error = decode(build).expect_err("malformed");
            assert!(matches!(error, NetlinkError::Malformed { .. }), "{error}");
        }
    }
}
