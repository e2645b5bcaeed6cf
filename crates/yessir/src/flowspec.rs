//! Demand of a flowspec on a link.

use earmark_core::Rate;
use earmark_core::admission::{Demand, Service};
use earmark_wire::yessir::{FailureReason, Flowspec, codec};

use crate::config::{Config, Measuring};

/// The rate that a message requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RequestedRate {
    /// An explicit demand.
    Demand(Demand),
    /// A rate measured from reports.
    Measured(Measuring),
}

impl Config {
    /// Returns what a message requests; without a flowspec, the rate is measured from its reports.
    ///
    /// # Errors
    /// [`FailureReason::Flowspec`] if the flowspec is invalid.
    #[inline(always)]
    pub(crate) fn requested_rate(
        &self,
        flowspec: Option<&Flowspec>,
        ipv6: bool,
    ) -> Result<RequestedRate, FailureReason> {
        match flowspec {
            Some(Flowspec::Intserv(flowspec)) => match flowspec.validate() {
                Ok(()) => Ok(RequestedRate::Demand(Demand::from_flowspec(flowspec))),
                Err(_) => Err(FailureReason::Flowspec),
            },
            Some(&Flowspec::Codec { payload_type, frames }) => {
                let stream = codec::packet_stream(payload_type, frames, ipv6);
                let stream = stream.ok_or(FailureReason::Flowspec)?;
                let rate = Rate::from_bps(stream.bits_per_second());
                let demand = self.demand_of(rate, stream.packet);
                // All packets have this size.
                let min_packet = u16::try_from(stream.packet).unwrap_or(0);
                Ok(RequestedRate::Demand(Demand { min_packet, ..demand }))
            }
            Some(Flowspec::Class { rate, .. }) => {
                if !(rate.0.is_finite() && rate.0 > 0.0) {
                    return Err(FailureReason::Flowspec);
                }
                Ok(RequestedRate::Demand(self.demand_of(Rate::from_octets_per_second(rate.0), 0)))
            }
            Some(&Flowspec::Measured { window, headroom }) => {
                let usual = self.measuring;
                let window = if window == 0 { usual.window } else { window };
                Ok(RequestedRate::Measured(Measuring { window, headroom, ..usual }))
            }
            None => Ok(RequestedRate::Measured(self.measuring)),
        }
    }

    /// Returns controlled load at a rate, with the configured burst; `packet` is its largest packet, octets, 0 if
    /// unknown.
    pub(crate) fn demand_of(&self, rate: Rate, packet: u32) -> Demand {
        let burst = u128::from(rate.as_bps()) * self.burst.as_millis() / 8_000;
        let burst = u32::try_from(burst).unwrap_or(u32::MAX).max(self.min_burst).max(packet);
        Demand { service: Service::ControlledLoad, rate, burst, max_packet: packet, min_packet: 0 }
    }
}

#[cfg(test)]
mod tests {
    use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
    use earmark_wire::yessir::OctetRate;

    use super::*;

    const BUCKET: TokenBucket = TokenBucket {
        rate: 125_000.0,
        depth: 10_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 64,
        max_packet_size: 1_500,
    };

    #[test]
    fn flowspec_gives_its_demand() {
        let config = Config::default();
        let demand = |flowspec| match config.requested_rate(Some(&flowspec), false) {
            Ok(RequestedRate::Demand(demand)) => {
                (demand.rate.as_bps(), demand.burst, demand.max_packet, demand.min_packet)
            }
            other => panic!("{other:?}"),
        };
        let flowspec = FlowSpec::ControlledLoad(BUCKET);
        assert_eq!(demand(Flowspec::Intserv(flowspec)), (1_000_000, 10_000, 1_500, 64));
        let flowspec = FlowSpec::Guaranteed(BUCKET, Rspec { rate: 250_000.0, slack_us: 0 });
        assert_eq!(demand(Flowspec::Intserv(flowspec)), (2_000_000, 10_000, 1_500, 64));
        assert_eq!(
            demand(Flowspec::Codec { payload_type: 0, frames: 1 }),
            (80_000, 4_500, 200, 200)
        );
        let class = Flowspec::Class { dscp: 46, rate: OctetRate(1e6) };
        assert_eq!(demand(class), (8_000_000, 100_000, 0, 0));
        let measured = Flowspec::Measured { window: 10, headroom: 5 };
        let expected = Measuring { window: 10, headroom: 5, largest: None };
        assert_eq!(
            config.requested_rate(Some(&measured), false),
            Ok(RequestedRate::Measured(expected))
        );
        assert_eq!(
            config.requested_rate(None, false),
            Ok(RequestedRate::Measured(Measuring::default()))
        );
    }

    #[test]
    fn invalid_flowspec_is_rejected() {
        let config = Config::default();
        let class = |rate| Flowspec::Class { dscp: 0, rate: OctetRate(rate) };
        for flowspec in [
            Flowspec::Intserv(FlowSpec::ControlledLoad(TokenBucket { rate: -1.0, ..BUCKET })),
            Flowspec::Codec { payload_type: 96, frames: 1 },
            class(f32::NAN),
            class(f32::INFINITY),
            class(0.0),
        ] {
            let asked = config.requested_rate(Some(&flowspec), false);
            assert_eq!(asked, Err(FailureReason::Flowspec), "{flowspec:?}");
        }
    }
}
