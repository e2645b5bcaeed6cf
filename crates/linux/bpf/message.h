// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// What the interceptors share: which packets they look at, and how one goes to the daemon.
//
// Each protocol has its programs in a file of its own, and an interface has those in its way in that it was set to. All
// write into one ring. What is taken goes no further; what is copied flows on by itself. While the ring is full, messages
// are lost as they would be on a full socket; that is counted.
//
// Left alone: fragments (the kernel puts those together that are for us, and those with router alert in IPv4), messages
// longer than LONGEST_MESSAGE, IPv6 packets with other extension headers than hop-by-hop options, packets that belong to
// a VLAN on top of the interface, and those for another station.
//
// The programs are attached by links, which end with the daemon: from then on messages flow on.

#ifndef EARMARK_MESSAGE_H
#define EARMARK_MESSAGE_H

#include "packet.h"

#define LONGEST_MESSAGE 16384
#define MORE_FRAGMENTS_OR_OFFSET 0x3f
#define PACKET_OF_ANOTHER_STATION 3
#define IPV4_HEADER 20
#define IPV6_HEADER 40
// Of newer headers (Linux 6.3): a route is asked for, and no neighbour.
#define FIB_SKIP_NEIGHBOR 4

// What becomes of a message besides: nothing, so that the daemon has it alone; it flows on as it is; and so it does,
// after the kernel has reserved or released what it asks for.
enum fate {
	TAKEN,
	COPIED,
	RESERVED,
	RELEASED,
};

// What the kernel has reserved or released on an interface: bits per second.
struct change {
	__u32 interface;
	__u32 rate;
};

// What goes into the ring: where it came in, what it carries, its fate, and the IP packet. The room behind `length` octets
// means nothing.
struct message {
	__u32 interface;
	__u32 length;
	__u32 protocol;
	__u32 fate;
	struct change changes[2];
};

// Made by the loader: the ring, and two numbers about it (__u32).
extern const char messages;
extern const char ring;

// Messages that it had no room for.
#define RING_LOST 0
// Whether something was put into it of which nobody was told. What comes next must be told: the kernel tells by itself only of
// what comes into a ring that is empty.
#define RING_QUIET 1

// A packet that could be a message: what its IP header says, and where things are, in octets from there.
struct packet {
	__u32 length;
	// The options of IPv4, or those of IPv6's hop-by-hop header; up to the payload.
	__u32 options;
	__u32 payload;
	__u8 is_ipv4;
	__u8 protocol;
	__u8 to_group;
	__u8 hops_left;
	// Of IPv4 only.
	__be32 source;
	__be32 destination;
};

static __always_inline int read_ipv4_packet(struct __sk_buff *packet, struct packet *found)
{
	__u8 header[IPV4_HEADER];

	if (load(packet, 0, header, sizeof(header)))
		return -1;
	if ((header[6] & MORE_FRAGMENTS_OR_OFFSET) || header[7])
		return -1;
	// Of another version, or with a header shorter than the shortest: the kernel drops it behind us.
	if (header[0] < 0x45 || header[0] > 0x4f)
		return -1;
	found->is_ipv4 = 1;
	found->protocol = header[9];
	found->to_group = (header[16] & 0xf0) == 0xe0;
	found->length = header[2] << 8 | header[3];
	found->options = IPV4_HEADER;
	found->payload = (header[0] & 0x0f) * 4;
	found->hops_left = header[8];
	__builtin_memcpy(&found->source, header + 12, sizeof(found->source));
	__builtin_memcpy(&found->destination, header + 16, sizeof(found->destination));
	return 0;
}

static __always_inline int read_ipv6_packet(struct __sk_buff *packet, struct packet *found)
{
	__u8 header[IPV6_HEADER];
	__u8 hop_by_hop[2];

	if (load(packet, 0, header, sizeof(header)))
		return -1;
	found->is_ipv4 = 0;
	found->protocol = header[6];
	found->to_group = header[24] == 0xff;
	found->length = (header[4] << 8 | header[5]) + IPV6_HEADER;
	found->options = found->payload = IPV6_HEADER;
	found->hops_left = header[7];
	if (header[6] == IPPROTO_HOPOPTS) {
		if (load(packet, IPV6_HEADER, hop_by_hop, sizeof(hop_by_hop)))
			return -1;
		found->protocol = hop_by_hop[0];
		found->options = IPV6_HEADER + 2;
		found->payload = IPV6_HEADER + (hop_by_hop[1] + 1) * 8;
	}
	return 0;
}

// Reads a packet's headers; fails where it cannot be a message of whatever protocol.
static __always_inline int read_packet(struct __sk_buff *packet, struct packet *found)
{
	if (packet->vlan_present || packet->pkt_type == PACKET_OF_ANOTHER_STATION)
		return -1;
	if (packet->protocol == bpf_htons(ETH_P_IP))
		return read_ipv4_packet(packet, found);
	if (packet->protocol == bpf_htons(ETH_P_IPV6))
		return read_ipv6_packet(packet, found);
	return -1;
}

// Copies a packet into the ring, in a room of a size that the verifier knows; tells whether there was none.
#define COPY_INTO(packet, found, how, changed, room, wake)                                                           \
	({                                                                                                           \
		struct message *message = bpf_ringbuf_reserve((void *)&messages, sizeof(struct message) + (room), 0); \
		int full = !message;                                                                                 \
		if (message) {                                                                                       \
			message->interface = (packet)->ifindex;                                                      \
			message->length = (found)->length;                                                           \
			message->protocol = (found)->protocol;                                                       \
			message->fate = (how);                                                                       \
			__builtin_memcpy(message->changes, changed, sizeof(message->changes));                       \
			if (bpf_skb_load_bytes_relative(packet, 0, message + 1, length, BPF_HDR_START_NET))           \
				bpf_ringbuf_discard(message, wake);                                                  \
			else                                                                                         \
				bpf_ringbuf_submit(message, wake);                                                   \
		}                                                                                                    \
		full;                                                                                                \
	})

static __always_inline __u32 *ring_number(__u32 key)
{
	return bpf_map_lookup_elem((void *)&ring, &key);
}

static __always_inline void count_lost(void)
{
	__u32 *count = ring_number(RING_LOST);

	if (count)
		__sync_fetch_and_add(count, 1);
}

// How the daemon is told of a message: as the kernel sees fit, unless it may sleep beside what it was not told of.
static __always_inline __u64 telling(void)
{
	__u32 *quiet = ring_number(RING_QUIET);

	if (!quiet || !*quiet)
		return 0;
	*quiet = 0;
	return BPF_RB_FORCE_WAKEUP;
}

// Gives a message to the daemon; what becomes of the packet is the result. Rooms are for what is usual: a message of
// Boomerang in either family, one of RSVP, a full packet.
static __always_inline int hand_over(struct __sk_buff *packet, const struct packet *found, enum fate fate)
{
	struct change nothing[2] = {};
	__u32 length = found->length;
	__u64 wake;
	int full;

	if (length < IPV4_HEADER || length > LONGEST_MESSAGE || bpf_skb_pull_data(packet, packet->len))
		return NEXT_PROGRAM;
	wake = telling();
	if (length <= 192)
		full = COPY_INTO(packet, found, fate, nothing, 192, wake);
	else if (length <= 512)
		full = COPY_INTO(packet, found, fate, nothing, 512, wake);
	else if (length <= 2048)
		full = COPY_INTO(packet, found, fate, nothing, 2048, wake);
	else
		full = COPY_INTO(packet, found, fate, nothing, LONGEST_MESSAGE, wake);
	if (full)
		count_lost();
	return fate == TAKEN ? DROP : NEXT_PROGRAM;
}

#endif
