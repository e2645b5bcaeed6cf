// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The interceptor of GIST.
//
// A message is a UDP packet to port 270 whose data begin with GIST's magic number. Messages for this host are intercepted.
// Of those in transit, earmark_gist intercepts the ones with router alert of any value, because each signalling
// application may have its own; earmark_gist_port also Queries without it, for neighbours that never set it.
// Other messages in transit are forwarded.
//
// Rebuild with build.sh beside this file; the loader reads the sections and fills in the maps.

#include "udp.h"

#define GIST_PORT 270
#define GIST_MAGIC 0x4e04bda5
// The type is in the low bits of its octet.
#define TYPE_BITS 0x7f
#define QUERY 0

// The beginning of a message: RFC 5971 section 5.3.1 and appendix A.1.
struct gist {
	struct udp udp;
	__be32 magic;
	__u8 version;
	__u8 hops;
	__be16 words;
	__be16 application;
	__u8 type;
	__u8 flags;
};

static __always_inline int take(struct __sk_buff *packet, int by_port)
{
	struct packet found = {};
	struct gist gist;

	if (read_packet(packet, &found) || found.protocol != IPPROTO_UDP || found.to_group)
		return NEXT_PROGRAM;
	if (found.payload + sizeof(gist) > found.length || load(packet, found.payload, &gist, sizeof(gist)))
		return NEXT_PROGRAM;
	if (gist.udp.destination != bpf_htons(GIST_PORT) || gist.magic != bpf_htonl(GIST_MAGIC))
		return NEXT_PROGRAM;
	if (!(by_port && (gist.type & TYPE_BITS) == QUERY) && !is_alerted(packet, &found, ANY_VALUE) &&
	    find_destination(packet, &found) != FOR_THIS_HOST)
		return NEXT_PROGRAM;
	return pass_to_daemon(packet, &found, CONSUMED);
}

SEC("gist")
int earmark_gist(struct __sk_buff *packet)
{
	return take(packet, 0);
}

SEC("gist_port")
int earmark_gist_port(struct __sk_buff *packet)
{
	return take(packet, 1);
}
