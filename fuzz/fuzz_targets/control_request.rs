//! Any octets as a line of the control socket, and as a line of a recording: no panic, and what parses survives being
//! written and read again.
#![no_main]

use std::fmt::Debug;

use earmark_control::Request;
use earmark_core::record::{RecordedInput, Timed};
use earmark_node::{Command, HostUpdate};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fuzz_target!(|octets: &[u8]| {
    read::<Request>(octets);
    read::<Timed<RecordedInput<Command>>>(octets);
    read::<HostUpdate>(octets);
});

fn read<T: Serialize + DeserializeOwned + Debug>(octets: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(octets) else { return };
    // Infinity and NaN, which no JSON has, are the only values that cannot be written.
    let Ok(line) = serde_json::to_vec(&value) else { return };
    if let Ok(again) = serde_json::from_slice::<T>(&line) {
        assert_eq!(serde_json::to_vec(&again).expect("it was written before"), line);
    }
}
