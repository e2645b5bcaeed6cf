// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// The interceptor of Boomerang (message.h has what all have in common), and its offload: what the kernel does by itself.
//
// A message is an echo request or an echo reply whose data begin with MAGIC, with or without router alert: hosts that
// answer pings do not copy the option. All are intercepted, in transit, to groups, and for this host. Other pings are
// forwarded or delivered.
//
// Some messages are forwarded without the daemon, if it has allowed that. They are for IPv4, by bit rates, with a correct
// checksum, and have neither flags nor options.
//
// Refresh. The daemon enters the sessions that it has granted. A message that it would forward unchanged, and that would
// only update a time, is counted, and its time is written into the session's entry. Its classifier and mask, initiating
// node, far end, arrival interface, interval and rate are those of the entry.
//
// Setup, of a session that names all five keys exactly, for packets from the initiating node to the far end. The daemon
// delegates a share of a link to the kernel, and a number of setups for an initiating node whose requests arrive through an
// interface. If both suffice, the kernel takes from them and enters the session. A reply sets up the way back only in a
// session whose request has passed here. The daemon receives a copy, but is not woken for it.
//
// Release. The rates of the session are added to the shares of its links, and the daemon receives a copy. The entry stays,
// without rates, until the daemon removes it, because the message passes a second time, in the other direction. Until then
// setups go to the daemon: it would remove the new session with the entry, and other nodes could set that up once more.
//
// All other messages go to the daemon: those of another origin, other rates, refusals, sessions that no share suffices for. So does the next message
// of every session when routes may have changed: the daemon then increments the epoch, and entries of earlier epochs are
// ignored.
//
// Rebuild with build.sh beside this file; the loader reads the sections and fills in the maps.

#include "message.h"

#define MAGIC 0x47114711u
#define RESERVATION 0x10
#define BITRATE_IPV4 0x12
#define VERSION 1
#define UNLOCKED 1
// Octets in the ring from which on the daemon is woken for copies as well.
#define WAKE_AT (256 * 1024)

struct echo {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be16 identifier;
	__be16 sequence;
	__be32 magic;
};

struct keys {
	__u8 classifier[16];
	__u8 mask[16];
};

// A reservation for IPv4 by bit rates, without options.
struct reservation {
	struct echo echo;
	__be32 transaction;
	__u8 type;
	__u8 format;
	__be16 flags;
	__u8 interval;
	__u8 version;
	__be16 padding;
	__be32 key[2];
	struct keys keys;
	__be32 forward;
	__be32 reverse;
};

// In a packet with all the options that IPv4 has room for.
#define MAX_RESERVATION (60 + sizeof(struct reservation))

// One direction of a session: bits per second, zero where nothing is reserved here; refreshes; the time of the last, by
// the monotonic clock; the link that the rate is reserved on; and the interface that the messages of the direction arrive
// through, 0 if none has come by.
struct half {
	__be32 rate;
	__u32 refreshes;
	__u64 seen;
	__u32 interface;
	__u32 arrival;
};

struct session {
	__be32 initiator;
	__u32 epoch;
	__u8 interval;
	__u8 padding[3];
	__be32 far_end;
	struct half forward;
	struct half reverse;
};

// An initiating node whose requests arrive through an interface.
struct source {
	__be32 initiator;
	__u32 arrival;
};

// Created by the loader: struct keys to struct session; values for all of them (__u64); and delegated amounts, of links in
// bits per second and of initiating nodes in setups: interface (__u32) and struct source to an index (__u32), at
// which the total of delegated amounts is (__u64), followed by the total of taken amounts. This program writes only the
// second.
extern const char sessions;
extern const char node;
extern const char links;
extern const char shares;
extern const char initiators;
extern const char allowances;

#define NODE_EPOCH 0
// The longest interval that is not lowered here; 0: no setup by the kernel.
#define NODE_INTERVAL 1
// Messages forwarded without a copy: refreshes and others; requests of each, followed by replies.
#define NODE_REFRESHES 2
#define NODE_OTHERS 4

static __always_inline __u64 *number_at(const void *numbers, __u32 place)
{
	return bpf_map_lookup_elem((void *)numbers, &place);
}

static __always_inline __u64 *node_number(__u32 key)
{
	return number_at(&node, key);
}

static __always_inline int is_message(const struct packet *found, const struct echo *echo)
{
	// Echo and echo reply: 8 and 0 (RFC 792), 128 and 129 (RFC 4443).
	if (found->is_ipv4 ? echo->type & ~8 : (echo->type & ~1) != 128)
		return 0;
	return !echo->code && echo->magic == bpf_htonl(MAGIC);
}

static __always_inline int has_right_checksum(const struct reservation *message)
{
	const __u32 *words = (const __u32 *)message;
	__u64 sum = 0;

#pragma clang loop unroll(full)
	for (unsigned int i = 0; i < sizeof(*message) / sizeof(*words); i++)
		sum += words[i];
	// Less than 2^37, then than 2^18, and than 2^16 + 2.
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

// Takes an amount of what is delegated; returns the total of taken amounts, 0 if what is delegated does not suffice.
static __always_inline __u64 *take_share(const void *places, const void *numbers, const void *key, __u32 amount)
{
	__u32 *place = bpf_map_lookup_elem((void *)places, key);
	__u64 *total = place ? number_at(numbers, *place) : 0;
	__u64 *sum = place ? number_at(numbers, *place + 1) : 0;

	if (!total || !sum)
		return 0;
	// Totals may wrap or be negative: only their difference is meaningful. For a moment more may seem taken than is
	// delegated; then a message goes to the daemon without need.
	if ((__s64)(*total - (__sync_fetch_and_add(sum, amount) + amount)) >= 0)
		return sum;
	__sync_fetch_and_add(sum, -(__u64)amount);
	return 0;
}

static __always_inline void return_share(__u64 *sum, __u32 amount)
{
	__sync_fetch_and_add(sum, -(__u64)amount);
}

// Returns the total that was taken of a link; 0 if it has no share.
static __always_inline __u64 *share_of(__u32 interface)
{
	__u32 *place = bpf_map_lookup_elem((void *)&links, &interface);

	return place ? number_at(&shares, *place + 1) : 0;
}

// Returns the interface through which a packet will leave; 0 if it will not.
static __always_inline __u32 outgoing_interface(struct __sk_buff *packet, const struct packet *found)
{
	struct bpf_fib_lookup route = {};

	route.family = 2; // AF_INET
	route.ifindex = packet->ifindex;
	route.ipv4_src = found->source;
	route.ipv4_dst = found->destination;
	if (bpf_fib_lookup(packet, &route, sizeof(route), FIB_SKIP_NEIGHBOR) != BPF_FIB_LKUP_RET_SUCCESS)
		return 0;
	return route.ifindex;
}

// Passes a copy of a handled message to the daemon; fails if the ring is full, or the port has its share of it.
static __always_inline int report(struct __sk_buff *packet, const struct packet *found, enum treatment treatment,
				  const struct change *changes)
{
	int without_wakeup = bpf_ringbuf_query((void *)&messages, BPF_RB_AVAIL_DATA) < WAKE_AT;
	__u32 *unannounced = ring_number(RING_UNANNOUNCED);
	struct port *port = port_of(packet);
	__u32 length = found->length;
	int failed;

	if (!unannounced || !port || is_over_share(port) || length < IPV4_HEADER || length > MAX_RESERVATION)
		return -1;
	// Set before, for messages that arrive right after the copy, and again after it, because one in between may have reset it.
	if (without_wakeup)
		*unannounced = 1;
	// Too many copies wake the daemon once, not each: until they are read, that would cost more than everything else.
	failed = COPY_INTO(packet, found, port, treatment, changes, MAX_RESERVATION,
			   without_wakeup ? BPF_RB_NO_WAKEUP : wakeup_flags());
	if (without_wakeup)
		*unannounced = 1;
	return failed ? -1 : 0;
}

// All five keys, with ports, and nothing else; for the packets from an initiating node to a far end.
static __always_inline int is_exact(const struct keys *keys, const struct source *source, __be32 far_end)
{
	const __be32 *addresses = (const __be32 *)keys->classifier;
	const __u64 *classifier = (const __u64 *)keys->classifier;
	const __u64 *mask = (const __u64 *)keys->mask;
	const __be16 *ports = (const __be16 *)(keys->classifier + 8);

	if (mask[0] != ~0ull || mask[1] != bpf_cpu_to_be64(0xffffffffff000000ull))
		return 0;
	if (addresses[0] != source->initiator || addresses[1] != far_end)
		return 0;
	return ports[0] && ports[1] && !(classifier[1] & ~mask[1]);
}

static __always_inline int set_up(struct __sk_buff *packet, const struct packet *found, struct reservation *message,
				  struct session *session)
{
	int is_reply = !message->echo.type;
	__be32 wanted = is_reply ? message->reverse : message->forward;
	__u64 *interval = node_number(NODE_INTERVAL);
	__u64 *epoch = node_number(NODE_EPOCH);
	struct change changes[2] = {};
	struct session fresh = {};
	struct source source = { is_reply ? found->destination : found->source, packet->ifindex };
	__be32 far_end = is_reply ? found->source : found->destination;
	struct half *half;
	__u32 rate = bpf_ntohl(wanted);
	__u64 *share, *allowance;
	__u32 interface;

	// A reply whose request has not passed: the daemon decides.
	if (is_reply && !session)
		return 0;
	if (session)
		source.arrival = session->forward.arrival;
	if (!interval || !epoch || !wanted || !message->interval || message->interval > *interval)
		return 0;
	if (message->key[0] || message->key[1] != bpf_htonl(UNLOCKED) || !is_exact(&message->keys, &source, far_end))
		return 0;
	interface = outgoing_interface(packet, found);
	if (!interface || found->to_group)
		return 0;
	share = take_share(&links, &shares, &interface, rate);
	if (!share)
		return 0;
	allowance = take_share(&initiators, &allowances, &source, 1);
	if (!allowance)
		goto undo_share;
	half = is_reply ? &fresh.reverse : &fresh.forward;
	if (session) {
		half = is_reply ? &session->reverse : &session->forward;
		if (__sync_val_compare_and_swap(&half->rate, 0, wanted))
			goto disallow;
	}
	half->interface = interface;
	half->arrival = packet->ifindex;
	half->seen = bpf_ktime_get_coarse_ns();
	if (!session) {
		half->rate = wanted;
		fresh.initiator = source.initiator;
		fresh.far_end = far_end;
		fresh.epoch = *epoch;
		fresh.interval = message->interval;
		if (bpf_map_update_elem((void *)&sessions, &message->keys, &fresh, BPF_NOEXIST))
			goto disallow;
	}
	changes[0].interface = interface;
	changes[0].rate = rate;
	if (!report(packet, found, RESERVED, changes))
		return 1;
	// The daemon would never learn of the session.
	if (session)
		half->rate = 0;
	else
		bpf_map_delete_elem((void *)&sessions, &message->keys);
disallow:
	return_share(allowance, 1);
undo_share:
	return_share(share, rate);
	return 0;
}

static __always_inline void count(__u32 key)
{
	__u64 *number = node_number(key);

	if (number)
		__sync_fetch_and_add(number, 1);
}

// Counts a message that is forwarded without a copy.
static __always_inline int count_forwarded(int is_reply, int is_refresh)
{
	count((is_refresh ? NODE_REFRESHES : NODE_OTHERS) + is_reply);
	return 1;
}

static __always_inline int is_released(const struct session *session)
{
	return !session->forward.rate && !session->reverse.rate;
}

static __always_inline int release(struct __sk_buff *packet, const struct packet *found, int is_reply,
				   struct session *session)
{
	struct change changes[2] = {};
	__u64 *forward = 0, *reverse = 0;

	// The message in the other direction; the daemon has not read the copy yet.
	if (is_released(session))
		return count_forwarded(is_reply, 0);
	changes[0].interface = session->forward.interface;
	changes[1].interface = session->reverse.interface;
	if (session->forward.rate && !(forward = share_of(changes[0].interface)))
		return 0;
	if (session->reverse.rate && !(reverse = share_of(changes[1].interface)))
		return 0;
	if (forward)
		changes[0].rate = bpf_ntohl(__sync_lock_test_and_set(&session->forward.rate, 0));
	if (reverse)
		changes[1].rate = bpf_ntohl(__sync_lock_test_and_set(&session->reverse.rate, 0));
	if (report(packet, found, RELEASED, changes)) {
		if (forward)
			session->forward.rate = bpf_htonl(changes[0].rate);
		if (reverse)
			session->reverse.rate = bpf_htonl(changes[1].rate);
		return 0;
	}
	if (forward)
		return_share(forward, changes[0].rate);
	if (reverse)
		return_share(reverse, changes[1].rate);
	return 1;
}

// The daemon takes any message as a proof that the sender continues, also of a direction without a reservation.
static __always_inline int refresh(int is_reply, struct half *half, __be32 wanted)
{
	half->seen = bpf_ktime_get_coarse_ns();
	__sync_fetch_and_add(&half->refreshes, 1);
	return count_forwarded(is_reply, wanted != 0);
}

// Whether a message comes from an end of a session, through the interface that the end is behind. Where no reply has
// arrived yet, that is the link that requests leave by.
static __always_inline int is_of_origin(const struct __sk_buff *packet, const struct packet *found, int is_reply,
					const struct session *session)
{
	__u32 arrival = session->forward.arrival;

	if (session->initiator != (is_reply ? found->destination : found->source))
		return 0;
	if (!arrival || session->far_end != (is_reply ? found->source : found->destination))
		return 0;
	if (is_reply)
		arrival = session->reverse.arrival ? session->reverse.arrival : session->forward.interface;
	return arrival && arrival == packet->ifindex;
}

// Handles a message if the kernel can; then the packet is forwarded.
static __always_inline int handle(struct __sk_buff *packet, const struct packet *found, struct reservation *message)
{
	struct session *session;
	struct half *half;
	__u64 *epoch;
	__be32 wanted;
	int is_reply;

	if (found->hops_left <= 1)
		return 0;
	if (message->type != RESERVATION || message->format != BITRATE_IPV4 || message->flags || message->version != VERSION)
		return 0;
	session = bpf_map_lookup_elem((void *)&sessions, &message->keys);
	is_reply = !message->echo.type;
	wanted = is_reply ? message->reverse : message->forward;
	epoch = node_number(NODE_EPOCH);
	if (!epoch || !has_right_checksum(message))
		return 0;
	if (session) {
		if (session->epoch != *epoch || !is_of_origin(packet, found, is_reply, session))
			return 0;
		if (!message->forward && !message->reverse)
			return release(packet, found, is_reply, session);
		if (session->interval != message->interval)
			return 0;
		half = is_reply ? &session->reverse : &session->forward;
		if (half->rate == wanted)
			return refresh(is_reply, half, wanted);
		if (half->rate || is_released(session))
			return 0;
	}
	return set_up(packet, found, message, session);
}

SEC("boomerang")
int earmark_boomerang(struct __sk_buff *packet)
{
	struct packet found = {};
	struct reservation message;

	if (read_packet(packet, &found) || found.protocol != (found.is_ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return NEXT_PROGRAM;
	if (found.is_ipv4 && found.length == found.payload + sizeof(message)) {
		if (load(packet, found.payload, &message, sizeof(message)) || !is_message(&found, &message.echo))
			return NEXT_PROGRAM;
		if (handle(packet, &found, &message)) {
			packet->mark = SIGNALLING_CLASS;
			return NEXT_PROGRAM;
		}
	} else if (found.payload + sizeof(message.echo) > found.length ||
		   load(packet, found.payload, &message.echo, sizeof(message.echo)) ||
		   !is_message(&found, &message.echo)) {
		return NEXT_PROGRAM;
	}
	return pass_to_daemon(packet, &found, CONSUMED);
}
