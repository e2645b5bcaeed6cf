//! JSON Schemas of the objects of the control protocol, generated from their types.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::protocols;
use crate::{
    AggregateRow, ApplicationRow, AssociationRow, Changed, ConfigAnswer, Keep, LinkRow, LogAnswer,
    NeighborRow, Opened, PathAnswer, PinholeRow, Released, Request, ReservationRow, Response,
    RoutingStateRow, SessionRow, Statistics, TraceBegun, TranslationRow, VERSION, Versions,
    Watching,
};

/// Returns the schema of all lines of the protocol: requests, responses, and the objects in them.
///
/// A response `{"ok": ANSWER}` has the answer of its request, `answers` below; the `options` of `reserve` and `listen` are
/// those of the protocol that the request names.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let request = generator.subschema_for::<Request>();
    let response = generator.subschema_for::<Response>();
    let answers = answers(&mut generator);
    let mut by_protocol = Map::new();
    for (protocol, name, schema) in protocols::options(&mut generator) {
        by_protocol.entry(protocol).or_insert_with(|| json!({}))[name] = schema;
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("Control protocol of Earmark, version {VERSION}"),
        "oneOf": [request, response],
        "answers": answers,
        "options": by_protocol,
        "$defs": generator.take_definitions(true),
    })
}

/// Returns the schemas of the answers by request; `show` has one for each kind of row.
fn answers(generator: &mut SchemaGenerator) -> Value {
    let opened = generator.subschema_for::<Opened>();
    json!({
        "reserve": opened,
        "listen": opened,
        "ping": opened,
        "open": opened,
        "expose": opened,
        "change": generator.subschema_for::<Changed>(),
        "release": generator.subschema_for::<Released>(),
        "keep": generator.subschema_for::<Keep>(),
        "statistics": generator.subschema_for::<Statistics>(),
        "watch": generator.subschema_for::<Watching>(),
        "trace": generator.subschema_for::<TraceBegun>(),
        "path": generator.subschema_for::<PathAnswer>(),
        "log": generator.subschema_for::<LogAnswer>(),
        "config": generator.subschema_for::<ConfigAnswer>(),
        "version": generator.subschema_for::<Versions>(),
        "show": {
            "sessions": generator.subschema_for::<SessionRow>(),
            "reservations": generator.subschema_for::<ReservationRow>(),
            "links": generator.subschema_for::<LinkRow>(),
            "neighbors": generator.subschema_for::<NeighborRow>(),
            "aggregates": generator.subschema_for::<AggregateRow>(),
            "routing_state": generator.subschema_for::<RoutingStateRow>(),
            "associations": generator.subschema_for::<AssociationRow>(),
            "pinholes": generator.subschema_for::<PinholeRow>(),
            "translations": generator.subschema_for::<TranslationRow>(),
            "applications": generator.subschema_for::<ApplicationRow>(),
        },
    })
}
