// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The interceptor of YESSIR (message.h has what all have in common).
//
// A message is a UDP packet that holds an RTCP compound (RFC 3550) with an APP packet named YSSR in it. earmark_alerted
// looks only at packets with router alert, earmark_any at all of UDP. What is in transit is taken, because routers edit
// it. What is for this host is copied: the application that it is meant for is to have its report, too.
//
// earmark_reports copies compounds without YSSR that begin with a sender report and go to an odd port, as those of
// applications do that know nothing of YESSIR.
//
// Rebuild with build.sh beside this file; the loader reads the sections and fills in the maps.

#include "message.h"

// Options that are looked at for router alert, and RTCP packets in a compound.
#define MOST_OPTIONS 4
#define MOST_PACKETS 12

#define IPV4_ALERT 148
#define IPV6_ALERT 5
#define SENDER_REPORT 200
#define RECEIVER_REPORT 201
#define APPLICATION 204
// Words of a sender report behind the first, without report blocks; words of a block.
#define SENDER_REPORT_WORDS 6
#define REPORT_BLOCK_WORDS 6
#define LEAST_APPLICATION_WORDS 2

struct udp {
	__be16 source;
	__be16 destination;
	__be16 length;
	__be16 checksum;
};

enum compound {
	FOREIGN,
	REPORT,
	YESSIR,
};

// Whether a packet asks routers to look at it: router alert with value 0 (RFC 2113, RFC 2711).
static __always_inline int is_alerted(struct __sk_buff *packet, const struct packet *found)
{
	__u8 wanted = found->is_ipv4 ? IPV4_ALERT : IPV6_ALERT;
	__u8 padding = found->is_ipv4 ? 1 : 0;
	__u32 at = found->options;
	__u8 option[4];

	for (int i = 0; i < MOST_OPTIONS; i++) {
		if (at + sizeof(option) > found->payload || load(packet, at, option, sizeof(option)))
			return 0;
		if (option[0] == wanted)
			return !option[2] && !option[3];
		if (option[0] == padding)
			at += 1;
		else
			// The length counts the whole option in IPv4, and what comes behind it in IPv6.
			at += option[1] + (found->is_ipv4 ? 0 : 2);
	}
	return 0;
}

// What a UDP packet holds. A compound that lies about its lengths is foreign, unless YSSR came before the lie.
static __always_inline enum compound read_compound(struct __sk_buff *packet, const struct packet *found)
{
	enum compound kind = FOREIGN;
	__u32 at = found->payload;
	__u8 header[4];
	__u32 words, end;
	struct udp udp;
	__be32 name;

	if (at + sizeof(udp) > found->length || load(packet, at, &udp, sizeof(udp)))
		return FOREIGN;
	end = at + bpf_ntohs(udp.length);
	at += sizeof(udp);
	if (end > found->length)
		return FOREIGN;
	for (int i = 0; i < MOST_PACKETS; i++) {
		if (at + sizeof(header) > end || load(packet, at, header, sizeof(header)) || header[0] >> 6 != 2)
			return FOREIGN;
		words = header[2] << 8 | header[3];
		if (!i) {
			if (header[1] == SENDER_REPORT &&
			    words >= SENDER_REPORT_WORDS + (header[0] & 0x1f) * REPORT_BLOCK_WORDS)
				kind = bpf_ntohs(udp.destination) & 1 ? REPORT : FOREIGN;
			else if (header[1] != RECEIVER_REPORT)
				return FOREIGN;
		} else if (header[1] == APPLICATION && words >= LEAST_APPLICATION_WORDS) {
			if (at + 12 > end || load(packet, at + 8, &name, sizeof(name)))
				return FOREIGN;
			if (name == bpf_htonl('Y' << 24 | 'S' << 16 | 'S' << 8 | 'R'))
				return YESSIR;
		}
		at += (words + 1) * 4;
		if (at == end)
			return kind;
	}
	return FOREIGN;
}

// Whether the kernel would send it on. Where this host is no router, it would not; nor what is for this host.
static __always_inline int is_in_transit(struct __sk_buff *packet, const struct packet *found)
{
	struct bpf_fib_lookup route = {};
	long outcome;

	route.family = found->is_ipv4 ? 2 : 10; // AF_INET, AF_INET6
	route.ifindex = packet->ifindex;
	if (found->is_ipv4) {
		if (load(packet, 12, &route.ipv4_src, 4) || load(packet, 16, &route.ipv4_dst, 4))
			return 0;
	} else if (load(packet, 8, route.ipv6_src, 16) || load(packet, 24, route.ipv6_dst, 16)) {
		return 0;
	}
	outcome = bpf_fib_lookup(packet, &route, sizeof(route), FIB_SKIP_NEIGHBOR);
	if (found->to_group)
		return outcome != BPF_FIB_LKUP_RET_FWD_DISABLED;
	return outcome == BPF_FIB_LKUP_RET_SUCCESS || outcome == BPF_FIB_LKUP_RET_NO_NEIGH ||
	       outcome == BPF_FIB_LKUP_RET_FRAG_NEEDED;
}

static __always_inline int take(struct __sk_buff *packet, int alerted_only)
{
	struct packet found = {};

	if (read_packet(packet, &found) || found.protocol != IPPROTO_UDP)
		return NEXT_PROGRAM;
	if (alerted_only && !is_alerted(packet, &found))
		return NEXT_PROGRAM;
	if (read_compound(packet, &found) != YESSIR)
		return NEXT_PROGRAM;
	return hand_over(packet, &found, is_in_transit(packet, &found) ? TAKEN : COPIED);
}

SEC("alerted")
int earmark_alerted(struct __sk_buff *packet)
{
	return take(packet, 1);
}

SEC("any")
int earmark_any(struct __sk_buff *packet)
{
	return take(packet, 0);
}

SEC("reports")
int earmark_reports(struct __sk_buff *packet)
{
	struct packet found = {};

	if (read_packet(packet, &found) || found.protocol != IPPROTO_UDP)
		return NEXT_PROGRAM;
	if (read_compound(packet, &found) != REPORT)
		return NEXT_PROGRAM;
	return hand_over(packet, &found, COPIED);
}
