// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Ranges of flows: prefixes of addresses, with or without a protocol and a destination port.
//
// The masks that occur stand in a list, the narrowest first, in which numbers count from 0 without a gap. A packet is
// looked up under each of them. There are few masks, whatever the number of ranges.

#ifndef EARMARK_RANGES_H
#define EARMARK_RANGES_H

#include "flow.h"

// As in the module `bpf_ranges` of traffic control.
#define MOST_MASKS 32
// What the name of a mask begins with.
#define RANGE_OF_IPV4 4
#define RANGE_OF_IPV6 6

#define WORDS_OF_FLOW (sizeof(struct flow) / sizeof(__u32))

struct mask {
	// What counts.
	__u32 words[WORDS_OF_FLOW];
	// Family, open bits of destination and source, and what else is looked at: octets.
	__u8 name[4];
};

struct range {
	__u32 words[WORDS_OF_FLOW];
	// Of its mask.
	__u8 name[4];
};

// Made by the loader: __u32 to struct mask, struct range to struct entry.
extern const char masks;
extern const char ranges;

#endif
