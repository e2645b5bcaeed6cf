// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The classifier: finds the claims on every packet that leaves, and writes the priority of the best of them into the packet,
// where HTB looks for its class first, and pfifo_fast for its band.
//
// A packet may match several claims: on its flow by several protocols, on less specific flows (any source, no ports), and on
// ranges of flows. They are tried from the most specific to the least specific. The first one whose bucket the packet
// conforms to serves it, so that no claim takes anything from another. If it conforms to none, the largest one serves it: it
// waits in the queue of its class, or is sent with best effort on links without such queues. A claim that is the only one
// of a packet on a link with queues needs no bucket: its class limits it to its rate.
//
// A hash map for each family holds the flows of all interfaces; a link says which kinds of flows it has (flow.h). Ranges are
// in a map of their own, by address and ports under a mask, with a list of the masks in use (ranges.h). An entry of either
// holds the best claim on this flow alone, and names the best of those that it shares with other flows.
//
// Packets without ports: protocols other than TCP, UDP, DCCP, SCTP and UDP-Lite; fragments after the first (whose ports are
// in the first one). Only claims without ports match them, and claims with the SPI of ESP and AH.
//
// IPv6 extension headers are skipped, up to MAX_EXTENSIONS: hop-by-hop, routing, destination options,
// authentication, and the fragment header of a first fragment. The protocol is the one after them. A packet with more
// of them has the protocol number of the next one, and no ports.
//
// Control traffic goes to the signalling class (control.h): if ARP or OSPF waited behind a full queue, the next hop would be
// lost, and reservations with it. So do packets that our own sockets or interceptors have marked. Every other packet gets
// the priority of its DSCP's service, best effort by default: senders cannot select a class.
//
// Rebuild with build.sh beside this file; the loader reads the section "classifier" and fills in the maps.

#include "control.h"
#include "link.h"
#include "marking.h"
#include "ranges.h"

#define MAX_EXTENSIONS 6

// Created by the loader: struct flow_ipv4 and struct flow to struct entry, struct bucket_name to struct bucket.
extern const char flows_ipv4;
extern const char flows;
extern const char buckets;

struct bucket_name {
	__u32 interface;
	__u32 number;
};

// The claims on a flow.
struct entry {
	// Bucket of the best claim on this flow alone; cost 0: there is none. `beside` is the number plus 1 of the bucket of the
	// best claim that the flow shares with others (0: there is none), times 256, plus the protocol of the claim, for the
	// daemon that adopts it.
	struct bucket own;
};

#define SHARED_SHIFT 8

// State of the classification of a packet. It is in a map, one for each processor, because the verifier follows everything on
// the stack through all branches, and would exceed its limit.
struct work {
	struct reading read;
	// The largest claim so far that the packet exceeds; cost 0: there is none.
	__u64 cost;
	__u32 class;
	// The DSCP that goes with it.
	__u32 mark;
	// Whether nothing less specific can be found.
	__u32 is_last;
	__u32 is_alone;
	// Key of the looked up range.
	struct range range;
	__u32 number;
};

// Created by the loader: 0 to struct work, for each processor.
extern const char work_areas;

static __noinline int offer(struct __sk_buff *packet, struct link *link, struct work *work, struct entry *entry);
static __noinline int offer_flow(struct __sk_buff *packet, struct link *link, struct work *work);

static __always_inline int has_ports(__u8 protocol)
{
	return protocol == IPPROTO_UDP || protocol == IPPROTO_TCP || protocol == IPPROTO_DCCP ||
	       protocol == IPPROTO_SCTP || protocol == IPPROTO_UDPLITE;
}

static __always_inline void load_spi(struct __sk_buff *packet, struct reading *read, __u8 protocol, __u32 at)
{
	if (protocol == IPPROTO_AH)
		at += 4;
	else if (protocol != IPPROTO_ESP)
		return;
	read->spi_protocol = protocol;
	load(packet, at, read->spi, sizeof(read->spi));
}

static __always_inline int read_ipv4(struct __sk_buff *packet, struct reading *read)
{
	// With the ports, where there are no options.
	__u8 header[24];
	__u32 known = sizeof(header);

	if (load(packet, 0, header, sizeof(header))) {
		known = 20;
		if (load(packet, 0, header, 20))
			return -1;
	}
	read->is_ipv4 = 1;
	__builtin_memcpy(&read->ipv4.source, header + 12, 4);
	__builtin_memcpy(&read->ipv4.destination, header + 16, 4);
	read->flow.protocol = header[9];
	read->ipv4.interface_and_protocol = read->flow.interface << 8 | header[9];
	read->dscp = header[1] >> 2;
	// A fragment offset other than 0: what follows the header is not the start of the transport's.
	if ((header[6] & 0x1f) || header[7])
		return 0;
	read->transport = (header[0] & 0x0f) * 4;
	if (has_ports(read->flow.protocol)) {
		if (read->transport == 20 && known == sizeof(header))
			__builtin_memcpy(read->ports, header + 20, sizeof(read->ports));
		else
			load(packet, read->transport, read->ports, sizeof(read->ports));
	} else {
		load_spi(packet, read, read->flow.protocol, read->transport);
	}
	return 0;
}

// Skips extension headers: finds the offset of the transport header, 0 if it is in another fragment.
static __always_inline int pass_extensions(struct __sk_buff *packet, struct reading *read)
{
	__u8 header[4];
	__u32 at = 40;

	read->transport = at;
#pragma clang loop unroll(full)
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		__u8 kind = read->flow.protocol;

		if (kind != IPPROTO_HOPOPTS && kind != IPPROTO_ROUTING && kind != IPPROTO_DSTOPTS && kind != IPPROTO_AH &&
		    kind != IPPROTO_FRAGMENT)
			return 0;
		if (load(packet, at, header, sizeof(header)))
			return -1;
		read->flow.protocol = header[0];
		if (kind == IPPROTO_FRAGMENT) {
			at += 8;
			// A fragment offset other than 0.
			if (header[2] || (header[3] & 0xf8)) {
				read->transport = 0;
				return 0;
			}
		} else if (kind == IPPROTO_AH) {
			load_spi(packet, read, IPPROTO_AH, at);
			at += (header[1] + 2) * 4;
		} else {
			at += (header[1] + 1) * 8;
		}
		read->transport = at;
	}
	return 0;
}

static __always_inline int read_ipv6(struct __sk_buff *packet, struct reading *read)
{
	__u8 header[40];

	if (load(packet, 0, header, sizeof(header)))
		return -1;
	__builtin_memcpy(read->flow.source, header + 8, 16);
	__builtin_memcpy(read->flow.destination, header + 24, 16);
	read->flow.protocol = header[6];
	read->dscp = (header[0] & 0x0f) << 2 | header[1] >> 6;
	read->label[0] = header[1] & 0x0f;
	read->label[1] = header[2];
	read->label[2] = header[3];
	if (pass_extensions(packet, read))
		return -1;
	if (read->transport && has_ports(read->flow.protocol))
		load(packet, read->transport, read->ports, sizeof(read->ports));
	else if (read->transport && read->flow.protocol == IPPROTO_ESP)
		load_spi(packet, read, IPPROTO_ESP, read->transport);
	return 0;
}

// Offers the packet to the claims on flows of these kinds, all with its source or all with any; returns whether one serves it.
static __always_inline int offer_kinds(struct __sk_buff *packet, struct link *link, struct work *work, __u32 kinds, int is_last)
{
	struct reading *read = &work->read;
	struct flow *flow = &read->flow;
	int has_label = read->label[0] || read->label[1] || read->label[2];

#define OFFER(kind)                                                                                                              \
	do {                                                                                                                     \
		work->is_last = is_last && !(kinds & ~((kind) | ((kind)-1)));                                                    \
		if (offer_flow(packet, link, work))                                                                              \
			return 1;                                                                                                \
	} while (0)

	if ((read->spi[0] || read->spi[1]) && kinds & KIND_BOTH_PORTS) {
		__u8 protocol = flow->protocol;

		// In IPv6 claims on what AH protects come later, so this is never the last. In IPv4 the protocol is the same.
		flow->protocol = read->spi_protocol;
		flow->destination_port = read->spi[0];
		flow->source_port = read->spi[1];
		work->is_last = 0;
		if (offer_flow(packet, link, work))
			return 1;
		flow->protocol = protocol;
		flow->destination_port = flow->source_port = 0;
	}
	if (read->ports[1]) {
		flow->destination_port = read->ports[1];
		if (kinds & KIND_BOTH_PORTS) {
			flow->source_port = read->ports[0];
			OFFER(KIND_BOTH_PORTS);
			flow->source_port = 0;
		}
		if (has_label && kinds & KIND_DESTINATION_PORT_LABEL) {
			__builtin_memcpy(flow->label, read->label, sizeof(flow->label));
			OFFER(KIND_DESTINATION_PORT_LABEL);
			__builtin_memset(flow->label, 0, sizeof(flow->label));
		}
		if (kinds & KIND_DESTINATION_PORT)
			OFFER(KIND_DESTINATION_PORT);
		flow->destination_port = 0;
	}
	if (read->ports[0] && kinds & KIND_SOURCE_PORT) {
		flow->source_port = read->ports[0];
		OFFER(KIND_SOURCE_PORT);
		flow->source_port = 0;
	}
	if (has_label && kinds & KIND_LABEL) {
		__builtin_memcpy(flow->label, read->label, sizeof(flow->label));
		OFFER(KIND_LABEL);
		__builtin_memset(flow->label, 0, sizeof(flow->label));
	}
	if (kinds & KIND_NO_PORTS)
		OFFER(KIND_NO_PORTS);
#undef OFFER
	return 0;
}

// Writes the addresses of an IPv4 packet in the format of ranges.
static __always_inline void widen(struct reading *read)
{
	read->flow.destination[10] = read->flow.destination[11] = 0xff;
	read->flow.source[10] = read->flow.source[11] = 0xff;
	__builtin_memcpy(read->flow.source + 12, &read->ipv4.source, 4);
	__builtin_memcpy(read->flow.destination + 12, &read->ipv4.destination, 4);
}

// Offers the packet to the claims on ranges that contain it; returns whether one serves it.
static __always_inline int offer_ranges(struct __sk_buff *packet, struct link *link, struct work *work)
{
	const __u32 *words = (const __u32 *)&work->read.flow;
	__u8 family = work->read.is_ipv4 ? RANGE_OF_IPV4 : RANGE_OF_IPV6;

	work->is_last = 0;
	for (__u32 i = 0; i < MAX_MASKS; i++) {
		struct mask *mask;
		struct entry *entry;

		work->number = i;
		mask = bpf_map_lookup_elem((void *)&masks, &work->number);
		if (!mask)
			return 0;
		if (mask->name[0] != family)
			continue;
#pragma clang loop unroll(full)
		for (unsigned int j = 0; j < WORDS_OF_FLOW; j++)
			work->range.words[j] = words[j] & mask->words[j];
		__builtin_memcpy(work->range.name, mask->name, sizeof(work->range.name));
		entry = bpf_map_lookup_elem((void *)&ranges, &work->range);
		if (entry && offer(packet, link, work, entry))
			return 1;
	}
	return 0;
}

// Offers the packet to all claims that it matches; returns whether there was one.
static __always_inline int classify(struct __sk_buff *packet, struct link *link, struct work *work)
{
	struct reading *read = &work->read;
	struct flow *flow = &read->flow;
	__u32 kinds = link->kinds[read->is_ipv4 ? 0 : 1];
	__u32 exact = kinds & KINDS_WITH_SOURCE;
	__u32 any = kinds >> KINDS_OF_ANY_SOURCE & KINDS_WITH_SOURCE;

	if (exact && offer_kinds(packet, link, work, exact, kinds == exact))
		return 1;
	if (any) {
		// The key's source is kept where ranges will be looked up.
		__be32 source = read->ipv4.source;

		__builtin_memcpy(work->range.words, flow->source, sizeof(flow->source));
		__builtin_memset(flow->source, 0, sizeof(flow->source));
		read->ipv4.source = 0;
		if (offer_kinds(packet, link, work, any, !(kinds & KIND_RANGE)))
			return 1;
		read->ipv4.source = source;
		__builtin_memcpy(flow->source, work->range.words, sizeof(flow->source));
	}
	if (kinds & KIND_RANGE) {
		if (read->is_ipv4)
			widen(read);
		flow->destination_port = read->ports[1];
		flow->label[0] = read->dscp;
		if (offer_ranges(packet, link, work))
			return 1;
	}
	return work->cost != 0;
}

// Returns the priority of a packet without a claim.
static __always_inline __u32 unreserved(struct __sk_buff *packet, const struct reading *read, struct link *link)
{
	__u32 number = link->services[read->dscp & 63];
	struct bucket *bucket;

	if (!number || number >= SERVICES)
		return link->best_effort;
	bucket = &link->service[number - 1];
	if (link->flags & LINK_SERVICES_SHAPED || conforms(packet, bucket, link->overhead))
		return bucket->class;
	return link->best_effort;
}

SEC("classifier")
int earmark_egress(struct __sk_buff *packet)
{
	__u32 interface = packet->ifindex, first = 0;
	struct link *link = bpf_map_lookup_elem((void *)&links, &interface);
	struct work *work = bpf_map_lookup_elem((void *)&work_areas, &first);
	int is_ours = packet->mark == SIGNALLING_CLASS || packet->priority == SIGNALLING_CLASS;
	int is_local = !packet->ingress_ifindex;
	int failed, is_control;

	if (!link || !work) {
		packet->priority = is_ours ? SIGNALLING_CLASS : 0;
		return NEXT_PROGRAM;
	}
	if (is_ours) {
		packet->priority = link->signalling;
		return NEXT_PROGRAM;
	}
	__builtin_memset(&work->read, 0, sizeof(work->read));
	work->cost = 0;
	work->mark = 0;
	work->read.flow.interface = interface;
	if (packet->protocol == bpf_htons(ETH_P_IP))
		failed = read_ipv4(packet, &work->read);
	else if (packet->protocol == bpf_htons(ETH_P_IPV6))
		failed = read_ipv6(packet, &work->read);
	else
		failed = 1;
	if (failed) {
		// ARP, IS-IS, LLDP; malformed packets.
		if (failed > 0 && (is_local || conforms(packet, &link->control, link->overhead)))
			packet->priority = link->signalling;
		else
			packet->priority = link->best_effort;
		return NEXT_PROGRAM;
	}
	is_control = is_control_protocol(packet, &work->read);
	if (is_control && is_local) {
		packet->priority = link->signalling;
		return NEXT_PROGRAM;
	}
	if (classify(packet, link, work))
		packet->priority = work->class;
	else if ((is_control || is_control_dscp(&work->read)) && conforms(packet, &link->control, link->overhead))
		packet->priority = link->control.class;
	else
		packet->priority = unreserved(packet, &work->read, link);
	if (link->marks)
		write_dscp(packet, &work->read, link, work->mark);
	return NEXT_PROGRAM;
}

// Records a claim that the packet exceeds, if it is the largest so far: it serves the packet if no other does.
static __always_inline void fall_back(const struct bucket *bucket, const struct link *link, struct work *work)
{
	if (work->cost && work->cost <= bucket->cost)
		return;
	work->cost = bucket->cost;
	work->class = link->flags & LINK_SHAPED ? bucket->class : link->best_effort;
	work->mark = link->flags & LINK_SHAPED ? bucket->mark : 0;
}

static __always_inline int take(const struct bucket *bucket, struct work *work)
{
	work->cost = bucket->cost;
	work->class = bucket->class;
	work->mark = bucket->mark;
	return 1;
}

// Offers the packet to the claims of an entry; returns whether one serves it.
SEC("classifier")
static __noinline int offer(struct __sk_buff *packet, struct link *link, struct work *work, struct entry *entry)
{
	// In memory, whose content the verifier does not track, so that it follows the rest only once.
	volatile __u32 *is_alone = &work->is_alone;
	struct bucket_name name;
	struct bucket *shared;
	__u32 number = entry->own.beside >> SHARED_SHIFT;

	*is_alone = work->is_last && !work->cost && link->flags & LINK_SHAPED;
	if (entry->own.cost) {
		if ((*is_alone && !number) || conforms(packet, &entry->own, link->overhead))
			return take(&entry->own, work);
		fall_back(&entry->own, link, work);
	}
	if (!number)
		return 0;
	name.interface = packet->ifindex;
	name.number = number - 1;
	shared = bpf_map_lookup_elem((void *)&buckets, &name);
	if (!shared || !shared->cost)
		return 0;
	if ((*is_alone && !entry->own.cost) || conforms(packet, shared, link->overhead))
		return take(shared, work);
	fall_back(shared, link, work);
	return 0;
}

SEC("classifier")
static __noinline int offer_flow(struct __sk_buff *packet, struct link *link, struct work *work)
{
	struct reading *read = &work->read;
	struct entry *entry;

	if (read->is_ipv4) {
		read->ipv4.destination_port = read->flow.destination_port;
		read->ipv4.source_port = read->flow.source_port;
		entry = bpf_map_lookup_elem((void *)&flows_ipv4, &read->ipv4);
	} else {
		entry = bpf_map_lookup_elem((void *)&flows, &read->flow);
	}
	return entry ? offer(packet, link, work, entry) : 0;
}
