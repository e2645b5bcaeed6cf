// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Ranges of flows: prefixes of addresses, with or without a protocol and a destination port, or a DSCP.
//
// The masks in use are in a list, the narrowest first, with numbers from 0 without a gap. A packet is looked up under each of
// them. There are few masks for any number of ranges.

#ifndef EARMARK_RANGES_H
#define EARMARK_RANGES_H

#include "flow.h"

// As in the module `bpf_ranges` of traffic control.
#define MAX_MASKS 32
// First octet of the name of a mask.
#define RANGE_OF_IPV4 4
#define RANGE_OF_IPV6 6

#define WORDS_OF_FLOW (sizeof(struct flow) / sizeof(__u32))

struct mask {
	// Bits that are compared.
	__u32 words[WORDS_OF_FLOW];
	// Family, open bits of destination and source, and the other compared fields: octets.
	__u8 name[4];
};

struct range {
	__u32 words[WORDS_OF_FLOW];
	// Name of its mask.
	__u8 name[4];
};

// Created by the loader: __u32 to struct mask, struct range to struct entry.
extern const char masks;
extern const char ranges;

#endif
