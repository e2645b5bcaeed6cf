// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Token buckets: whether a packet conforms to a claim.
//
// The state of a bucket is the time at which it will be full again without further packets (the generic cell rate
// algorithm): one number, which each packet changes in one atomic step, on any processor. Packets that are checked at the
// same time may all conform: at most one packet too many for each processor.
//
// A packet conforms as long as the bucket is not empty, and may leave it in debt. So packets larger than the remaining
// tokens, which segmentation offload creates, are served as HTB would serve them, and the rate is kept.

#ifndef EARMARK_BUCKET_H
#define EARMARK_BUCKET_H

#include "packet.h"

// Binary digits of a nanosecond's fraction in `cost`.
#define COST_SHIFT 20

struct bucket {
	// When it will be full, nanoseconds of the monotonic clock; in the past: it is full.
	__u64 full_at;
	// Time in which tokens for an octet accumulate, nanoseconds times 2^COST_SHIFT; 0: there is no claim.
	__u64 cost;
	// Time in which an empty bucket fills, nanoseconds.
	__u64 depth;
	// Conforming packets.
	__u64 packets;
	__u64 octets;
	// Packets that did not conform.
	__u64 excess;
	// The priority of packets of this claim.
	__u32 class;
	// In the entry of a flow: see struct entry of the classifier; otherwise 0.
	__u32 beside;
	// DSCP that packets of this claim get; 0: they keep none of the link's (marking.h).
	__u8 mark;
	__u8 unused[7];
};

// `overhead`: octets of link header in a packet's length, which a bucket does not count.
static __always_inline int conforms(struct __sk_buff *packet, struct bucket *bucket, __u32 overhead)
{
	// Packets are longer than their link headers, and shorter than 256 KiB; a branch would double what the verifier follows.
	__u64 length = (packet->len - overhead) & 0x3ffff;
	__u64 worth = length * bucket->cost >> COST_SHIFT;
	__u64 now = bpf_ktime_get_ns();
	__u64 before = bucket->full_at;

	if (before > now) {
		if (before - now > bucket->depth) {
			__sync_fetch_and_add(&bucket->excess, 1);
			return 0;
		}
		__sync_fetch_and_add(&bucket->full_at, worth);
	} else if (__sync_val_compare_and_swap(&bucket->full_at, before, now + worth) != before) {
		// Another processor was first: the bucket is no longer full.
		__sync_fetch_and_add(&bucket->full_at, worth);
	}
	__sync_fetch_and_add(&bucket->packets, 1);
	__sync_fetch_and_add(&bucket->octets, length);
	return 1;
}

#endif
