//! Division of a link: the plan that the operator gives, and the class parameters that follow from it.
//!
//! ```text
//! ea4d:  HTB, default class 2, sizes counted from the IP header on
//!  +- ea4d:1   the link: all of its bandwidth
//!      +- ea4d:2    best effort: what is not reservable, may borrow up to the link        priority 7
//!      +- ea4d:3    signalling and control traffic of this host: 1 %, may borrow up to 10 %   priority 0
//!      +- ea4d:5    control traffic of others: 1 % and no more                            priority 0
//!      +- ea4d:6..  services by DSCP, in their order: their rates, may borrow up to the link   priority 2..
//!      +- ea4d:10.. the pool: one class per reservation, its rate and no more             priority 1
//!      +- ea4d:4    or, if they share a class: all reservations together                  priority 1
//! ```
//!
//! A class for each reservation limits each to its rate whatever the others do, by queueing early packets; but the time
//! that HTB takes to create one is proportional to their number. With [`Queues::Aggregate`] all reservations share one
//! class, whose rate is the reservable bandwidth, and each has a token bucket in the classifier instead: excess packets
//! are sent with best effort (RFC 2211 section 6.3) and so cannot crowd the class.
//!
//! With [`Queues::Priority`] there is no HTB and nothing is shaped: the device's own rate is the link's. Buckets in the
//! classifier police each reservation, and the kernel's pfifo_fast (below mq on a device with several transmit queues)
//! has three bands: signalling and reserved traffic, services by DSCP, best effort.
//!
//! **What a rate counts.** A token bucket of RFC 2210 counts IP packets; HTB counts frames, which on Ethernet have a
//! header of 14 octets. So the root has a size table that subtracts these 14, and a reserved class has exactly the rate
//! and bucket of its reservation, whatever the packet size. The classes of the link itself, of best effort and of services
//! add the 14 again, because the bandwidth of a link counts them; or the overhead of the plan if that is more, such as
//! that of a tunnel. The ledger counts the overhead of reservations, so that all classes together fit the link.
//!
//! HTB lets a class within its own rate send whatever its parent has used, so reservations are safe as long as their
//! sum is: the ledger guards that sum. What is reservable plus 2 % should fit the bandwidth.

use std::time::Duration;

use earmark_core::admission::Demand;
use earmark_core::{InterfaceId, Markings, Rate};

use super::guarantee::{BucketParameters, Guarantee, MIN_RATE, octets_per_second};

/// The major number of our root qdisc, which identifies our objects.
pub(crate) const MAJOR: u16 = 0xea4d;
/// The class of the link as a whole.
pub(super) const LINK: u16 = 1;
/// The default class.
pub(super) const BEST_EFFORT: u16 = 2;
/// The class of our own signalling.
pub(super) const SIGNALLING: u16 = 3;
/// The class of all reservations together, if they share one.
pub(super) const RESERVED: u16 = 4;
/// The class of control traffic that this host forwards.
pub(super) const CONTROL: u16 = 5;
/// The class of the first service by DSCP.
pub(super) const FIRST_SERVICE: u16 = 6;
/// Kinds of classifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassifierChoice {
    /// BPF if the kernel supports it (TCX, Linux 6.6 and later), else u32.
    #[default]
    Auto,
    /// A BPF program with hash maps; an error if it is unavailable. At most 1 048 576 flows in all.
    Bpf,
    /// u32 filters: slower with many flows, at most 4 095 flows of one kind on an interface.
    U32,
}

/// Maximum number of services by DSCP.
pub const MAX_SERVICES: usize = 8;
/// The first class of the pool.
pub(super) const POOL: u16 = 0x10;
/// Maximum number of classes in a pool: their queues have the same numbers, which are below those that the kernel
/// assigns.
pub(super) const MAX_POOL: u32 = 0x7f00;

/// Limit of packets in the class that reservations share: bursts that coincide. The class is never full for long, since
/// the buckets admit no more than it sends.
pub(super) const SHARED_QUEUE: u32 = 1_000;
/// Priorities that pfifo_fast maps to bands (Linux: `sch_generic.c`): 0 for control and reserved, 1 for services, 2 for
/// best effort.
const CONTROL_PRIORITY: u32 = 7;
const RESERVED_PRIORITY: u32 = 6;
const SERVICE_PRIORITY: u32 = 0;
const BEST_EFFORT_PRIORITY: u32 = 2;
/// Burst of control traffic of others, as time at its rate.
const CONTROL_BURST: Duration = Duration::from_millis(250);
/// Burst of a flow of an earlier daemon whose bucket is unknown, as time at its rate.
pub(super) const ADOPTED_BURST: Duration = Duration::from_millis(2);
/// Burst of a service without a queue, as time at its rate.
const SERVICE_BURST: Duration = Duration::from_millis(10);

/// Limit of waiting signalling packets: a second of signalling at usual sizes and 10 Mbit/s.
pub(super) const SIGNALLING_QUEUE: u32 = 100;

/// Returns the full handle of one of our classes.
pub(crate) const fn handle(minor: u16) -> u32 {
    (MAJOR as u32) << 16 | minor as u32
}

/// Separation of reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Queues {
    /// A class for each reservation: up to some thousand reservations.
    #[default]
    PerFlow,
    /// One shared class, and a token bucket for each reservation: up to a million. Needs the BPF classifier.
    Aggregate,
    /// No classes and no shaping: a token bucket for each reservation, and strict priority in the device's own queues.
    /// Up to a million, at the rate of the device. Needs the BPF classifier.
    Priority,
}

impl Queues {
    /// Whether each reservation has a queue of its own, which limits it to its rate.
    pub(super) fn are_shaped(self) -> bool {
        self == Queues::PerFlow
    }

    /// Whether HTB shapes the link.
    pub(super) fn is_htb(self) -> bool {
        self != Queues::Priority
    }
}

/// A rate for unreserved packets with certain DSCPs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePlan {
    /// DSCPs of the packets, each below 64.
    pub dscps: Vec<u8>,
    /// Guaranteed rate of all of them together; they may also use what best effort leaves unused.
    pub rate: Rate,
}

/// Division of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// Index of the interface.
    pub interface: InterfaceId,
    /// Bandwidth of the link, counted with the link layer's header. All traffic together is shaped to it.
    pub bandwidth: Rate,
    /// Part of it that may be reserved; the rest is for best effort alone.
    pub reservable: Rate,
    /// Octets that the link adds to each IP packet; those of the kernel's link-layer header if these are more.
    pub overhead: u16,
    /// Separation of reservations.
    pub queues: Queues,
    /// Number of classes created in advance.
    pub pool: u32,
    /// Limit of classes, at most 32 512; above it an installation is refused.
    pub pool_limit: u32,
    /// Limit of packets in the best-effort queue.
    pub best_effort_queue: u32,
    /// Limit of packets in the queue of one reservation.
    pub reserved_queue: u32,
    /// Services by DSCP, the first one served first; at most [`MAX_SERVICES`].
    pub services: Vec<ServicePlan>,
    /// DSCPs that packets get. Needs the BPF classifier.
    pub markings: Markings,
}

impl LinkPlan {
    /// Returns a plan with default sizes: 256 classes in advance, 4 096 at most, 50 and 200 packets of queue.
    pub fn new(interface: InterfaceId, bandwidth: Rate, reservable: Rate) -> LinkPlan {
        LinkPlan {
            interface,
            bandwidth,
            reservable,
            overhead: 0,
            queues: Queues::PerFlow,
            pool: 256,
            pool_limit: 4_096,
            best_effort_queue: 50,
            reserved_queue: 200,
            services: Vec::new(),
            markings: Markings::default(),
        }
    }

    /// Returns the priority of a reservation's packets; `class` is its own, if it has one.
    pub(super) fn reserved_priority(&self, class: Option<u16>) -> u32 {
        match (self.queues, class) {
            (Queues::PerFlow, Some(minor)) => handle(minor),
            (Queues::PerFlow | Queues::Aggregate, _) => handle(RESERVED),
            (Queues::Priority, _) => RESERVED_PRIORITY,
        }
    }

    /// Returns the classifier's settings for the link.
    pub(super) fn settings(&self, properties: LinkProperties) -> LinkSettings {
        let bandwidth = octets_per_second(self.bandwidth);
        let is_htb = self.queues.is_htb();
        let priority = |minor, band| if is_htb { handle(minor) } else { band };
        let bucket = |rate, burst| BucketParameters::of_rate(rate, burst);
        let services = self.services.iter().zip(FIRST_SERVICE..).map(|(service, minor)| {
            let guarantee = Guarantee {
                bucket: bucket(octets_per_second(service.rate), SERVICE_BURST),
                class: priority(minor, SERVICE_PRIORITY),
                mark: None,
            };
            (service.dscps.clone(), guarantee)
        });
        LinkSettings {
            is_shaped: self.queues.are_shaped(),
            are_services_shaped: is_htb,
            signalling: priority(SIGNALLING, CONTROL_PRIORITY),
            // HTB has a default class for packets without one.
            best_effort: if is_htb { 0 } else { BEST_EFFORT_PRIORITY },
            overhead: properties.overhead.into(),
            control: Guarantee {
                bucket: bucket(signalling_rate(bandwidth), CONTROL_BURST),
                class: priority(CONTROL, CONTROL_PRIORITY),
                mark: None,
            },
            marks: self.markings.taken(),
            services: services.take(MAX_SERVICES).collect(),
        }
    }
}

/// The classifier's settings for a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkSettings {
    /// Whether each claim has a queue of its own.
    pub(super) is_shaped: bool,
    /// Whether each service has a class of its own.
    pub(super) are_services_shaped: bool,
    /// The priority of signalling.
    pub(super) signalling: u32,
    /// The priority of unreserved packets.
    pub(super) best_effort: u32,
    /// Octets of link header in a packet's length.
    pub(super) overhead: u32,
    /// Guarantee of control traffic of others.
    pub(super) control: Guarantee,
    /// DSCPs, as bits, that only packets of claims have.
    pub(super) marks: u64,
    /// Guarantees of packets with certain DSCPs.
    pub(super) services: Vec<(Vec<u8>, Guarantee)>,
}

/// Properties of an interface that its class parameters depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkProperties {
    /// Largest IP packet, octets.
    pub(super) mtu: u32,
    /// Octets of link-layer header that the kernel counts in a packet's length.
    pub(super) overhead: u16,
    /// Transmit queues of the device.
    pub(super) queues: u32,
}

/// The parameters of a class in the kernel's units, so that they can be compared with a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassParameters {
    /// Octets per second.
    pub(super) rate: u64,
    /// Octets per second that it may reach by borrowing.
    pub(super) ceiling: u64,
    /// Bucket of the rate: the time to fill it, in ticks of 64 ns.
    pub(super) buffer: u32,
    /// Bucket of the ceiling: the time to fill it, in ticks of 64 ns.
    pub(super) ceiling_buffer: u32,
    /// Octets per turn among borrowers.
    pub(super) quantum: u32,
    /// Priority; 0 is served first.
    pub(super) priority: u32,
    /// Octets added to the size of each packet.
    pub(super) overhead: u16,
}

/// Rate of a class without owner, octets per second. No entry names it; if a packet is left in it nevertheless, it
/// must not cause a long debt, which the next owner would inherit.
const PARKED_RATE: u64 = 125_000;

impl ClassParameters {
    /// Returns the parameters of the link as a whole.
    pub(super) fn link(plan: &LinkPlan, properties: LinkProperties) -> ClassParameters {
        let rate = octets_per_second(plan.bandwidth);
        Self::new(rate, rate, 0, properties).counting_overhead(plan, properties)
    }

    /// Returns the parameters of best effort: all unreserved traffic.
    pub(super) fn best_effort(plan: &LinkPlan, properties: LinkProperties) -> ClassParameters {
        let bandwidth = octets_per_second(plan.bandwidth);
        let services = plan.services.iter().map(|service| octets_per_second(service.rate));
        let promised = services
            .fold(octets_per_second(plan.reservable), u64::saturating_add)
            .saturating_add(2 * signalling_rate(bandwidth));
        let rate = bandwidth.saturating_sub(promised).max(bandwidth / 100).max(MIN_RATE);
        let parameters =
            Self::new(rate, bandwidth, 0, properties).counting_overhead(plan, properties);
        ClassParameters { priority: 7, ..parameters }
    }

    /// Returns the parameters of our own signalling: enough to pass in any flood, and little enough that forged
    /// messages do no harm.
    pub(super) fn signalling(plan: &LinkPlan, properties: LinkProperties) -> ClassParameters {
        let bandwidth = octets_per_second(plan.bandwidth);
        let rate = signalling_rate(bandwidth);
        let ceiling = (bandwidth / 10).max(rate);
        ClassParameters { priority: 0, ..Self::new(rate, ceiling, 0, properties) }
    }

    /// Returns the parameters of others' control traffic: a bucket in the classifier limits it to this, if there is
    /// one.
    pub(super) fn control(plan: &LinkPlan, properties: LinkProperties) -> ClassParameters {
        let rate = signalling_rate(octets_per_second(plan.bandwidth));
        ClassParameters { priority: 0, ..Self::new(rate, rate, 0, properties) }
    }

    /// Returns the parameters of a service by DSCP; the first one has index 0.
    pub(super) fn service(
        plan: &LinkPlan,
        service: &ServicePlan,
        index: u32,
        properties: LinkProperties,
    ) -> ClassParameters {
        let bandwidth = octets_per_second(plan.bandwidth);
        let rate = octets_per_second(service.rate).max(MIN_RATE);
        let parameters =
            Self::new(rate, bandwidth.max(rate), 0, properties).counting_overhead(plan, properties);
        ClassParameters { priority: (2 + index).min(6), ..parameters }
    }

    /// Returns the parameters of all reservations together, if they share a class. Its bucket holds 10 ms at its rate,
    /// so that packets of many flows may arrive at the same moment.
    pub(super) fn all_reserved(plan: &LinkPlan, properties: LinkProperties) -> ClassParameters {
        let rate = octets_per_second(plan.reservable).max(MIN_RATE);
        let burst = u32::try_from(rate / 100).unwrap_or(u32::MAX);
        Self::new(rate, rate, burst, properties)
    }

    /// Returns the parameters of a class without owner.
    pub(super) fn parked(properties: LinkProperties) -> ClassParameters {
        Self::new(PARKED_RATE, PARKED_RATE, 0, properties)
    }

    /// Returns the parameters of a reservation: its rate and its bucket, without borrowing. Excess waits in the queue
    /// of the class and is then dropped; borrowed bandwidth would displace best effort, since HTB has one priority for
    /// both.
    pub(super) fn reserved(demand: &Demand, properties: LinkProperties) -> ClassParameters {
        let rate = octets_per_second(demand.rate).max(MIN_RATE);
        Self::new(rate, rate, demand.burst.max(demand.max_packet), properties)
    }

    fn new(rate: u64, ceiling: u64, burst: u32, properties: LinkProperties) -> ClassParameters {
        ClassParameters {
            rate,
            ceiling,
            buffer: buffer(rate, burst, properties),
            ceiling_buffer: buffer(ceiling, burst, properties),
            quantum: properties.mtu.clamp(1_500, 100_000),
            priority: 1,
            overhead: 0,
        }
    }

    fn counting_overhead(self, plan: &LinkPlan, properties: LinkProperties) -> ClassParameters {
        ClassParameters { overhead: plan.overhead.max(properties.overhead), ..self }
    }

    /// Returns the rate, for display.
    pub(super) fn as_rate(&self) -> Rate {
        Rate::from_bps(self.rate.saturating_mul(8))
    }
}

fn signalling_rate(bandwidth: u64) -> u64 {
    (bandwidth / 100).max(8_000).min(bandwidth.max(MIN_RATE))
}

/// Returns the size of a bucket of `burst` octets, or of one packet if that is more, plus the octets of the 1 ms by
/// which the kernel's timer may be late; as the time to fill it at `rate`, in ticks of 64 ns. The kernel's number ends
/// at 274 s: a larger bucket is limited to that, and excess waits in the queue.
fn buffer(rate: u64, burst: u32, properties: LinkProperties) -> u32 {
    let octets = u64::from(burst.max(properties.mtu)) + rate / 1_000;
    let nanoseconds = u128::from(octets) * 1_000_000_000 / u128::from(rate.max(1));
    u32::try_from(nanoseconds / 64).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use earmark_core::admission::Service;

    use super::*;

    const ETHERNET: LinkProperties = LinkProperties { mtu: 1_500, overhead: 14, queues: 1 };

    #[test]
    fn a_reservation_gets_its_rate_and_bucket() {
        let demand = Demand {
            service: Service::ControlledLoad,
            rate: Rate::from_bps(2_000_001),
            burst: 25_000,
            max_packet: 1_500,
            min_packet: 0,
        };
        let parameters = ClassParameters::reserved(&demand, ETHERNET);
        assert_eq!(parameters.rate, 250_001, "rounded up to a whole octet");
        assert_eq!(parameters.ceiling, parameters.rate);
        assert_eq!(parameters.overhead, 0, "counted from the IP header on");
        // 25 000 octets and a millisecond's 250, at 250 001 octets per second: 101 ms of 64 ns ticks.
        assert_eq!(parameters.buffer, 1_578_118);
    }

    /// Best effort keeps a little even if all bandwidth is reservable.
    #[test]
    fn best_effort_gets_the_rest_of_the_link() {
        let plan = LinkPlan::new(InterfaceId(1), Rate::from_mbps(10), Rate::from_mbps(8));
        let best_effort = ClassParameters::best_effort(&plan, ETHERNET);
        assert_eq!(best_effort.rate, (10_000_000 - 8_000_000 - 2 * 100_000) / 8);
        assert_eq!(best_effort.ceiling, 1_250_000);
        let all = LinkPlan::new(InterfaceId(1), Rate::from_mbps(10), Rate::from_mbps(10));
        assert_eq!(ClassParameters::best_effort(&all, ETHERNET).rate, 12_500);
    }

    /// The ledger counts the overhead of a reservation; its class counts IP octets.
    #[test]
    fn unreserved_packets_count_with_the_larger_overhead() {
        let tunnel = LinkProperties { overhead: 0, ..ETHERNET };
        for (overhead, properties, expected) in
            [(0, ETHERNET, 14), (38, ETHERNET, 38), (0, tunnel, 0), (24, tunnel, 24)]
        {
            let plan = LinkPlan::new(InterfaceId(1), Rate::from_mbps(10), Rate::from_mbps(8));
            let plan = LinkPlan { overhead, ..plan };
            let service = ServicePlan { dscps: vec![34], rate: Rate::from_mbps(1) };
            for parameters in [
                ClassParameters::link(&plan, properties),
                ClassParameters::best_effort(&plan, properties),
                ClassParameters::service(&plan, &service, 0, properties),
            ] {
                assert_eq!(parameters.overhead, expected);
            }
            assert_eq!(ClassParameters::all_reserved(&plan, properties).overhead, 0);
            assert_eq!(plan.settings(properties).overhead, u32::from(properties.overhead));
        }
    }

    /// Many tiny reservations take hardly more than the ledger counts, and a bucket that the kernel cannot express is
    /// limited.
    #[test]
    fn tiny_reservations_take_hardly_more_than_counted() {
        let demand = Demand {
            service: Service::Guaranteed,
            rate: Rate::from_bps(1),
            burst: u32::MAX,
            max_packet: 1_500,
            min_packet: 0,
        };
        let parameters = ClassParameters::reserved(&demand, ETHERNET);
        assert_eq!(parameters.as_rate(), Rate::from_bps(200));
        assert_eq!(parameters.buffer, u32::MAX);
    }

    /// Neither end of the scale overflows or divides by zero.
    #[test]
    fn extreme_rates_stay_within_kernel_limits() {
        for bps in [0, 1, 7, u64::MAX] {
            let plan = LinkPlan::new(InterfaceId(1), Rate::from_bps(bps), Rate::from_bps(bps));
            for parameters in [
                ClassParameters::link(&plan, ETHERNET),
                ClassParameters::best_effort(&plan, ETHERNET),
                ClassParameters::signalling(&plan, ETHERNET),
            ] {
                assert!(parameters.rate >= 1 && parameters.ceiling >= 1);
            }
        }
    }
}
