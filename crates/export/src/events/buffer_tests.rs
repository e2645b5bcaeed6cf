use super::*;

const TIME: &str = "2026-11-28T10:00:00.000Z";

fn buffer(messages: usize, octets: usize) -> Buffer {
    let prefix = "earmark".parse().expect("a prefix");
    let mut buffer = Buffer::new(Bounds { messages, octets }, prefix, "run".to_owned());
    buffer.set_node("r1".to_owned());
    buffer
}

fn event(number: u64) -> Value {
    json!({ "protocol": "rsvp", "event": "path_state", "number": number })
}

/// Removes all messages. Returns their objects.
fn take(buffer: &mut Buffer) -> Vec<Value> {
    let mut objects = Vec::new();
    while let Some(message) = buffer.get(0) {
        objects.push(serde_json::from_slice(&message.payload).expect("JSON"));
        buffer.acknowledge(TIME);
    }
    objects
}

#[test]
fn message_has_node_time_run_number_and_event() {
    let mut buffer = buffer(4, 10_000);
    buffer.push(TIME, &event(7));
    let message = buffer.get(0).expect("a message");
    assert_eq!((&*message.subject, &*message.id), ("earmark.r1.rsvp.path_state", "r1-run-1"));
    let object: Value = serde_json::from_slice(&message.payload).expect("JSON");
    let expected =
        json!({ "node": "r1", "time": TIME, "run": "run", "sequence": 1, "event": event(7) });
    assert_eq!(object, expected);
}

#[test]
fn full_buffer_drops_newer_events_and_tells_their_count_once() {
    let mut buffer = buffer(8, 100_000);
    (1..=20).for_each(|number| buffer.push(TIME, &event(number)));
    assert_eq!((buffer.len(), buffer.dropped()), (8, 12));
    let objects = take(&mut buffer);
    let sequences: Vec<_> = objects.iter().map(|object| object["sequence"].as_u64()).collect();
    let expected: Vec<_> = (1..=8).chain([21]).map(Some).collect();
    assert_eq!(sequences, expected);
    let lost = &objects[8]["event"];
    assert_eq!(lost["event"], "lost");
    assert_eq!((&lost["events"], &lost["first_sequence"]), (&json!(12), &json!(9)));
    assert!(buffer.is_empty());
}

#[test]
fn loss_is_told_when_a_quarter_is_free_and_events_follow_it() {
    let mut buffer = buffer(8, 100_000);
    (1..=9).for_each(|number| buffer.push(TIME, &event(number)));
    buffer.acknowledge(TIME);
    // One place is free, and the event is dropped all the same.
    buffer.push(TIME, &event(10));
    assert_eq!(buffer.len(), 7);
    buffer.acknowledge(TIME);
    assert_eq!(buffer.len(), 7, "the loss is in the buffer");
    buffer.push(TIME, &event(11));
    let objects = take(&mut buffer);
    let kinds: Vec<_> =
        objects.iter().filter_map(|object| object["event"]["event"].as_str()).collect();
    assert_eq!(kinds[5..], ["path_state", "lost", "path_state"]);
    assert_eq!(objects[6]["event"]["events"], 2);
    assert_eq!(objects[7]["event"]["number"], 11);
}

#[test]
fn octets_are_bounded() {
    let mut buffer = buffer(1_000, 4_000);
    let long = json!({ "protocol": "rsvp", "event": "x", "text": "a".repeat(900) });
    (0..10).for_each(|_| buffer.push(TIME, &long));
    assert_eq!((buffer.len(), buffer.dropped()), (3, 7));
    take(&mut buffer);
    assert_eq!(buffer.octets, 0);
}

#[test]
fn dropped_interruption_is_counted_apart() {
    let mut buffer = buffer(1, 10_000);
    buffer.push(TIME, &event(1));
    buffer.push(TIME, &json!({ "protocol": "export", "event": "disconnected" }));
    buffer.push(TIME, &event(2));
    let objects = take(&mut buffer);
    let lost = &objects[1]["event"];
    assert_eq!((&lost["events"], &lost["interruptions"]), (&json!(1), &json!(1)));
}

#[test]
fn too_large_message_is_removed_and_told() {
    let mut buffer = buffer(8, 100_000);
    (1..=3).for_each(|number| buffer.push(TIME, &event(number)));
    buffer.drop_too_large(1, TIME);
    let objects = take(&mut buffer);
    let sequences: Vec<_> = objects.iter().map(|object| object["sequence"].as_u64()).collect();
    assert_eq!(sequences, [Some(1), Some(3), Some(4)]);
    let lost = &objects[2]["event"];
    assert_eq!((&lost["too_large"], &lost["first_sequence"]), (&json!(1), &json!(2)));
}
