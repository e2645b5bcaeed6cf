// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Control traffic: without it neighbours, routes and reservations are lost, so it must not wait behind a full queue.
//
// Control traffic of this host is not limited. Forwarded control traffic, and packets that are control traffic by their DSCP
// only, have a bucket on each link: a sender that marks everything CS6 gets no more than that.

#ifndef EARMARK_CONTROL_H
#define EARMARK_CONTROL_H

#include "flow.h"

#define DSCP_CS6 48
#define DSCP_CS7 56

#define PROTOCOL_IGMP 2
#define PROTOCOL_OSPF 89
#define PROTOCOL_PIM 103
#define PROTOCOL_VRRP 112

#define PORT_BGP 179
#define PORT_RIP 520
#define PORT_RIPNG 521
#define PORT_LDP 646
#define PORT_BFD 3784
#define PORT_BFD_ECHO 3785
#define PORT_BFD_MULTIHOP 4784
#define PORT_BFD_LAG 6784

// Neighbour discovery (RFC 4861, types 133 to 137, which no router forwards, because their hop limit must be 255) and multicast
// listener discovery (RFC 2710, RFC 3810).
static __always_inline int is_icmpv6_control(struct __sk_buff *packet, const struct reading *read)
{
	__u8 hop_limit, type;

	if (!read->transport || load(packet, read->transport, &type, 1))
		return 0;
	if ((type >= 130 && type <= 132) || type == 143)
		return 1;
	return type >= 133 && type <= 137 && !load(packet, 7, &hop_limit, 1) && hop_limit == 255;
}

static __always_inline int is_control_port(__u8 protocol, __be16 port)
{
	if (protocol == IPPROTO_TCP)
		return port == bpf_htons(PORT_BGP) || port == bpf_htons(PORT_LDP);
	return port == bpf_htons(PORT_BFD) || port == bpf_htons(PORT_BFD_ECHO) || port == bpf_htons(PORT_BFD_MULTIHOP) ||
	       port == bpf_htons(PORT_BFD_LAG) || port == bpf_htons(PORT_LDP) || port == bpf_htons(PORT_RIP) ||
	       port == bpf_htons(PORT_RIPNG);
}

// By protocol and port.
static __always_inline int is_control_protocol(struct __sk_buff *packet, const struct reading *read)
{
	switch (read->flow.protocol) {
	case IPPROTO_UDP:
	case IPPROTO_TCP:
		// Sessions of BGP and LDP have any other port.
		return is_control_port(read->flow.protocol, read->ports[1]) ||
		       (read->flow.protocol == IPPROTO_TCP && is_control_port(IPPROTO_TCP, read->ports[0]));
	case IPPROTO_ICMPV6:
		return !read->is_ipv4 && is_icmpv6_control(packet, read);
	case PROTOCOL_IGMP:
		return read->is_ipv4;
	case PROTOCOL_RSVP:
	case PROTOCOL_RSVP_E2E_IGNORE:
	case PROTOCOL_OSPF:
	case PROTOCOL_PIM:
	case PROTOCOL_VRRP:
		return 1;
	default:
		return 0;
	}
}

static __always_inline int is_control_dscp(const struct reading *read)
{
	return read->dscp == DSCP_CS6 || read->dscp == DSCP_CS7;
}

#endif
