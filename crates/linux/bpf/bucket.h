// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Token buckets of reservations that share one class: whoever exceeds his own goes with best effort.
//
// A bucket is kept as the time at which it will be full again, were nothing to come (the generic cell rate algorithm). So
// one number is its whole state, and compare-and-exchange makes a packet's turn one step, on whatever processors the
// packets of a flow leave.
//
// A packet keeps to the bucket as long as that is not empty, and may leave it in debt. Thereby packets larger than what
// is left, which segmentation offload makes, are served as HTB would serve them, and the rate holds all the same.

#ifndef EARMARK_BUCKET_H
#define EARMARK_BUCKET_H

#include "packet.h"

// Binary digits of a nanosecond's fraction in `cost`.
#define COST_SHIFT 20
// Packets of one flow may leave on several processors at once: how often one of them tries again.
#define ATTEMPTS 4

struct bucket_name {
	__u32 interface;
	__u32 number;
};

struct bucket {
	// When it will be full, nanoseconds of the monotonic clock; in the past: it is full.
	__u64 full_at;
	// How long an octet takes to flow in, nanoseconds times 2^COST_SHIFT.
	__u64 cost;
	// How long it takes to fill, nanoseconds.
	__u64 depth;
	// What kept to it.
	__u64 packets;
	__u64 octets;
	// Packets that did not.
	__u64 excess;
	// The class of what keeps to it.
	__u32 class;
	// Octets of link header in a packet's length, which a bucket does not count.
	__u32 overhead;
};

// Made by the loader: struct bucket_name to struct bucket.
extern const char buckets;

// The class of a packet whose flow has this bucket: the bucket's, or 0 for best effort.
static __always_inline __u32 police(struct __sk_buff *packet, __u32 number)
{
	struct bucket_name name = { .interface = packet->ifindex, .number = number };
	struct bucket *bucket = bpf_map_lookup_elem((void *)&buckets, &name);
	__u64 now, length, worth;

	if (!bucket)
		return 0;
	length = packet->len > bucket->overhead ? packet->len - bucket->overhead : 0;
	worth = length * bucket->cost >> COST_SHIFT;
	now = bpf_ktime_get_ns();
#pragma clang loop unroll(full)
	for (int i = 0; i < ATTEMPTS; i++) {
		__u64 before = bucket->full_at;
		__u64 from = before > now ? before : now;

		if (from - now > bucket->depth)
			break;
		if (__sync_val_compare_and_swap(&bucket->full_at, before, from + worth) == before) {
			__sync_fetch_and_add(&bucket->packets, 1);
			__sync_fetch_and_add(&bucket->octets, length);
			return bucket->class;
		}
	}
	__sync_fetch_and_add(&bucket->excess, 1);
	return 0;
}

#endif
