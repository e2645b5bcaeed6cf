//! Any octets as the body of a SENDER_TSPEC, a FLOWSPEC or an ADSPEC: no panic, what parses survives being written and
//! read again, and a router passes an ADSPEC on as a valid one.
#![no_main]

use earmark_wire::intserv::{
    Adspec, FlowSpec, GuaranteedHop, HopCharacteristics, LocalOverrides, SenderTspec,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    match SenderTspec::parse(octets) {
        Ok(tspec) => {
            let mut wire = [0xa5; SenderTspec::BODY_LEN];
            assert_eq!(tspec.emit(&mut wire), Ok(wire.len()));
            same(&SenderTspec::parse(&wire), &tspec);
            let _ = tspec.validate();
        }
        Err(error) => assert!(error.offset <= octets.len()),
    }
    match FlowSpec::parse(octets) {
        Ok(flowspec) => {
            let mut wire = [0xa5; 64];
            let length = flowspec.emit(&mut wire).expect("it is short");
            same(&FlowSpec::parse(&wire[..length]), &flowspec);
            let _ = flowspec.validate();
        }
        Err(error) => assert!(error.offset <= octets.len()),
    }
    read_adspec(octets);
});

/// Compares as text: NaN is a value that arrives, and not equal to itself.
fn same<T: std::fmt::Debug, E: std::fmt::Debug>(again: &Result<T, E>, value: &T) {
    let again = again.as_ref().expect("it was emitted");
    assert_eq!(format!("{again:?}"), format!("{value:?}"));
}

fn read_adspec(octets: &[u8]) {
    let adspec = match Adspec::parse(octets) {
        Ok(adspec) => adspec,
        Err(error) => {
            assert_eq!(Adspec::check(octets), Err(error));
            return assert!(error.offset <= octets.len());
        }
    };
    assert_eq!(Adspec::check(octets), Ok(()));
    let wire = emit(&adspec);
    let again = Adspec::parse(&wire).expect("it was emitted");
    assert_eq!(emit(&again), wire);
    let _ = adspec.validate();
    let local = LocalOverrides { bandwidth: Some(5e5), latency_us: Some(9), mtu: None };
    let guaranteed = GuaranteedHop { c: 100, d: 200, reshapes: false, overrides: local };
    for (guaranteed, controlled_load) in [(None, None), (Some(guaranteed), Some(local))] {
        let hop = HopCharacteristics {
            bandwidth: 1e6,
            latency_us: 7,
            mtu: 1_400,
            guaranteed,
            controlled_load,
            non_is_hop: guaranteed.is_none(),
        };
        let passed = emit(&adspec.advertise(&hop));
        Adspec::parse(&passed).expect("a router's is one");
        let mut in_place = vec![0xa5; octets.len() + 64];
        if let Some(length) = Adspec::forward(octets, &hop, &mut in_place) {
            assert_eq!(in_place[..length], passed);
        }
    }
}

fn emit(adspec: &Adspec<'_>) -> Vec<u8> {
    let mut wire = vec![0xa5; adspec.buffer_len()];
    assert_eq!(adspec.emit(&mut wire), Ok(wire.len()));
    wire
}
