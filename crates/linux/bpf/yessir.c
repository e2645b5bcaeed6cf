// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The interceptor of YESSIR.
//
// A message is a UDP packet that holds an RTCP compound (RFC 3550) with an APP packet named YSSR in it. earmark_alerted
// examines only packets with router alert, earmark_any all of UDP. Messages in transit are consumed, because routers edit
// them. Messages for this host are copied, so that the application still receives its report.
//
// earmark_reports copies compounds without YSSR of senders, as applications without YESSIR send them: those that begin with a
// sender report, and those with a BYE, because a sender that has paused leaves with a receiver report.
//
// Rebuild with build.sh beside this file; the loader reads the sections and fills in the maps.

#include "udp.h"

// RTCP packets of a compound that are examined.
#define MAX_PACKETS 12

#define SENDER_REPORT 200
#define RECEIVER_REPORT 201
#define GOODBYE 203
#define APPLICATION 204
// Words of a sender report behind the first, without report blocks; words of a block.
#define SENDER_REPORT_WORDS 6
#define REPORT_BLOCK_WORDS 6
#define MIN_APPLICATION_WORDS 2

enum compound {
	FOREIGN,
	REPORT,
	YESSIR,
};

// Kind of a UDP packet's content. A compound with a wrong length is foreign, unless YSSR comes before it.
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
	for (int i = 0; i < MAX_PACKETS; i++) {
		if (at + sizeof(header) > end || load(packet, at, header, sizeof(header)) || header[0] >> 6 != 2)
			return FOREIGN;
		words = header[2] << 8 | header[3];
		if (!i) {
			if (header[1] == SENDER_REPORT &&
			    words >= SENDER_REPORT_WORDS + (header[0] & 0x1f) * REPORT_BLOCK_WORDS)
				kind = REPORT;
			else if (header[1] != RECEIVER_REPORT)
				return FOREIGN;
		} else if (header[1] == APPLICATION && words >= MIN_APPLICATION_WORDS) {
			if (at + 12 > end || load(packet, at + 8, &name, sizeof(name)))
				return FOREIGN;
			if (name == bpf_htonl('Y' << 24 | 'S' << 16 | 'S' << 8 | 'R'))
				return YESSIR;
		} else if (header[1] == GOODBYE) {
			kind = REPORT;
		}
		at += (words + 1) * 4;
		if (at == end)
			return kind;
	}
	return FOREIGN;
}

static __always_inline int take(struct __sk_buff *packet, int alerted_only)
{
	struct packet found = {};

	if (read_packet(packet, &found) || found.protocol != IPPROTO_UDP)
		return NEXT_PROGRAM;
	if (alerted_only && !is_alerted(packet, &found, 0))
		return NEXT_PROGRAM;
	if (read_compound(packet, &found) != YESSIR)
		return NEXT_PROGRAM;
	return pass_to_daemon(packet, &found, find_destination(packet, &found) == IN_TRANSIT ? CONSUMED : COPIED);
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
	return pass_to_daemon(packet, &found, COPIED);
}
