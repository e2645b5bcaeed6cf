//! Any octets as a QSPEC: no panic, what parses survives being written and read again, and so it does after an error of
//! value has been marked in it.
#![no_main]

use earmark_wire::qspec::{Editor, Qspec};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let qspec = match Qspec::parse(octets) {
        Ok(qspec) => qspec,
        Err(error) => {
            return assert!(error.offset <= octets.len() && !error.to_string().is_empty());
        }
    };
    let mut wire = vec![0xa5; qspec.buffer_len()];
    assert_eq!(qspec.emit(&mut wire), Ok(wire.len()));
    assert_eq!(Qspec::parse(&wire), Ok(qspec));
    if let Err(error) = qspec.validate() {
        let object = error.object.expect("values are in objects");
        let mut editor = Editor::new(&mut wire).expect("it was emitted");
        assert!(editor.fail(object, error.parameter));
        Qspec::parse(&wire).expect("flags do not break it");
    }
});
