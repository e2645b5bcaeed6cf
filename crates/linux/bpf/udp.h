// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// Common parts of the interceptors of protocols inside UDP.

#ifndef EARMARK_UDP_H
#define EARMARK_UDP_H

#include "destination.h"

struct udp {
	__be16 source;
	__be16 destination;
	__be16 length;
	__be16 checksum;
};

#endif
