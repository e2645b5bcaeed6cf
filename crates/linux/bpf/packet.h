// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Reading from a packet, whether its octets are in one piece or not.

#ifndef EARMARK_PACKET_H
#define EARMARK_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PROTOCOL_RSVP 46
#define PROTOCOL_RSVP_E2E_IGNORE 134
// ea4d:3, as in the module `plan` of traffic control. An interceptor marks with it messages that the kernel forwards by
// itself: a packet keeps its mark while it is forwarded, but not its priority.
#define SIGNALLING_CLASS 0xea4d0003u
// Octets, more than enough for the headers of the link, of IP with its extensions, and the ports.
#define MAX_HEADERS 256
// TCX_NEXT and TCX_DROP, by their older names: headers before Linux 6.6 lack the new ones.
#define NEXT_PROGRAM TC_ACT_UNSPEC
#define DROP TC_ACT_SHOT

// Octets from the network header on. A packet that is forwarded need not be in one piece: drivers may leave all but its
// first headers in pages (virtio-net does), where only bpf_skb_pull_data fetches them from.
static __always_inline int load(struct __sk_buff *packet, __u32 offset, void *to, __u32 size)
{
	__u32 headers = packet->len < MAX_HEADERS ? packet->len : MAX_HEADERS;

	if (!bpf_skb_load_bytes_relative(packet, offset, to, size, BPF_HDR_START_NET))
		return 0;
	if (bpf_skb_pull_data(packet, headers))
		return -1;
	return bpf_skb_load_bytes_relative(packet, offset, to, size, BPF_HDR_START_NET);
}

#endif
