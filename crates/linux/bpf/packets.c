// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A source and a sink of packets, to measure the forwarding rate of a router between them (the module `packets`).
//
// The source runs on live frames (BPF_F_TEST_XDP_LIVE_FRAMES): for each frame it writes the headers of a UDP packet of a flow,
// and sends it through the interface that it is said to have come from. Frames are reused, and a router has written its own
// headers into them meanwhile; so all headers are written each time. Flow number n has the source port
// FIRST_PORT plus its lowest ten bits, and the destination port FIRST_PORT plus the others. Packets of the measured flow
// carry a number after the headers.
//
// The sink drops packets in the driver, after the time that a slow link would take for one. Packets to the measured port are
// received, and so are frames that are not IPv4, such as ARP's.
//
// Rebuild with build.sh beside this file.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FIRST_PORT 1024
#define FLOW_BITS 10
// Octets of the headers: Ethernet, IPv4 without options, UDP.
#define HEADERS 42
#define SERVICE 15
#define CHECKSUM 24
#define SOURCE_PORT 34
#define DESTINATION_PORT 36
// Reading the clock takes some 20 ns: up to 80 us a packet.
#define MAX_CLOCK_READS 4096

struct source {
	// Number of flows; the flow of each packet is drawn at random.
	__u32 flows;
	// Number of the first flow.
	__u32 first;
	// One packet in this many belongs to the measured flow; 0: none.
	__u32 every;
	__u32 measured;
	// Packets written, and the state of the generator of random numbers.
	__u32 count;
	__u32 random;
	__u8 headers[HEADERS];
	// Header checksum of the measured flow's packets, which have another type of service.
	__be16 measured_checksum;
	// Packets of the measured flow so far.
	__u32 number;
	__u8 measured_service;
	__u8 padding[3];
};

struct sink {
	// Nanoseconds.
	__u32 time;
	// Destination port in network byte order, 0: none.
	__u32 measured;
};

// Created by the loader: arrays of one.
extern const char source_settings;
extern const char sink_settings;

SEC("source")
int write_packet(struct xdp_md *context)
{
	__u32 zero = 0, flow;
	struct source *source = bpf_map_lookup_elem((void *)&source_settings, &zero);
	__u8 *frame = (void *)(long)context->data;

	if (!source || frame + HEADERS + 4 > (__u8 *)(long)context->data_end)
		return XDP_ABORTED;
	// Numerical Recipes' generator, of which the leading bits are used. One thread runs it.
	source->random = source->random * 1664525 + 1013904223;
	flow = source->first + (__u32)((__u64)source->random * source->flows >> 32);
	__builtin_memcpy(frame, source->headers, HEADERS);
	if (source->every && ++source->count >= source->every) {
		source->count = 0;
		flow = source->measured;
		frame[SERVICE] = source->measured_service;
		*(__be16 *)(frame + CHECKSUM) = source->measured_checksum;
		*(__be32 *)(frame + HEADERS) = bpf_htonl(source->number++);
	}
	*(__be16 *)(frame + SOURCE_PORT) = bpf_htons(FIRST_PORT + (flow & ((1 << FLOW_BITS) - 1)));
	*(__be16 *)(frame + DESTINATION_PORT) = bpf_htons(FIRST_PORT + (flow >> FLOW_BITS));
	return XDP_TX;
}

SEC("sink")
int drop_packet(struct xdp_md *context)
{
	__u32 zero = 0;
	struct sink *sink = bpf_map_lookup_elem((void *)&sink_settings, &zero);
	__u8 *frame = (void *)(long)context->data;
	__u64 start;

	if (!sink || frame + HEADERS > (__u8 *)(long)context->data_end ||
	    ((struct ethhdr *)frame)->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if (sink->time) {
		start = bpf_ktime_get_ns();
		for (int i = 0; i < MAX_CLOCK_READS && bpf_ktime_get_ns() - start < sink->time; i++)
			;
	}
	if (sink->measured && *(__be16 *)(frame + DESTINATION_PORT) == sink->measured)
		return XDP_PASS;
	return XDP_DROP;
}

SEC("pass")
int pass_packet(struct xdp_md *context)
{
	return XDP_PASS;
}
