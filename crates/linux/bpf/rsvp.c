// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The interceptor of RSVP.
//
// Two programs, of which an interface has one. earmark_rsvp intercepts the messages that a router must see: those with router
// alert, those for this host, and those to groups. earmark_all intercepts every message to any destination. Raw sockets receive
// what neither examines, such as fragments.
//
// Rebuild with build.sh beside this file; the loader reads the sections and fills in the maps.

#include "destination.h"

// Value of router alert in IPv6 (RFC 2711).
#define RSVP_ALERT 1

SEC("router_alert")
int earmark_rsvp(struct __sk_buff *packet)
{
	struct packet found = {};

	if (read_packet(packet, &found) || found.protocol != PROTOCOL_RSVP)
		return NEXT_PROGRAM;
	if (!found.to_group && !is_alerted(packet, &found, RSVP_ALERT) &&
	    find_destination(packet, &found) != FOR_THIS_HOST)
		return NEXT_PROGRAM;
	return pass_to_daemon(packet, &found, CONSUMED);
}

SEC("all")
int earmark_all(struct __sk_buff *packet)
{
	struct packet found = {};

	if (read_packet(packet, &found) || found.protocol != PROTOCOL_RSVP)
		return NEXT_PROGRAM;
	return pass_to_daemon(packet, &found, CONSUMED);
}
