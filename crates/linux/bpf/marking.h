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

// Octets of an IPv4 header without options, and of the beginning of an IPv6 header, in words.
#define COMPARED 5

// Whether the packet has these octets at this offset.
static __always_inline int has_at(struct __sk_buff *packet, __u32 at, const __u32 *header)
{
	__u32 here[COMPARED];

	if (bpf_skb_load_bytes(packet, at, here, sizeof(here)))
		return 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < COMPARED; i++)
		if (here[i] != header[i])
			return 0;
	return 1;
}

// Returns the octets of the packet from the network header on, as this header says. Packets above 64 KiB (BIG TCP) say 0.
static __always_inline __u32 ip_length(const struct reading *read, const __u32 *header)
{
	const __u8 *octets = (const __u8 *)header;

	return read->is_ipv4 ? octets[2] << 8 | octets[3] : 40 + (octets[4] << 8 | octets[5]);
}

// Writes the DSCP `mark` into a packet, or 0 if `mark` is 0 and the packet has a DSCP of the link's.
static __always_inline void write_dscp(struct __sk_buff *packet, const struct reading *read, const struct link *link, __u8 mark)
{
	__u32 header[COMPARED], at = link->overhead;
	__u8 octets[2];

	if (mark == read->dscp || (!mark && !(link->marks >> (read->dscp & 63) & 1)))
		return;
	if (load(packet, 0, header, sizeof(header)))
		return;
	// The kernel does not tell programs where the network header starts, and writes at offsets from the link header only:
	// behind a link header of the known length, or as many octets before the end as the packet has.
	if (!has_at(packet, at, header)) {
		at = packet->len - ip_length(read, header);
		if (!has_at(packet, at, header))
			return;
	}
	__builtin_memcpy(octets, header, sizeof(octets));
	if (read->is_ipv4) {
		__be16 before = header[0], after;

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
