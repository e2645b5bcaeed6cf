// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// Which packets are for a node: those with router alert, and those whose destination it is.

#ifndef EARMARK_DESTINATION_H
#define EARMARK_DESTINATION_H

#include "message.h"

// Options that are examined for router alert.
#define MAX_OPTIONS 4
#define IPV4_ALERT 148
#define IPV6_ALERT 5
#define ANY_VALUE -1

// Whether a packet has router alert: with value 0 in IPv4 (RFC 2113) and this one in IPv6 (RFC 2711), or with any.
static __always_inline int is_alerted(struct __sk_buff *packet, const struct packet *found, int value)
{
	__u8 wanted = found->is_ipv4 ? IPV4_ALERT : IPV6_ALERT;
	__u8 padding = found->is_ipv4 ? 1 : 0;
	__u32 at = found->options;
	__u8 option[4];

	for (int i = 0; i < MAX_OPTIONS; i++) {
		if (at + sizeof(option) > found->payload || load(packet, at, option, sizeof(option)))
			return 0;
		if (option[0] == wanted)
			return value == ANY_VALUE || (option[2] << 8 | option[3]) == (found->is_ipv4 ? 0 : value);
		if (option[0] == padding)
			at += 1;
		else
			// The length counts the whole option in IPv4, and what follows it in IPv6.
			at += option[1] + (found->is_ipv4 ? 0 : 2);
	}
	return 0;
}

// Destination of a packet by the kernel's routes.
enum destination {
	UNREACHABLE,
	IN_TRANSIT,
	FOR_THIS_HOST,
};

// On a host that is no router, arriving packets are for this host, or unreachable.
static __always_inline enum destination find_destination(struct __sk_buff *packet, const struct packet *found)
{
	struct bpf_fib_lookup route = {};
	long outcome;

	route.family = found->is_ipv4 ? 2 : 10; // AF_INET, AF_INET6
	route.ifindex = packet->ifindex;
	if (found->is_ipv4) {
		if (load(packet, 12, &route.ipv4_src, 4) || load(packet, 16, &route.ipv4_dst, 4))
			return UNREACHABLE;
	} else if (load(packet, 8, route.ipv6_src, 16) || load(packet, 24, route.ipv6_dst, 16)) {
		return UNREACHABLE;
	}
	outcome = bpf_fib_lookup(packet, &route, sizeof(route), FIB_SKIP_NEIGHBOR);
	if (found->to_group)
		return outcome != BPF_FIB_LKUP_RET_FWD_DISABLED ? IN_TRANSIT : FOR_THIS_HOST;
	if (outcome == BPF_FIB_LKUP_RET_SUCCESS || outcome == BPF_FIB_LKUP_RET_NO_NEIGH ||
	    outcome == BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return IN_TRANSIT;
	return outcome == BPF_FIB_LKUP_RET_NOT_FWDED || outcome == BPF_FIB_LKUP_RET_FWD_DISABLED ? FOR_THIS_HOST :
												   UNREACHABLE;
}

#endif
