// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The classifier: finds the reservation of every packet that leaves, and writes its class into the packet's priority,
// where HTB looks first.
//
// One hash map holds the flows of all interfaces. A packet is looked up eight times at most, most specific first: with
// its source and with any; each with both ports, with the destination port, with the source port, and without ports. The
// first hit counts.
// An IPv6 packet with a flow label is looked up four times more: flows may name the label in place of the source port,
// and come behind those that name the source port.
//
// What none of them finds may lie in a range of flows. Ranges are in a map of their own, by address and ports under a mask,
// and there is a list of the masks that occur, the narrowest first (ranges.h).
//
// What has no ports to look at: protocols other than TCP, UDP, DCCP, SCTP and UDP-Lite; fragments after the first
// (whose ports are in the first one). They can be reserved for without ports only.
//
// IPv6 extension headers are passed over, as many as MOST_EXTENSIONS: hop-by-hop, routing, destination options,
// authentication, and the fragment header of a first fragment. The protocol is the one behind them. A packet with more
// of them has the protocol number of the next one, and no ports.
//
// What a flow leads to is a class of its own, or a token bucket that decides whether the packet goes into the class that
// all such flows share (bucket.h).
//
// Packets of protocols 46 (RSVP) and 134 (RSVP that only the edges of a core look at), those that our own sockets or
// interceptors have marked already, and what neighbours ask and tell each other about their addresses go to the signalling
// class: with a full queue in front of ARP, the next hop
// would be forgotten, and reservations with it.
// Every other packet gets priority 0, and thereby the default class: nobody chooses a class by himself.
//
// Rebuild with build.sh beside this file; the loader reads the section "classifier" and fills in the map.

#include "bucket.h"
#include "packet.h"
#include "ranges.h"

#define MOST_EXTENSIONS 6

// A flow leads to a class of ours, or to a bucket with this mark in place of our major number.
#define MAJOR_NUMBER 0xea4du
#define BUCKET_MARK 0x80000000u

// Made by the loader: struct flow to class or bucket (__u32).
extern const char flows;

static __always_inline int read_ipv4(struct __sk_buff *packet, struct flow *flow, __u32 *transport)
{
	__u8 header[20];

	if (load(packet, 0, header, sizeof(header)))
		return -1;
	flow->destination[10] = flow->destination[11] = 0xff;
	flow->source[10] = flow->source[11] = 0xff;
	__builtin_memcpy(flow->source + 12, header + 12, 4);
	__builtin_memcpy(flow->destination + 12, header + 16, 4);
	flow->protocol = header[9];
	// A fragment offset other than 0: what follows the header is not the start of the transport's.
	if ((header[6] & 0x1f) || header[7])
		*transport = 0;
	else
		*transport = (header[0] & 0x0f) * 4;
	return 0;
}

// Passes over extension headers: where the transport's header begins, or 0 where that is in another fragment.
static __always_inline int pass_extensions(struct __sk_buff *packet, struct flow *flow, __u32 *transport)
{
	__u8 header[4];
	__u32 at = 40;

	*transport = at;
#pragma clang loop unroll(full)
	for (int i = 0; i < MOST_EXTENSIONS; i++) {
		__u8 kind = flow->protocol;

		if (kind != IPPROTO_HOPOPTS && kind != IPPROTO_ROUTING && kind != IPPROTO_DSTOPTS && kind != IPPROTO_AH &&
		    kind != IPPROTO_FRAGMENT)
			return 0;
		if (load(packet, at, header, sizeof(header)))
			return -1;
		flow->protocol = header[0];
		if (kind == IPPROTO_FRAGMENT) {
			at += 8;
			// A fragment offset other than 0.
			if (header[2] || (header[3] & 0xf8)) {
				*transport = 0;
				return 0;
			}
		} else if (kind == IPPROTO_AH) {
			at += (header[1] + 2) * 4;
		} else {
			at += (header[1] + 1) * 8;
		}
		*transport = at;
	}
	return 0;
}

static __always_inline int read_ipv6(struct __sk_buff *packet, struct flow *flow, __u32 *transport, __u8 *label)
{
	__u8 header[40];

	if (load(packet, 0, header, sizeof(header)))
		return -1;
	__builtin_memcpy(flow->source, header + 8, 16);
	__builtin_memcpy(flow->destination, header + 24, 16);
	flow->protocol = header[6];
	label[0] = header[1] & 0x0f;
	label[1] = header[2];
	label[2] = header[3];
	return pass_extensions(packet, flow, transport);
}

static __always_inline int has_ports(__u8 protocol)
{
	return protocol == IPPROTO_UDP || protocol == IPPROTO_TCP || protocol == IPPROTO_DCCP ||
	       protocol == IPPROTO_SCTP || protocol == IPPROTO_UDPLITE;
}

// Without a label, or with this one.
static __always_inline __u32 look_up_label(struct flow *flow, const __u8 *label)
{
	__u32 *class;

	if (label[0] || label[1] || label[2]) {
		__builtin_memcpy(flow->label, label, sizeof(flow->label));
		class = bpf_map_lookup_elem((void *)&flows, flow);
		if (class)
			return *class;
		__builtin_memset(flow->label, 0, sizeof(flow->label));
	}
	class = bpf_map_lookup_elem((void *)&flows, flow);
	return class ? *class : 0;
}

// With the ports given, with the destination port, with the source port, without ports.
static __always_inline __u32 look_up(struct flow *flow, const __be16 *ports, const __u8 *label)
{
	__u32 *class;
	__u32 found;

	flow->destination_port = ports[1];
	if (ports[1]) {
		flow->source_port = ports[0];
		class = bpf_map_lookup_elem((void *)&flows, flow);
		if (class)
			return *class;
		flow->source_port = 0;
		found = look_up_label(flow, label);
		if (found)
			return found;
		flow->destination_port = 0;
	}
	if (ports[0]) {
		flow->source_port = ports[0];
		class = bpf_map_lookup_elem((void *)&flows, flow);
		if (class)
			return *class;
		flow->source_port = 0;
	}
	return look_up_label(flow, label);
}

// Whether a packet is of IPv6's neighbour discovery (RFC 4861): ICMPv6 types 133 to 137, which no router sends on, since
// their hop limit must be 255 when they arrive.
static __always_inline int is_neighbor_discovery(struct __sk_buff *packet, const struct flow *flow, __u32 transport)
{
	__u8 hop_limit, type;

	if (flow->protocol != IPPROTO_ICMPV6 || load(packet, 7, &hop_limit, 1) || load(packet, transport, &type, 1))
		return 0;
	return transport && hop_limit == 255 && type >= 133 && type <= 137;
}

SEC("classifier")
int earmark_egress(struct __sk_buff *packet)
{
	struct flow flow = {};
	struct flow whole;
	__be16 ports[2] = {};
	__u8 label[3] = {};
	__u32 transport = 0;
	__u32 class;
	int failed;

	if (packet->mark == SIGNALLING_CLASS)
		packet->priority = SIGNALLING_CLASS;
	if (packet->priority == SIGNALLING_CLASS)
		return NEXT_PROGRAM;
	if (packet->protocol == bpf_htons(ETH_P_ARP)) {
		packet->priority = SIGNALLING_CLASS;
		return NEXT_PROGRAM;
	}
	flow.interface = packet->ifindex;
	if (packet->protocol == bpf_htons(ETH_P_IP))
		failed = read_ipv4(packet, &flow, &transport);
	else if (packet->protocol == bpf_htons(ETH_P_IPV6))
		failed = read_ipv6(packet, &flow, &transport, label);
	else
		failed = -1;
	if (failed) {
		packet->priority = 0;
		return NEXT_PROGRAM;
	}
	if (flow.protocol == PROTOCOL_RSVP || flow.protocol == PROTOCOL_RSVP_E2E_IGNORE ||
	    (packet->protocol == bpf_htons(ETH_P_IPV6) && is_neighbor_discovery(packet, &flow, transport))) {
		packet->priority = SIGNALLING_CLASS;
		return NEXT_PROGRAM;
	}
	if (transport && has_ports(flow.protocol))
		load(packet, transport, ports, sizeof(ports));
	whole = flow;
	whole.destination_port = ports[1];
	class = look_up(&flow, ports, label);
	if (!class) {
		__builtin_memset(flow.source, 0, sizeof(flow.source));
		class = look_up(&flow, ports, label);
	}
	if (!class)
		class = look_up_range(&whole, packet->protocol == bpf_htons(ETH_P_IP) ? RANGE_OF_IPV4 : RANGE_OF_IPV6);
	if (class && class >> 16 != MAJOR_NUMBER)
		class = police(packet, class & ~BUCKET_MARK);
	packet->priority = class;
	return NEXT_PROGRAM;
}
