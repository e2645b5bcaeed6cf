//! Any octets as a Boomerang message: no panic, what parses survives being written and read again, and edits keep the
//! checksum of the ping around it.
#![no_main]

use earmark_wire::boomerang::iana::MAGIC;
use earmark_wire::boomerang::{
    CommonForm, Editor, Keys, QosView, Rates, Reservation, View, is_boomerang,
};
use earmark_wire::icmp::{Echo, HEADER, Kind, PseudoHeader, seal};
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
    if let Some(keys) = Keys::from_octets(octets) {
        let mut wire = [0xa5; 40];
        let length = keys.emit_to(&mut wire).expect("both families fit");
        assert_eq!(wire[..length], *octets);
    }
    read_common_form(octets);
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

/// The fast reader and the general one agree.
fn read_common_form(octets: &[u8]) {
    let mut message = [&[0; HEADER], octets].concat();
    seal(&mut message, PseudoHeader::V4, Kind::Reply, 1, 2).expect("it fits");
    let Some(common) = CommonForm::read(&message) else { return };
    assert!(is_boomerang(octets) && common.kind == Kind::Reply);
    let view = View::parse(octets).expect("the common form is a message");
    let fields = |view: &View<'_>| {
        (
            view.shape(),
            view.flags(),
            view.key(),
            view.refresh_interval(),
            format!("{:?}", view.qos()),
        )
    };
    assert_eq!(fields(&common.view()), fields(&view));
    assert_eq!(common.refresh_interval(), view.refresh_interval());
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
