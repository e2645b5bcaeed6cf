//! Any octets as a Boomerang message: no panic, what parses survives being written and read again, and edits keep the
//! checksum of the ping around it.
#![no_main]

use earmark_wire::boomerang::iana::MAGIC;
use earmark_wire::boomerang::{Editor, QosView, Rates, Reservation, View};
use earmark_wire::icmp::{Echo, PseudoHeader, HEADER, Kind, seal};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    round_trip(octets);
    // MAGIC, type and version hold a fuzzer up for long; with them mended it gets to what is behind.
    if octets.len() > 24 {
        let mut mended = octets.to_vec();
        mended[..4].copy_from_slice(&MAGIC.to_be_bytes());
        mended[8] = 0x10;
        mended[13] = 1;
        round_trip(&mended);
    }
});

fn round_trip(octets: &[u8]) {
    let Ok(view) = View::parse(octets) else {
        assert!(Reservation::parse(octets).is_err());
        return;
    };
    let _ = (view.shape(), view.covered(), view.options().iter().count());
    edit(octets, &view);
    match Reservation::parse(octets) {
        Err(error) => {
            let _ = error.to_string();
        }
        Ok(message) => {
            let mut wire = vec![0xa5; message.buffer_len()];
            assert_eq!(message.emit(&mut wire), Ok(wire.len()));
            assert_eq!(wire.len(), octets.len());
            assert_eq!(Reservation::parse(&wire), Ok(message));
        }
    }
}

fn edit(octets: &[u8], view: &View<'_>) {
    let mut message = [&[0; HEADER], octets].concat();
    seal(&mut message, PseudoHeader::V4, Kind::Request, 1, 2).expect("it fits");
    let mut editor = Editor::new(&mut message, view);
    editor.set_nack();
    editor.set_key(0);
    editor.lower_refresh_interval(5);
    match view.qos() {
        QosView::Bitrate(_) => editor.set_rates(Rates::ZERO),
        QosView::Downgrade(list) => (0..list.len()).for_each(|number| editor.zero_element(number)),
    }
    let echo = Echo::parse(&message, PseudoHeader::V4).expect("the checksum is right");
    let edited = View::parse(echo.data).expect("the layout is the same");
    assert!(edited.flags().is_nack() && edited.key() == 0 && edited.refresh_interval() <= 5);
}
