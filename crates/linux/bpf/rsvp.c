// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The interceptor of RSVP.
//
// Two programs, of which an interface has one. earmark_groups intercepts messages to groups only: these do not always reach
// a raw socket while they are forwarded. earmark_all intercepts every message, with or without router alert, to any
// destination.
//
// Rebuild with build.sh beside this file; the loader reads the sections and fills in the maps.

#include "message.h"

static __always_inline int take(struct __sk_buff *packet, int groups_only)
{
	struct packet found = {};

	if (read_packet(packet, &found) || found.protocol != PROTOCOL_RSVP)
		return NEXT_PROGRAM;
	if (groups_only && !found.to_group)
		return NEXT_PROGRAM;
	return pass_to_daemon(packet, &found, CONSUMED);
}

SEC("groups")
int earmark_groups(struct __sk_buff *packet)
{
	return take(packet, 1);
}

SEC("all")
int earmark_all(struct __sk_buff *packet)
{
	return take(packet, 0);
}
