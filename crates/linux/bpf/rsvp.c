// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The interceptor of RSVP (message.h has what all have in common).
//
// Two programs, of which an interface has one. earmark_groups takes messages to groups only: these reach no raw socket
// while they are forwarded, or not always. earmark_all takes every message, with or without router alert, and wherever it
// goes.
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
	return hand_over(packet, &found, TAKEN);
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
