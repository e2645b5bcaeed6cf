//! `docs/control-protocol.md` describes the types: every request, member, option and member of an event, and no other.
#![cfg(feature = "schema")]

use std::collections::BTreeSet;

use earmark_control::schema;
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/control-protocol.md");

/// Returns the text below a heading, up to the next one of its level.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let level = heading.split(' ').next()?;
    let body = &text[text.find(&format!("\n{heading}\n"))? + heading.len() + 2..];
    let end = body.find(&format!("\n{level} ")).unwrap_or(body.len());
    Some(&body[..end])
}

/// Returns the words in backticks of the first cell of each row.
fn first_cells(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| {
        row[2..].split('|').next().unwrap_or_default().split('`').skip(1).step_by(2)
    })
    .map(str::to_owned)
    .collect()
}

/// Returns the members of a schema, which may be a reference.
fn members(document: &Value, schema: &Value) -> BTreeSet<String> {
    let schema = match schema["$ref"].as_str() {
        Some(path) => document.pointer(path.trim_start_matches('#')).expect("a definition"),
        None => schema,
    };
    schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// Returns the requests by name, each with its schema.
fn requests(document: &Value) -> Vec<(String, Value)> {
    let variants = document["$defs"]["Request"]["oneOf"].as_array().expect("variants");
    let of = |variant: &Value| {
        let (name, schema) = variant["properties"].as_object()?.iter().next()?;
        Some((name.clone(), schema.clone()))
    };
    variants.iter().filter_map(of).collect()
}

#[test]
fn requests_of_page_and_types_agree() {
    let document = schema::document();
    let requests = requests(&document);
    let text = section(PAGE, "## Requests").expect("a section");
    let on_page: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let in_types: BTreeSet<&str> = requests.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(on_page, in_types);
    for (name, schema) in &requests {
        let text = section(text, &format!("### {name}")).expect("a section");
        let mut expected = members(&document, schema);
        let mut all = expected.clone();
        for (_, options) in document["options"].as_object().expect("protocols") {
            all.extend(members(&document, &options[name]));
        }
        for member in &all {
            assert!(
                text.contains(&format!("`{member}`")) || text.contains(&format!("\"{member}\"")),
                "{name} has {member}, which the page does not name"
            );
        }
        expected.extend(all);
        let rows = first_cells(text);
        // Tables of answers follow those of the request.
        if !matches!(name.as_str(), "path" | "show") {
            let unknown: Vec<_> =
                rows.difference(&expected).filter(|word| !is_protocol(word)).collect();
            assert!(unknown.is_empty(), "{name} has no {unknown:?}");
        }
    }
}

fn is_protocol(word: &str) -> bool {
    ["rsvp", "boomerang", "yessir", "nsis"].contains(&word)
}

#[test]
fn members_of_events_and_outcomes_are_on_page() {
    let document = schema::document();
    let text = &PAGE[PAGE.find("## Events").expect("a section")..];
    for name in ["Event", "Outcome"] {
        for member in members(&document, &document["$defs"][name]) {
            assert!(text.contains(&format!("`{member}`")), "{name} has {member}");
        }
    }
}

#[test]
fn schema_accepts_every_protocols_options() {
    let document = schema::document();
    for protocol in ["rsvp", "boomerang", "yessir", "nsis"] {
        assert!(document["options"][protocol]["reserve"]["properties"].is_object(), "{protocol}");
    }
}
