//! Text form of the diagnostic objects (RFC 2745), encoded by the figures of its section 3.
//!
//! ```text
//! DIAGNOSTIC max=0 count=1 id=7 mtu=1452 offset=0 last_hop=10.0.9.9 sender 10.0.0.1 port=4000 requester 10.0.9.9 port=0
//! DIAG_SELECT 9/2 12/0
//! ROUTE pointer=1 10.0.9.9
//! DIAG_RESPONSE at=1000 in=10.0.9.9 out=0.0.0.0 previous=10.0.2.1 hops=0 K=3 R=30 holds STYLE FF
//! ```

use std::net::IpAddr;

use earmark_wire::rsvp::{DiagResponse, Diagnostic, Object, ObjectClass, objects_in};

use crate::object::{self, Handles, addressed, filter, filter_text, frame, template};
use earmark_testkit::conformance::words::{Fault, Words};

/// Reads C-Type and body of such an object.
pub(crate) fn read(
    class: ObjectClass,
    words: &mut Words<'_>,
    handles: &Handles,
) -> Result<(u8, Vec<u8>), Fault> {
    match class {
        ObjectClass::Diagnostic => diagnostic(words),
        ObjectClass::DiagSelect => select(words),
        ObjectClass::Route => route(words),
        _ => response(words, handles),
    }
}

fn diagnostic(words: &mut Words<'_>) -> Result<(u8, Vec<u8>), Fault> {
    let more = u8::from(words.flag("more"));
    let mut body = vec![words.key("max")?, words.key("count")?, 0, more];
    body.extend(words.key::<u32>("id")?.to_be_bytes());
    body.extend(words.key::<u16>("mtu")?.to_be_bytes());
    body.extend(words.key::<u16>("offset")?.to_be_bytes());
    let (c_type, last_hop) = addressed(words.key("last_hop")?, &[]);
    body.extend(last_hop);
    let (head, _) = words.until(&["sender"]);
    let (mut sender, _) = words.until(&["requester"]);
    for (part, class) in
        [(&mut sender, ObjectClass::SenderTemplate), (words, ObjectClass::FilterSpec)]
    {
        let (c_type, octets) = template(filter(part)?);
        body.extend(frame(class.code(), c_type, &octets)?);
    }
    sender.end()?;
    head.end()?;
    Ok((c_type, body))
}

fn select(words: &mut Words<'_>) -> Result<(u8, Vec<u8>), Fault> {
    let mut body = Vec::new();
    while !words.is_empty() {
        let entry = words.next("class/c-type")?;
        let (class, c_type) = entry.split_once('/').ok_or("an entry looks like 9/2")?;
        for number in [class, c_type] {
            body.push(number.parse().map_err(|error| format!("{entry}: {error}"))?);
        }
    }
    body.resize(body.len().next_multiple_of(4), 0);
    Ok((1, body))
}

fn route(words: &mut Words<'_>) -> Result<(u8, Vec<u8>), Fault> {
    let (mut c_type, mut body) = (1, vec![0, 0, 0, words.key("pointer")?]);
    while !words.is_empty() {
        let (family, octets) = addressed(words.value("node")?, &[]);
        c_type = family;
        body.extend(octets);
    }
    Ok((c_type, body))
}

fn response(words: &mut Words<'_>, handles: &Handles) -> Result<(u8, Vec<u8>), Fault> {
    let (mut head, mut more) = words.until(&["holds"]);
    let mut body = head.key::<u32>("at")?.to_be_bytes().to_vec();
    let mut c_type = 1;
    for name in ["in", "out", "previous"] {
        let (family, octets) = addressed(head.key(name)?, &[]);
        c_type = family;
        body.extend(octets);
    }
    let merged = u8::from(head.flag("merged")) << 7;
    let error: u8 = head.maybe("error")?.unwrap_or(0);
    body.extend([head.key("hops")?, merged | error << 4 | head.key::<u8>("K")?]);
    body.extend(head.key::<u16>("R")?.to_be_bytes());
    head.end()?;
    while more.is_some() {
        let (part, next) = words.until(&["holds"]);
        body.extend(object::read(&part.text_of_all(), handles)?);
        more = next;
    }
    Ok((c_type, body))
}

/// Returns the line of such an object.
pub(crate) fn show(object: &Object<'_>, handles: &Handles) -> Option<String> {
    Some(match object {
        Object::Diagnostic(asked) => {
            let Diagnostic { max_hops, hop_count, request_id, path_mtu, .. } = asked;
            let more = if asked.more_fragments { " more" } else { "" };
            format!(
                "DIAGNOSTIC max={max_hops} count={hop_count} id={request_id} mtu={path_mtu} offset={}{more} \
                 last_hop={} sender {} requester {}",
                asked.fragment_offset,
                asked.last_hop,
                filter_text(&asked.sender),
                filter_text(&asked.requester)
            )
        }
        Object::DiagSelect(entries) => entries.iter().fold("DIAG_SELECT".into(), |text, entry| {
            format!("{text} {}/{}", entry.class_num, entry.c_type)
        }),
        Object::Route(route) => {
            let text = format!("ROUTE pointer={}", route.pointer);
            route.nodes.iter().fold(text, |text, node: IpAddr| format!("{text} {node}"))
        }
        Object::DiagResponse(response) => {
            let DiagResponse { arrival, incoming, outgoing, previous_hop, ip_hops, .. } = response;
            let merged = if response.merged { " merged" } else { "" };
            let error = match response.error {
                0 => String::new(),
                error => format!(" error={error}"),
            };
            let head = format!(
                "DIAG_RESPONSE at={arrival} in={incoming} out={outgoing} previous={previous_hop} \
                 hops={ip_hops}{merged}{error} K={} R={}",
                response.refresh_multiple, response.refresh_s
            );
            let mut text = head;
            for object in objects_in(response.objects) {
                text = format!("{text} holds {}", object::show(&object.ok()?, handles));
            }
            text
        }
        _ => return None,
    })
}
