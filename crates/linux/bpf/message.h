// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// Common parts of the interceptors: the packets that they examine, and passing one to the daemon.
//
// Each protocol has its programs in a file of its own, and an interface has those on its ingress that it was set to. All
// write into one ring. A consumed packet is not forwarded; of a copied one the kernel forwards or delivers the original.
// Messages that wait in the ring are at most as many octets of one port as are free for all: of ports that send faster than
// the daemon reads, n share n/(n+1) of the ring evenly, and the rest is there for all others, who lose nothing (A. K. Choudhury
// and E. L. Hahne, Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998). What a port sends beyond that is
// shed, and counted for that port.
//
// Not examined: fragments (the kernel reassembles those for this host, and those with router alert in IPv4), messages
// longer than MAX_MESSAGE, IPv6 packets with other extension headers than hop-by-hop options, packets that belong to
// a VLAN on top of the interface, and those for another station.
//
// The programs are attached by links, which end with the daemon: from then on messages are forwarded.

#ifndef EARMARK_MESSAGE_H
#define EARMARK_MESSAGE_H

#include "packet.h"

#define MAX_MESSAGE 16384
#define MORE_FRAGMENTS_OR_OFFSET 0x3f
#define PACKET_OF_ANOTHER_STATION 3
#define IPV4_HEADER 20
#define IPV6_HEADER 40
// Of newer headers (Linux 6.3): a route is asked for, and no neighbour.
#define FIB_SKIP_NEIGHBOR 4

// Treatment of a message: the daemon alone receives it; the kernel forwards or delivers it too; the kernel forwards it,
// and has reserved or released what it requests.
enum treatment {
	CONSUMED,
	COPIED,
	RESERVED,
	RELEASED,
};

// What the kernel has reserved or released on an interface: bits per second.
struct change {
	__u32 interface;
	__u32 rate;
};

// A record of the ring: incoming interface, IP protocol, treatment, and the IP packet. Octets after `length` are undefined.
struct message {
	__u32 interface;
	__u32 length;
	__u32 protocol;
	__u32 treatment;
	struct change changes[2];
};

// Use of the ring by one port: octets of it that the port's messages were given, octets of these that the daemon has read,
// and messages that were shed. The daemon writes `read`, the programs all else.
struct port {
	__u64 given;
	__u64 read;
	__u64 shed;
};

// Ports by the lowest bits of their interface index; those that agree in these bits count as one.
#define PORTS 4096

// Created by the loader: the ring, two numbers about it (__u32), and the ports.
extern const char messages;
extern const char ring;
extern const char ports;

// Messages lost because it was full.
#define RING_LOST 0
// Whether it holds a copy for which the daemon was not woken. The next message must wake it: the kernel does so by itself
// only for a record in an empty ring.
#define RING_UNANNOUNCED 1

// A packet that may be a message: fields of its IP header, and offsets in octets from there.
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
	// Of another version, or with a header that is too short: the kernel drops it.
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

// Reads a packet's headers; fails if it cannot be a message of any protocol.
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

// Octets that the ring needs for a record with a packet of up to `room`: the kernel's header of eight, and padding.
#define RECORD(room) ((sizeof(struct message) + (room) + 8 + 7) / 8 * 8)

static __always_inline struct port *port_of(const struct __sk_buff *packet)
{
	__u32 key = packet->ifindex & (PORTS - 1);

	return bpf_map_lookup_elem((void *)&ports, &key);
}

// Whether a port has no room for another message. One that has nothing in the ring always has, if the ring has.
static __always_inline int is_over_share(const struct port *port)
{
	__u64 waiting = bpf_ringbuf_query((void *)&messages, BPF_RB_AVAIL_DATA);
	__u64 size = bpf_ringbuf_query((void *)&messages, BPF_RB_RING_SIZE);

	return port->given - port->read + waiting > size;
}

// Copies a packet into the ring, in a record of a size that the verifier knows; returns whether the ring was full.
#define COPY_INTO(packet, found, port, how, changed, room, wake)                                                     \
	({                                                                                                           \
		struct message *message = bpf_ringbuf_reserve((void *)&messages, sizeof(struct message) + (room), 0); \
		int full = !message;                                                                                 \
		if (message) {                                                                                       \
			message->interface = (packet)->ifindex;                                                      \
			message->length = (found)->length;                                                           \
			message->protocol = (found)->protocol;                                                       \
			message->treatment = (how);                                                                  \
			__builtin_memcpy(message->changes, changed, sizeof(message->changes));                       \
			if (bpf_skb_load_bytes_relative(packet, 0, message + 1, length, BPF_HDR_START_NET)) {         \
				bpf_ringbuf_discard(message, wake);                                                  \
			} else {                                                                                     \
				__sync_fetch_and_add(&(port)->given, RECORD(room));                                  \
				bpf_ringbuf_submit(message, wake);                                                   \
			}                                                                                            \
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

// Returns how the daemon is woken for a message: as the kernel decides, unless it sleeps while a copy waits.
static __always_inline __u64 wakeup_flags(void)
{
	__u32 *unannounced = ring_number(RING_UNANNOUNCED);

	if (!unannounced || !*unannounced)
		return 0;
	*unannounced = 0;
	return BPF_RB_FORCE_WAKEUP;
}

// Passes a message to the daemon; returns the verdict for the packet. Records have the sizes of usual messages: a short one,
// a Path, one of some more objects, a full packet.
static __always_inline int pass_to_daemon(struct __sk_buff *packet, const struct packet *found, enum treatment treatment)
{
	struct port *port = port_of(packet);
	struct change nothing[2] = {};
	__u32 length = found->length;
	__u64 wake;
	int full;

	if (!port || length < IPV4_HEADER || length > MAX_MESSAGE || bpf_skb_pull_data(packet, packet->len))
		return NEXT_PROGRAM;
	if (is_over_share(port)) {
		__sync_fetch_and_add(&port->shed, 1);
		return treatment == CONSUMED ? DROP : NEXT_PROGRAM;
	}
	wake = wakeup_flags();
	if (length <= 192)
		full = COPY_INTO(packet, found, port, treatment, nothing, 192, wake);
	else if (length <= 256)
		full = COPY_INTO(packet, found, port, treatment, nothing, 256, wake);
	else if (length <= 512)
		full = COPY_INTO(packet, found, port, treatment, nothing, 512, wake);
	else if (length <= 2048)
		full = COPY_INTO(packet, found, port, treatment, nothing, 2048, wake);
	else
		full = COPY_INTO(packet, found, port, treatment, nothing, MAX_MESSAGE, wake);
	if (full)
		count_lost();
	return treatment == CONSUMED ? DROP : NEXT_PROGRAM;
}

#endif
