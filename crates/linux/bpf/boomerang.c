// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The interceptor of Boomerang (message.h has what all have in common).
//
// A message is an echo request or an echo reply whose data begin with MAGIC, with or without router alert: those who
// answer pings do not copy the option. All are taken, in transit, to groups, and for this host. Other pings are not
// touched.
//
// Rebuild with build.sh beside this file; the loader reads the sections and fills in the maps.

#include "message.h"

#define MAGIC 0x47114711u

struct echo {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be16 identifier;
	__be16 sequence;
	__be32 magic;
};

static __always_inline int is_message(struct __sk_buff *packet, const struct packet *found)
{
	struct echo echo;

	if (found->protocol != (found->is_ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return 0;
	if (found->payload + sizeof(echo) > found->length || load(packet, found->payload, &echo, sizeof(echo)))
		return 0;
	// Echo and echo reply: 8 and 0 (RFC 792), 128 and 129 (RFC 4443).
	if (found->is_ipv4 ? echo.type & ~8 : (echo.type & ~1) != 128)
		return 0;
	return !echo.code && echo.magic == bpf_htonl(MAGIC);
}

SEC("boomerang")
int earmark_boomerang(struct __sk_buff *packet)
{
	struct packet found = {};

	if (read_packet(packet, &found) || !is_message(packet, &found))
		return NEXT_PROGRAM;
	return hand_over(packet, &found, 0);
}
