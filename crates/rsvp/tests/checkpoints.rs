//! Checkpoints that messages pass, as a hook records them. Separately: `cargo test -p earmark-rsvp --features
//! checkpoints`.

mod common;
#[path = "common/signing.rs"]
mod signing;

use std::sync::atomic::{AtomicU32, Ordering};

use common::*;
use earmark_core::checkpoint::{Checkpoint, Hook, enable, set_hook};
use earmark_rsvp::Config;
use signing::*;

/// Bit `n` is checkpoint number `n`, set if it was passed since the last check.
static PASSED: AtomicU32 = AtomicU32::new(0);

fn note(checkpoint: Checkpoint) {
    PASSED.fetch_or(1 << checkpoint as u32, Ordering::Relaxed);
}

/// Whether a checkpoint was passed since the last check.
fn passed(checkpoint: Checkpoint) -> bool {
    PASSED.swap(0, Ordering::Relaxed) & 1 << checkpoint as u32 != 0
}

/// One test for all cases, because a process has only one hook.
#[test]
fn authentic_message_passes_integrity_checkpoint() {
    set_hook(&(note as Hook)).expect("the first one");
    enable(true);
    let mut bench = router_with_key();
    let plain = path_octets();
    let sign = |signer: Signer| signer.sign(&plain);
    for (octets, genuine) in [
        (plain.clone(), false),
        (sign(Signer { secret: b"a guess", ..SIGNER }), false),
        (sign(SIGNER), true),
        (sign(SIGNER), false), // replayed
        (sign(Signer { sequence: 2, ..SIGNER }), true),
    ] {
        receive_path(&mut bench, &octets);
        assert_eq!(passed(Checkpoint::Integrity), genuine, "{octets:?}");
    }
    // Without secured interfaces nothing is verified.
    let mut open = with_config(Config::default());
    for octets in [plain.clone(), sign(SIGNER)] {
        receive_path(&mut open, &octets);
        assert!(!passed(Checkpoint::Integrity), "{octets:?}");
    }
    receive_path(&mut open, &plain);
    assert!(passed(Checkpoint::Parse), "the hook still sees other points");
}
