// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The interceptor: takes RSVP messages out of the packets that arrive, and hands them to the daemon through a ring buffer.
//
// Two programs, of which an interface has one in its way in. earmark_groups takes messages to groups only: these reach no
// raw socket while they are forwarded, or not always. earmark_all takes every message, with or without router alert, and
// wherever it goes. What is taken goes no further. While the ring is full, messages are lost as they would be on a full
// socket; that is counted.
//
// Left alone: fragments (the kernel puts those together that are for us, and those with router alert in IPv4), messages
// longer than LONGEST_MESSAGE, IPv6 packets with other extension headers than hop-by-hop options, packets that belong to
// a VLAN on top of the interface, and those for another station.
//
// The programs are attached by links, which end with the daemon: from then on messages flow on.

#include "packet.h"

#define LONGEST_MESSAGE 16384
#define MORE_FRAGMENTS_OR_OFFSET 0x3f
#define PACKET_OF_ANOTHER_STATION 3

// What goes into the ring: where it came in, and the IP packet. The room behind `length` octets means nothing.
struct message {
	__u32 interface;
	__u32 length;
};

// Made by the loader: the ring, and what it had no room for (key 0: __u32).
extern const char messages;
extern const char lost;

// Octets of the IP packet, if it is a message that is to be taken; else 0.
static __always_inline __u32 message_length(struct __sk_buff *packet, int groups_only)
{
	__u8 header[48];
	__u8 hop_by_hop[2];

	if (packet->vlan_present || packet->pkt_type == PACKET_OF_ANOTHER_STATION)
		return 0;
	if (packet->protocol == bpf_htons(ETH_P_IP)) {
		if (load(packet, 0, header, 20) || header[9] != PROTOCOL_RSVP)
			return 0;
		if ((header[6] & MORE_FRAGMENTS_OR_OFFSET) || header[7])
			return 0;
		if (groups_only && (header[16] & 0xf0) != 0xe0)
			return 0;
		return header[2] << 8 | header[3];
	}
	if (packet->protocol != bpf_htons(ETH_P_IPV6) || load(packet, 0, header, 40))
		return 0;
	if (groups_only && header[24] != 0xff)
		return 0;
	if (header[6] == IPPROTO_HOPOPTS) {
		if (load(packet, 40, hop_by_hop, 2) || hop_by_hop[0] != PROTOCOL_RSVP)
			return 0;
	} else if (header[6] != PROTOCOL_RSVP) {
		return 0;
	}
	return (header[4] << 8 | header[5]) + 40;
}

// Copies a packet into the ring, in a room of a size that the verifier knows.
#define HAND_OVER(packet, length, room)                                                                              \
	({                                                                                                           \
		struct message *message = bpf_ringbuf_reserve((void *)&messages, sizeof(struct message) + (room), 0); \
		int failed = !message;                                                                               \
		if (message) {                                                                                       \
			message->interface = (packet)->ifindex;                                                      \
			message->length = (length);                                                                  \
			if (bpf_skb_load_bytes_relative(packet, 0, message + 1, length, BPF_HDR_START_NET))           \
				bpf_ringbuf_discard(message, 0);                                                     \
			else                                                                                         \
				bpf_ringbuf_submit(message, 0);                                                      \
		}                                                                                                    \
		failed;                                                                                              \
	})

static __always_inline int take(struct __sk_buff *packet, int groups_only)
{
	__u32 length = message_length(packet, groups_only);
	__u32 key = 0;
	__u32 *count;
	int full;

	if (length < 20 || length > LONGEST_MESSAGE || bpf_skb_pull_data(packet, packet->len))
		return NEXT_PROGRAM;
	if (length <= 512)
		full = HAND_OVER(packet, length, 512);
	else if (length <= 2048)
		full = HAND_OVER(packet, length, 2048);
	else
		full = HAND_OVER(packet, length, LONGEST_MESSAGE);
	if (full) {
		count = bpf_map_lookup_elem((void *)&lost, &key);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	return DROP;
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
