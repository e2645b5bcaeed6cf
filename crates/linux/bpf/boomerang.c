// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The interceptor of Boomerang (message.h has what all have in common), and what of the protocol the kernel does itself.
//
// A message is an echo request or an echo reply whose data begin with MAGIC, with or without router alert: those who
// answer pings do not copy the option. All are taken, in transit, to groups, and for this host. Other pings are not
// touched.
//
// One kind of message flows on without the daemon: that which only says that a session is to live on. The daemon enters
// sessions that it has granted, in IPv4 and in transit. A message that the daemon would send on as it came and would
// only write a new time for is counted, its time is written into the session's entry, and the packet goes where the
// routes lead. It must have the entry's classifier and mask, initiating node, interval and rate, neither flags nor
// options, and a right checksum. All else is the daemon's: the first message, other rates, releases, refusals. So it is
// when routes may have changed: the daemon then gives a new number to the time that has begun, and no entry of the time
// before counts.
//
// Rebuild with build.sh beside this file; the loader reads the sections and fills in the maps.

#include "message.h"

#define MAGIC 0x47114711u
#define RESERVATION 0x10
#define BITRATE_IPV4 0x12
#define VERSION 1

struct echo {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be16 identifier;
	__be16 sequence;
	__be32 magic;
};

struct keys {
	__u8 classifier[16];
	__u8 mask[16];
};

// A reservation for IPv4 by bit rates, without options.
struct reservation {
	struct echo echo;
	__be32 transaction;
	__u8 type;
	__u8 format;
	__be16 flags;
	__u8 interval;
	__u8 version;
	__be16 padding;
	__be32 key[2];
	struct keys keys;
	__be32 forward;
	__be32 reverse;
};

// One direction of a session: bits per second, zero where nothing is reserved here; refreshes; and the time of the last,
// by the monotonic clock.
struct half {
	__be32 rate;
	__u32 refreshes;
	__u64 seen;
};

struct session {
	__be32 initiator;
	__u32 epoch;
	__u8 interval;
	__u8 padding[7];
	struct half forward;
	struct half reverse;
};

// Made by the loader: struct keys to struct session; and what is said once for all of them (__u64).
extern const char sessions;
extern const char node;

#define NODE_EPOCH 0
#define NODE_REFRESHES 1

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

static __always_inline int has_right_checksum(struct reservation *message)
{
	__u32 sum = bpf_csum_diff(0, 0, (__be32 *)message, sizeof(*message), 0);

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

// Whether a message only refreshes what a session has; then that is done.
static __always_inline int refresh(struct __sk_buff *packet, const struct packet *found)
{
	struct reservation message;
	struct session *session;
	struct half *half;
	__u64 *epoch, *refreshes;
	__u32 key = NODE_EPOCH;
	int is_reply;

	if (!found->is_ipv4 || found->length != found->payload + sizeof(message) || found->hops_left <= 1)
		return 0;
	if (load(packet, found->payload, &message, sizeof(message)))
		return 0;
	if (message.type != RESERVATION || message.format != BITRATE_IPV4 || message.flags || message.version != VERSION)
		return 0;
	session = bpf_map_lookup_elem((void *)&sessions, &message.keys);
	epoch = bpf_map_lookup_elem((void *)&node, &key);
	if (!session || !epoch || session->epoch != *epoch || session->interval != message.interval)
		return 0;
	is_reply = !message.echo.type;
	if (session->initiator != (is_reply ? found->destination : found->source))
		return 0;
	half = is_reply ? &session->reverse : &session->forward;
	if (half->rate != (is_reply ? message.reverse : message.forward) || !(message.forward | message.reverse))
		return 0;
	if (!has_right_checksum(&message))
		return 0;
	if (half->rate) {
		half->seen = bpf_ktime_get_coarse_ns();
		__sync_fetch_and_add(&half->refreshes, 1);
		key = NODE_REFRESHES;
		refreshes = bpf_map_lookup_elem((void *)&node, &key);
		if (refreshes)
			__sync_fetch_and_add(refreshes, 1);
	}
	packet->mark = SIGNALLING_CLASS;
	return 1;
}

SEC("boomerang")
int earmark_boomerang(struct __sk_buff *packet)
{
	struct packet found = {};

	if (read_packet(packet, &found) || !is_message(packet, &found))
		return NEXT_PROGRAM;
	if (refresh(packet, &found))
		return NEXT_PROGRAM;
	return hand_over(packet, &found, 0);
}
