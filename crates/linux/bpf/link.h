// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Settings of a link: the kinds of its flows, and the priorities of packets without a claim.

#ifndef EARMARK_LINK_H
#define EARMARK_LINK_H

#include "bucket.h"

// Services for packets without a reservation, by DSCP; number 0 is best effort.
#define SERVICES 9
// Each claim has a queue of its own, where packets that exceed its bucket wait.
#define LINK_SHAPED 1u
// Each service has a class of its own, with a queue.
#define LINK_SERVICES_SHAPED 2u

// As in the module `bpf_links` of traffic control.
struct link {
	// Of IPv4 and of IPv6.
	__u32 kinds[2];
	__u32 flags;
	// Priorities.
	__u32 signalling;
	__u32 best_effort;
	// Octets of link header in a packet's length.
	__u32 overhead;
	// DSCPs that only packets of claims have, as bits (marking.h); 0: packets keep theirs.
	__u64 marks;
	// Forwarded control traffic, and control traffic by DSCP only.
	struct bucket control;
	// Number of the service of each DSCP.
	__u8 services[64];
	struct bucket service[SERVICES - 1];
};

// Created by the loader: interface index to struct link.
extern const char links;

#endif
