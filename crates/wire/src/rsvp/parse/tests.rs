use proptest::prelude::*;

use super::*;
use crate::intserv::{Adspec, FlowSpec, Rspec, TokenBucket};
use crate::rsvp::refresh_reduction::MessageId;

const BUCKET: TokenBucket =
    TokenBucket { rate: 0.0, depth: 0.0, peak: 0.0, min_policed_unit: 0, max_packet_size: 0 };

fn address(bits: u32) -> IpAddr {
    IpAddr::V4((bits & 0x7fff_ffff | 1).into())
}

/// A message of one of the four types with fast parsing, with an ADSPEC of any form.
fn body<'a>(
    kind: usize,
    [destination, hop, _, lih, refresh_ms, _]: [u32; 6],
    port: u16,
    adspec: Option<&'a [u8]>,
    flows: &'a [FixedFilterFlow; 1],
) -> Body<'a> {
    let session = Session { destination: address(destination), protocol: 17, flags: 0, port };
    let hop = RsvpHop { address: address(hop), lih };
    let carried = Carried::NONE;
    let template = flows[0].filter;
    let flows = FlowDescriptors::FixedFilter(List::Items(flows));
    match kind {
        0 => Body::Path(Path {
            session,
            hop,
            refresh_ms,
            carried,
            sender: SenderDescriptor { template, tspec: BUCKET, adspec },
        }),
        1 => {
            let confirm = adspec.map(|_| address(lih));
            Body::Resv(Resv { session, hop, refresh_ms, confirm, scope: None, carried, flows })
        }
        2 => {
            let tspec = adspec.map(|_| BUCKET);
            Body::PathTear(PathTear { session, hop, carried, template, tspec })
        }
        _ => Body::ResvTear(ResvTear { session, hop, scope: None, carried, flows }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Fast and general parser agree, and the fast one accepts only messages that the general one accepts.
    #[test]
    fn fast_parser_agrees_with_general_parser(
        words: [u32; 6],
        ports: [bool; 2],
        options: [bool; 3],
        kind in 0_usize..4,
        damage in proptest::option::of((8usize..200, any::<u8>())),
    ) {
        let [_, _, _, lih, refresh_ms, port] = words;
        let [port, source_port] =
            [(ports[0], port >> 16), (ports[1], port)].map(|(some, port)| if some { port as u16 } else { 0 });
        let [with_more, with_id, guaranteed] = options;
        let mut adspec = [0; 80];
        prop_assert_eq!(Adspec::for_sender().emit(&mut adspec), Ok(80));
        let flowspec = if guaranteed {
            FlowSpec::Guaranteed(BUCKET, Rspec { rate: 1.0, slack_us: 0 })
        } else {
            FlowSpec::ControlledLoad(BUCKET)
        };
        let filter =
            FilterSpec { source: address(words[2]), selector: SourceSelector::Port(source_port) };
        let flows = [FixedFilterFlow { flowspec: Some(flowspec), filter }];
        let adspec = with_more.then_some(&adspec[..]);
        let body = body(kind, words, port, adspec, &flows);
        let message_id = with_id.then_some(MessageId { flags: 1, epoch: lih >> 8, id: refresh_ms });
        let message = Message { message_id, ..Message::new(1, body) };
        let mut wire = std::vec![0; message.buffer_len()];
        prop_assert!(message.emit(&mut wire).is_ok());
        let damage = damage.filter(|(at, _)| *at < wire.len());
        if let Some((at, octet)) = damage {
            wire[at] = octet;
        }
        let (name, behind) = common_form::message_id(&wire[8..]);
        let short = match kind {
            0 => common_form::path(behind),
            1 => common_form::resv(behind),
            2 => common_form::path_tear(behind),
            _ => common_form::resv_tear(behind),
        };
        if damage.is_none() {
            let is_common_form = port != 0 || source_port == 0;
            prop_assert_eq!(short, is_common_form.then_some(body));
            prop_assert_eq!(name, message_id);
        }
        if let Some(short) = short {
            let (header, objects) = CommonHeader::split(&wire).expect("it is long enough");
            let message = Message { message_id: name, ..Message::new(1, short) };
            prop_assert_eq!(any_message(header, &wire, objects), Ok(message));
        }
    }
}
