//! Changes of a running reservation, and what the application is told of them.

use earmark_boomerang::{Command, Event, OnRefusal, Request, RequestedRates};
use earmark_core::Rate;
use earmark_wire::boomerang::Rates;

use crate::common::*;

/// Address of the initiating host.
const SELF: &str = "10.0.2.1";

fn back(bench: &mut Bench, message: &Message) -> Vec<Outcome> {
    bench.arrives(ETH2, ip(FAR), ip(SELF), &message.back())
}

/// An increase is refused, and the application returns to the rates that it has. It was told of the refusal last, so the
/// grant is news, although nothing has changed; that of a refresh is not.
#[test]
fn grant_after_a_refused_change_is_told() {
    let mut host = router();
    let rates = kbit(2_000, 500);
    let first = Request { on_refusal: OnRefusal::Retry, ..request(&[rates]) };
    let first = one(&host.reserve(first));
    let established = Event::Established { application: APP, rates, interval: 30, confirmed: true };
    assert_eq!(events(&back(&mut host, &first)), core::slice::from_ref(&established));
    let modify = |rates: Rates| {
        let rate = |bits: u32| Rate::from_bps(bits.into());
        let rates = RequestedRates { forward: rate(rates.forward), reverse: rate(rates.reverse) };
        Command::Modify { application: APP, rates: vec![rates] }
    };
    let more = one(&host.command(modify(kbit(5_000, 500))));
    let no = Message { flags: 1, key: 0, rates: vec![rates], ..more.clone() };
    let refused = Event::Refused { application: APP, offer: rates, reaction: OnRefusal::Retry };
    assert_eq!(events(&back(&mut host, &no)), [refused]);
    let again = one(&host.command(modify(rates)));
    assert_eq!(events(&back(&mut host, &again)), [established]);
    let refresh = one(&host.wait());
    assert_eq!(events(&back(&mut host, &refresh)), []);
}
