//! Text form of the objects of RFC 2961, of the HELLO of RFC 3209, and of what stands beside it in RFC 3473 and 5063.
//!
//! `MESSAGE_ID epoch=5 id=7 ack-desired`, `MESSAGE_ID_ACK epoch=5 id=7`, with `nack` for a NACK, `MESSAGE_ID_LIST
//! epoch=5 7 8 9`, and `HELLO request source=1 destination=0`, or `ack`; `RESTART_CAP restart=30s recovery=0s` and
//! `CAPABILITY T R S`, with the flags that are set.

use earmark_testkit::conformance::words::{Fault, Seconds, Words};
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Capability, Hello, HelloKind, MessageId, Object,
    ObjectClass, RefreshIds, RefreshList, RestartCap,
};

/// Reads C-Type and body.
pub(crate) fn read(class: ObjectClass, words: &mut Words<'_>) -> Result<(u8, Vec<u8>), Fault> {
    if class == ObjectClass::Hello {
        let c_type = match words.next("request or ack")? {
            "request" => 1,
            "ack" => 2,
            other => return Err(format!("{other} is no HELLO")),
        };
        let instances = [words.key::<u32>("source")?, words.key::<u32>("destination")?];
        return Ok((c_type, instances.map(u32::to_be_bytes).concat()));
    }
    if class == ObjectClass::RestartCap {
        let times = [words.key::<Seconds>("restart")?, words.key("recovery")?];
        let ms = times.map(|Seconds(time)| (time.as_millis() as u32).to_be_bytes());
        return Ok((1, ms.concat()));
    }
    if class == ObjectClass::Capability {
        let flags = [(4, "T"), (2, "R"), (1, "S")];
        let set = flags.map(|(bit, name)| if words.flag(name) { bit } else { 0_u32 });
        return Ok((1, set.iter().sum::<u32>().to_be_bytes().to_vec()));
    }
    let flags = u8::from(words.flag("ack-desired"));
    let c_type = if words.flag("nack") { 2 } else { 1 };
    let epoch: u32 = words.key("epoch")?;
    let mut body = vec![flags];
    body.extend(&epoch.to_be_bytes()[1..]);
    if class == ObjectClass::MessageIdList {
        while !words.is_empty() {
            body.extend(words.value::<u32>("identifier")?.to_be_bytes());
        }
    } else {
        body.extend(words.key::<u32>("id")?.to_be_bytes());
    }
    Ok((c_type, body))
}

/// Returns the line of an object of these classes; `None` for others, and for multicast lists.
pub(crate) fn show(object: &Object<'_>) -> Option<String> {
    Some(match *object {
        Object::Hello(Hello { kind, source_instance, destination_instance }) => {
            let kind = if kind == HelloKind::Request { "request" } else { "ack" };
            format!("HELLO {kind} source={source_instance} destination={destination_instance}")
        }
        Object::RestartCap(RestartCap { restart_ms, recovery_ms }) => {
            let seconds = |ms| f64::from(ms) / 1_000.0;
            let (restart, recovery) = (seconds(restart_ms), seconds(recovery_ms));
            format!("RESTART_CAP restart={restart}s recovery={recovery}s")
        }
        Object::Capability(Capability { flags }) => {
            let set = [(4, " T"), (2, " R"), (1, " S")].into_iter();
            let set = set.filter(|(bit, _)| flags & bit != 0).map(|(_, name)| name);
            format!("CAPABILITY{}", set.collect::<String>())
        }
        Object::MessageId(MessageId { flags, epoch, id }) => {
            let ack = if flags & MessageId::ACK_DESIRED == 0 { "" } else { " ack-desired" };
            format!("MESSAGE_ID epoch={epoch} id={id}{ack}")
        }
        Object::MessageIdAck(Acknowledgement { kind, epoch, id }) => {
            let nack = if kind == AcknowledgementKind::Nack { " nack" } else { "" };
            format!("MESSAGE_ID_ACK{nack} epoch={epoch} id={id}")
        }
        Object::MessageIdList(RefreshList { epoch, ids: RefreshIds::Messages(ids) }) => {
            let ids: String = ids.iter().map(|id| format!(" {id}")).collect();
            format!("MESSAGE_ID_LIST epoch={epoch}{ids}")
        }
        _ => return None,
    })
}
