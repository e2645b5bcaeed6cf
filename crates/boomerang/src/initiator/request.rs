//! Conversion of an application's request into the fields of a message, with the reason if that is impossible.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Prefix, Rate};
use earmark_wire::boomerang::{Family, Keys, Rates, Shape};

use crate::api::{Rejection, Request, RequestedRates};

/// Converts the pairs of rates: one to 255, each non-zero, and none larger than the one before in either direction.
pub(super) fn rates(requested: &[RequestedRates], group: bool) -> Result<Vec<Rates>, Rejection> {
    let bits = |rate: Rate| u32::try_from(rate.as_bps()).map_err(|_| Rejection::BadRate);
    let mut rates: Vec<Rates> = Vec::with_capacity(requested.len());
    for request in requested {
        let pair = Rates { forward: bits(request.forward)?, reverse: bits(request.reverse)? };
        if pair == Rates::ZERO {
            return Err(Rejection::BadRate);
        }
        if group && pair.reverse != 0 {
            return Err(Rejection::Multicast);
        }
        let decreases = rates.last().is_none_or(|last| {
            *last != pair && pair.forward <= last.forward && pair.reverse <= last.reverse
        });
        if !decreases {
            return Err(Rejection::BadRateList);
        }
        rates.push(pair);
    }
    if rates.is_empty() || rates.len() > usize::from(u8::MAX) {
        return Err(Rejection::BadRateList);
    }
    Ok(rates)
}

/// Returns classifier and mask. An unspecified source becomes the address that the host sends from.
pub(super) fn keys(request: &Request, source: IpAddr) -> Result<(Keys, Shape), Rejection> {
    let mut selector = request.selector;
    let open = selector.source;
    let whole = open == Prefix::host(open.address());
    if open.address().is_unspecified() && whole && Family::of(open.address()) == Family::of(source)
    {
        selector.source = Prefix::host(source);
    }
    let (keys, shape) = selector.keys();
    let families = [selector.source.address(), selector.destination.address(), request.destination];
    let family = Family::of(source);
    let fits = families.into_iter().all(|address| Family::of(address) == family)
        && shape.keys(family).is_ok();
    fits.then_some((keys, shape)).ok_or(Rejection::BadSelector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(forward: u64, reverse: u64) -> RequestedRates {
        RequestedRates { forward: Rate::from_bps(forward), reverse: Rate::from_bps(reverse) }
    }

    #[test]
    fn invalid_rate_lists_are_rejected() {
        assert_eq!(rates(&[request(2, 1)], false), Ok([Rates { forward: 2, reverse: 1 }].into()));
        assert!(rates(&[request(3, 1), request(2, 1), request(0, 1)], false).is_ok());
        for (requested, group, reason) in [
            (&[][..], false, Rejection::BadRateList),
            (&[request(1, 1), request(2, 1)], false, Rejection::BadRateList),
            (&[request(1, 1), request(1, 1)], false, Rejection::BadRateList),
            (&[request(0, 0)], false, Rejection::BadRate),
            (&[request(1 << 32, 0)], false, Rejection::BadRate),
            (&[request(1, 1)], true, Rejection::Multicast),
        ] {
            assert_eq!(rates(requested, group), Err(reason), "{requested:?}");
        }
        let many: Vec<RequestedRates> = (1..=256).rev().map(|n| request(n, 0)).collect();
        assert_eq!(rates(&many, false), Err(Rejection::BadRateList));
        assert!(rates(&many[1..], false).is_ok());
    }
}
