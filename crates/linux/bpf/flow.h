// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Flows as keys of the classifier's maps, and the kinds of flows.
//
// A packet can match several flows: with its source address or with any, with both ports, one or none, with its flow label
// or without. Each link has a set of the kinds in use, so that only those are looked up.

#ifndef EARMARK_FLOW_H
#define EARMARK_FLOW_H

#include "packet.h"

// A flow of IPv4 has a shorter key, so that its entry lies in two lines of the processor's cache. All octets zero: any
// source. Port 0: any port. The SPI of ESP and AH is in the place of the ports.
struct flow_ipv4 {
	__be32 destination;
	__be32 source;
	__be16 destination_port;
	__be16 source_port;
	// The interface's index times 256, and the protocol.
	__u32 interface_and_protocol;
};

// A flow of IPv6, and one of either family in a range, where IPv4 addresses are written as IPv6's ::ffff:a.b.c.d. Zero
// is any. Label 0: any label; the most significant octet comes first, as in the packet. In a range this octet is the DSCP.
struct flow {
	__u8 destination[16];
	__u8 source[16];
	__u32 interface;
	__be16 destination_port;
	__be16 source_port;
	__u8 protocol;
	__u8 label[3];
};

// Kinds of flows that name a source, the most specific first. Those of any source follow, in the same order; ranges are
// the last. As in the module `kinds` of traffic control.
#define KIND_BOTH_PORTS (1u << 0)
#define KIND_DESTINATION_PORT_LABEL (1u << 1)
#define KIND_DESTINATION_PORT (1u << 2)
#define KIND_SOURCE_PORT (1u << 3)
#define KIND_LABEL (1u << 4)
#define KIND_NO_PORTS (1u << 5)
#define KINDS_WITH_SOURCE 0x3fu
#define KINDS_OF_ANY_SOURCE 6
#define KIND_RANGE (1u << 12)

// A packet as the classifier has read it.
struct reading {
	// With IPv4 the addresses are set for ranges only.
	struct flow flow;
	// Set for IPv4 only.
	struct flow_ipv4 ipv4;
	__be16 ports[2];
	// SPI of ESP or AH, in two halves, and the protocol. In IPv6 AH is also an extension header before the ports.
	__be16 spi[2];
	__u8 spi_protocol;
	__u8 label[3];
	__u8 dscp;
	// Offset of the transport header; 0 if it is in another fragment.
	__u32 transport;
	__u8 is_ipv4;
};

#endif
