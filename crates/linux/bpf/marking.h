// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Marking: the DSCP with which a packet leaves.
//
// Routers of a core that tell packets apart by their DSCP alone serve whatever has the right one. A link towards such a core
// has a set of DSCPs (link.h): packets of claims on an aggregate get its DSCP (RFC 3175 section 2.11), and all other packets
// with one of the set get DSCP 0. ECN stays.

#ifndef EARMARK_MARKING_H
#define EARMARK_MARKING_H

#include "flow.h"
#include "link.h"

// Octets of an IPv4 header without options, and of the beginning of an IPv6 header.
#define COMPARED 20

// Writes the DSCP `mark` into a packet, or 0 if `mark` is 0 and the packet has a DSCP of the link's.
static __always_inline void write_dscp(struct __sk_buff *packet, const struct reading *read, const struct link *link, __u8 mark)
{
	__u32 here[COMPARED / 4], there[COMPARED / 4], at = link->overhead;
	__u8 octets[2];

	if (mark == read->dscp || (!mark && !(link->marks >> (read->dscp & 63) & 1)))
		return;
	// Where the network header starts is not told; behind the link's header, as a rule.
	if (bpf_skb_load_bytes(packet, at, here, sizeof(here)) || load(packet, 0, there, sizeof(there)))
		return;
#pragma clang loop unroll(full)
	for (int i = 0; i < COMPARED / 4; i++)
		if (here[i] != there[i])
			return;
	__builtin_memcpy(octets, here, sizeof(octets));
	if (read->is_ipv4) {
		__be16 before = here[0], after;

		octets[1] = mark << 2 | (octets[1] & 3);
		__builtin_memcpy(&after, octets, sizeof(after));
		bpf_l3_csum_replace(packet, at + 10, before, after, sizeof(after));
		bpf_skb_store_bytes(packet, at, octets, sizeof(octets), 0);
	} else {
		octets[0] = 0x60 | mark >> 2;
		octets[1] = mark << 6 | (octets[1] & 0x3f);
		bpf_skb_store_bytes(packet, at, octets, sizeof(octets), BPF_F_RECOMPUTE_CSUM);
	}
}

#endif
