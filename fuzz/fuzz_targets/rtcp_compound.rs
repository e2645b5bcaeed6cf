//! Any octets as a compound RTCP packet: no panic, and what parses survives being written and read again.
#![no_main]

use earmark_wire::rtcp::{Compound, Packet, buffer_len, emit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let compound = match Compound::parse(octets) {
        Ok(compound) => compound,
        Err(error) => {
            return assert!(error.offset <= octets.len() && !error.to_string().is_empty());
        }
    };
    let packets: Vec<Packet<'_>> = compound.packets().collect();
    for packet in &packets {
        if let Packet::SourceDescription(chunks) = packet {
            assert!(
                chunks.iter().map(|chunk| chunk.items().count()).sum::<usize>() <= octets.len()
            );
        }
    }
    let mut wire = vec![0xa5; buffer_len(&packets)];
    assert_eq!(emit(&packets, &mut wire), Ok(wire.len()));
    let again: Vec<Packet<'_>> =
        Compound::parse(&wire).expect("it was emitted").packets().collect();
    assert_eq!(again, packets);
});
