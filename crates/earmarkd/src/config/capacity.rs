//! Bandwidth of a link and the part of it that may be reserved, from the file and from the link's driver.

use earmark_core::Rate;

use super::{InterfaceConfig, Reservable};

/// Bandwidth of a link and the part of it that may be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bandwidth of the link; traffic control shapes to it.
    pub bandwidth: Rate,
    /// The part of the bandwidth that may be reserved.
    pub reservable: Rate,
}

impl InterfaceConfig {
    /// Returns the capacity of the link from the configured bandwidth, or from the `speed` that the link's driver reports if
    /// none is configured; `None` if neither is known.
    pub fn capacity(&self, speed: Option<Rate>) -> Option<Capacity> {
        let bandwidth = self.bandwidth.or(speed).filter(|bandwidth| *bandwidth > Rate::ZERO)?;
        let reservable = match self.reservable {
            Reservable::Share(share) => bandwidth.share(share),
            Reservable::Rate(rate) => rate.min(bandwidth),
        };
        let reservable = reservable.min(self.left_by_services(bandwidth));
        Some(Capacity { bandwidth, reservable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(
        bandwidth: Option<u64>,
        reservable: Reservable,
        speed: Option<u64>,
    ) -> Option<(u64, u64)> {
        let config = InterfaceConfig {
            bandwidth: bandwidth.map(Rate::from_mbps),
            reservable,
            ..InterfaceConfig::new("eth0", Rate::ZERO)
        };
        let capacity = config.capacity(speed.map(Rate::from_mbps))?;
        Some((capacity.bandwidth.as_bps() / 1_000_000, capacity.reservable.as_bps() / 1_000_000))
    }

    #[test]
    fn capacity_comes_from_the_file_and_otherwise_from_the_driver() {
        let half = Reservable::Share(0.5);
        assert_eq!(capacity(Some(10), half, None), Some((10, 5)));
        assert_eq!(capacity(Some(10), half, Some(1_000)), Some((10, 5)));
        assert_eq!(capacity(None, half, Some(1_000)), Some((1_000, 500)));
        assert_eq!(capacity(None, half, None), None);
        assert_eq!(capacity(None, half, Some(0)), None);
    }

    #[test]
    fn services_reduce_reservable_rate() {
        let rate = Rate::from_mbps(4);
        let services = vec![earmark_linux::ServicePlan { dscps: vec![46], rate }];
        let config = InterfaceConfig { services, ..InterfaceConfig::new("eth0", Rate::ZERO) };
        let config = InterfaceConfig { bandwidth: None, ..config };
        let reservable = |mbps| config.capacity(Some(Rate::from_mbps(mbps))).map(|c| c.reservable);
        assert_eq!(reservable(100), Some(Rate::from_mbps(75)));
        assert_eq!(reservable(10), Some(Rate::from_bps(5_700_000)));
        assert_eq!(reservable(4), Some(Rate::ZERO));
    }

    #[test]
    fn reservable_rate_is_limited_by_speed() {
        let rate = Reservable::Rate(Rate::from_mbps(500));
        assert_eq!(capacity(None, rate, Some(1_000)), Some((1_000, 500)));
        assert_eq!(capacity(None, rate, Some(100)), Some((100, 100)));
    }
}
