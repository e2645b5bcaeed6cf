// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Ranges of flows: prefixes of addresses, with or without a protocol and a destination port.
//
// The masks that occur stand in a list, the narrowest first, in which numbers count from 0 without a gap. A packet is
// looked up under each of them until one of the look-ups finds a range. There are few masks, whatever the number of ranges.

#ifndef EARMARK_RANGES_H
#define EARMARK_RANGES_H

#include "packet.h"

// As in the module `bpf_ranges` of traffic control.
#define MOST_MASKS 32
// What the name of a mask begins with.
#define RANGE_OF_IPV4 4
#define RANGE_OF_IPV6 6

// IPv4 addresses are written as IPv6's ::ffff:a.b.c.d. All octets zero: any source. Port 0: any port. Label 0: any
// label; the most significant octet comes first, as in the packet.
struct flow {
	__u8 destination[16];
	__u8 source[16];
	__u32 interface;
	__be16 destination_port;
	__be16 source_port;
	__u8 protocol;
	__u8 label[3];
};

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

// Made by the loader: __u32 to struct mask, struct range to class or bucket (__u32).
extern const char masks;
extern const char ranges;

static __always_inline __u32 look_up_range(const struct flow *flow, __u8 family)
{
	const __u32 *words = (const __u32 *)flow;
	struct range range;

	for (__u32 i = 0; i < MOST_MASKS; i++) {
		// Apart from what counts the turns, which the verifier follows in a register only.
		volatile __u32 number = i;
		struct mask *mask = bpf_map_lookup_elem((void *)&masks, (void *)&number);
		__u32 *class;

		if (!mask)
			return 0;
		if (mask->name[0] != family)
			continue;
#pragma clang loop unroll(full)
		for (unsigned int i = 0; i < WORDS_OF_FLOW; i++)
			range.words[i] = words[i] & mask->words[i];
		__builtin_memcpy(range.name, mask->name, sizeof(range.name));
		class = bpf_map_lookup_elem((void *)&ranges, &range);
		if (class)
			return *class;
	}
	return 0;
}

#endif
