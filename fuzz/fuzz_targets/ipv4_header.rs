//! Any octets as an IPv4 packet: no panic, and the fields that can be written survive it.
#![no_main]

use earmark_wire::ipv4::{Packet, Repr};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let Ok(packet) = Packet::parse(octets) else {
        return;
    };
    assert!(packet.options().count() <= 40);
    let repr = Repr::from_packet(&packet);
    let mut wire = vec![0xa5; repr.header_len() + repr.payload_len];
    match repr.emit(&mut wire) {
        Ok(length) => {
            wire[length..].copy_from_slice(packet.payload());
            let again = Packet::parse(&wire).expect("what was emitted parses");
            assert_eq!(Repr::from_packet(&again), repr);
            assert_eq!(again.payload(), packet.payload());
        }
        // Only a router alert that the packet itself did not have room for makes it longer.
        Err(_) => assert!(wire.len() > usize::from(u16::MAX)),
    }
});
