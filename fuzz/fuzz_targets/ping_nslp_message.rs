//! A message of Ping NSLP is read and written alike, and what a node does with it leaves a message.
#![no_main]

use earmark_wire::ping_nslp::{Ping, Timestamp, NodeRecord, append, count_hop};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let Ok(ping) = Ping::parse(octets) else { return };
    let length = ping.buffer_len();
    let mut written = vec![0xa5; length];
    assert_eq!(ping.emit(&mut written), Ok(length));
    assert_eq!(Ping::parse(&written), Ok(ping));
    let mut buffer = vec![0; ping.appended_len()];
    buffer[..length].copy_from_slice(&written);
    count_hop(&mut buffer[..length]).expect("it is a message");
    let time = Timestamp { seconds: 1, microseconds: 2 };
    let visit = NodeRecord { address: [192, 0, 2, 1].into(), time, available: Some(3) };
    let longer = append(&mut buffer, length, &visit).expect("it is a message");
    assert_eq!(longer, ping.appended_len());
    let after = Ping::parse(&buffer[..longer]).expect("it still is");
    assert_eq!(after.hops, ping.hops.saturating_add(1));
    assert_eq!(after.data[..ping.data.len()], *ping.data);
    after.records().for_each(|record| {
        let _ = (record.address(), record.time(), record.available());
    });
});
