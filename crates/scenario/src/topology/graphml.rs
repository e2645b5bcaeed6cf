//! Parser of published topologies in GraphML, as in the Internet Topology Zoo (S. Knight et al., "The Internet
//! Topology Zoo", IEEE JSAC 29(9), 2011; <http://www.topology-zoo.org>).
//!
//! | attribute (`attr.name` of a `<key>`) | of | becomes |
//! |---|---|---|
//! | `label` | node | name of the router, in valid characters; the second of a name is `Denver-2` |
//! | `Latitude`, `Longitude` | node | degrees: great-circle distance at two thirds of the speed of light is the delay of its links |
//! | `LinkSpeedRaw` | edge | bandwidth, bits per second |
//! | `Network` | graph | name of the topology |
//!
//! Other attributes are ignored. Edges are links of both directions; two nodes may have several.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use earmark_core::Rate;
use roxmltree::{Document, Node, ParsingOptions};

use super::Place;
use super::backbone::{Backbone, MAX_ROUTERS, MAX_TRUNKS, Site, Trunk};
use super::parse::is_name;

/// Mean radius of the Earth, metres (IUGG).
const EARTH_RADIUS: f64 = 6_371_008.8;
/// Speed of light in fibre, two thirds of that in vacuum, metres per second.
const FIBRE_SPEED: f64 = 299_792_458.0 * 2.0 / 3.0;
/// Minimum delay of a link: within one city.
const MIN_DELAY: Duration = Duration::from_micros(10);
/// Maximum length of a router's name, which leaves room for those of its hosts.
const MAX_NAME_LEN: usize = 24;
/// Maximum number of elements and texts in a file: enough for the largest backbone, with all attributes of the Zoo.
const MAX_XML_NODES: u32 = 4_000_000;

/// Error in a GraphML file, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphmlError {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// The problem.
    pub problem: GraphmlProblem,
}

impl fmt::Display for GraphmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.problem)
    }
}

// The problem is part of the text above, so it is not repeated as a source.
impl std::error::Error for GraphmlError {}

/// Problem of a GraphML file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphmlProblem {
    /// Invalid XML, in the words of the parser.
    #[error("{0}")]
    Xml(String),
    /// A required element is missing.
    #[error("not GraphML: <{0}> is missing")]
    Missing(&'static str),
    /// An element lacks an attribute.
    #[error("<{element}> has no attribute `{attribute}`")]
    NoAttribute {
        /// Name of the element.
        element: &'static str,
        /// Missing attribute.
        attribute: &'static str,
    },
    /// Two nodes have the same `id`.
    #[error("duplicate node id `{0}`")]
    DuplicateNode(String),
    /// A link to an unknown node.
    #[error("unknown node id `{0}`")]
    NoSuchNode(String),
    /// A link from a node to itself.
    #[error("node `{0}` is linked with itself")]
    SelfLink(String),
    /// A node without coordinates, so that delays are unknown.
    #[error("node `{node}` has no {attribute}, so the delay of its links is not known")]
    NoPlace {
        /// `id` of the node.
        node: String,
        /// Missing attribute.
        attribute: &'static str,
    },
    /// An attribute is not a valid number.
    #[error("invalid {attribute} `{text}`: {range}")]
    BadNumber {
        /// Text of the attribute.
        text: String,
        /// The attribute.
        attribute: &'static str,
        /// Valid range.
        range: &'static str,
    },
    /// The limits of a backbone are exceeded.
    #[error("at most {MAX_ROUTERS} nodes and {MAX_TRUNKS} edges are possible")]
    TooLarge,
    /// The network has no nodes or no links.
    #[error("a network needs at least two nodes and one edge")]
    Empty,
    /// The network is not connected.
    #[error("node `{0}` cannot reach the first node")]
    Disconnected(String),
}

/// Parses a file.
pub(super) fn parse(text: &str) -> Result<Backbone, GraphmlError> {
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: MAX_XML_NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let at = error.pos();
        let problem = GraphmlProblem::Xml(error.to_string());
        GraphmlError { line: at.row, column: at.col, problem }
    })?;
    let root = document.root_element();
    let reader = Reader { document: &document, keys: BTreeMap::new() };
    if root.tag_name().name() != "graphml" {
        return Err(reader.error(root, GraphmlProblem::Missing("graphml")));
    }
    let graph = children(root, "graph").next();
    let graph = graph.ok_or_else(|| reader.error(root, GraphmlProblem::Missing("graph")))?;
    let keys = children(root, "key")
        .filter_map(|key| Some((key.attribute("id")?, key.attribute("attr.name")?)))
        .collect();
    Reader { keys, ..reader }.graph(graph)
}

/// Returns the direct children with this name, in any namespace.
fn children<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

struct Reader<'a, 'i> {
    document: &'a Document<'i>,
    /// Attribute names by the ids of their keys.
    keys: BTreeMap<&'a str, &'a str>,
}

/// A node of the file with its coordinates.
struct Located<'a, 'i> {
    element: Node<'a, 'i>,
    id: &'a str,
    /// Latitude and longitude, degrees.
    degrees: [f64; 2],
}

impl<'a, 'i> Reader<'a, 'i> {
    fn graph(&self, graph: Node<'a, 'i>) -> Result<Backbone, GraphmlError> {
        let mut nodes = Vec::new();
        let mut by_id = BTreeMap::new();
        for element in children(graph, "node") {
            let id = self.attribute(element, "node", "id")?;
            if by_id.insert(id, nodes.len()).is_some() {
                return Err(self.error(element, GraphmlProblem::DuplicateNode(id.to_owned())));
            }
            let degrees = [
                self.degrees(element, id, "Latitude", 90.0, "-90 to 90 degrees")?,
                self.degrees(element, id, "Longitude", 180.0, "-180 to 180 degrees")?,
            ];
            nodes.push(Located { element, id, degrees });
            if nodes.len() > MAX_ROUTERS {
                return Err(self.error(element, GraphmlProblem::TooLarge));
            }
        }
        let mut trunks = Vec::new();
        for element in children(graph, "edge") {
            trunks.push(self.trunk(element, &nodes, &by_id)?);
            if trunks.len() > MAX_TRUNKS {
                return Err(self.error(element, GraphmlProblem::TooLarge));
            }
        }
        if nodes.len() < 2 || trunks.is_empty() {
            return Err(self.error(graph, GraphmlProblem::Empty));
        }
        if let Some(alone) = first_unreachable(nodes.len(), &trunks) {
            let problem = GraphmlProblem::Disconnected(nodes[alone].id.to_owned());
            return Err(self.error(nodes[alone].element, problem));
        }
        let name = self.data(graph, "Network").map_or("backbone", |data| text(data));
        Ok(Backbone {
            name: to_name(name, MAX_NAME_LEN, "backbone"),
            routers: self.sites(&nodes),
            trunks,
        })
    }

    fn trunk(
        &self,
        edge: Node<'a, 'i>,
        nodes: &[Located<'a, 'i>],
        by_id: &BTreeMap<&str, usize>,
    ) -> Result<Trunk, GraphmlError> {
        let end = |attribute| {
            let id = self.attribute(edge, "edge", attribute)?;
            let known = by_id.get(id).copied();
            known.ok_or_else(|| self.error(edge, GraphmlProblem::NoSuchNode(id.to_owned())))
        };
        let ends = [end("source")?, end("target")?];
        if ends[0] == ends[1] {
            let problem = GraphmlProblem::SelfLink(nodes[ends[0]].id.to_owned());
            return Err(self.error(edge, problem));
        }
        let bandwidth = self.data(edge, "LinkSpeedRaw").map(|data| {
            let range = "bits per second, above 0 and below 10^18";
            let bps = self.number(data, "LinkSpeedRaw", range, |bps| (1.0..1e18).contains(&bps))?;
            Ok(Rate::from_bps(bps as u64))
        });
        let [from, to] = ends.map(|end| nodes[end].degrees);
        let nanos = great_circle(from, to) / FIBRE_SPEED * 1e9;
        let delay = Duration::from_nanos(nanos as u64).max(MIN_DELAY);
        Ok(Trunk { ends, delay, bandwidth: bandwidth.transpose()? })
    }

    /// Returns unique names, and positions on a map on which degrees are equally long in both directions in its
    /// middle.
    fn sites(&self, nodes: &[Located<'a, 'i>]) -> Vec<Site> {
        let north: f64 = nodes.iter().map(|node| node.degrees[0]).sum();
        let shrink = libm::cos((north / nodes.len() as f64).to_radians());
        let mut taken: BTreeMap<String, u32> = BTreeMap::new();
        let mut site = |node: &Located<'a, 'i>| {
            let label = self.data(node.element, "label").map_or("", |data| text(data));
            let wanted = to_name(label, MAX_NAME_LEN - 5, "router");
            let mut name = wanted.clone();
            while taken.contains_key(&name) {
                let count = taken.entry(wanted.clone()).or_default();
                *count += 1;
                name = format!("{wanted}-{count}");
            }
            taken.insert(name.clone(), 1);
            let [north, east] = node.degrees;
            let micro = |degrees: f64| (degrees * 1e6) as i32;
            let place = Place { east: micro(east * shrink), north: micro(north) };
            Site { name, place: Some(place) }
        };
        nodes.iter().map(&mut site).collect()
    }

    fn degrees(
        &self,
        element: Node<'a, 'i>,
        node: &str,
        attribute: &'static str,
        most: f64,
        range: &'static str,
    ) -> Result<f64, GraphmlError> {
        let Some(data) = self.data(element, attribute) else {
            let node = node.to_owned();
            return Err(self.error(element, GraphmlProblem::NoPlace { node, attribute }));
        };
        self.number(data, attribute, range, |degrees| degrees.abs() <= most)
    }

    fn number(
        &self,
        data: Node<'a, 'i>,
        attribute: &'static str,
        range: &'static str,
        fits: impl Fn(f64) -> bool,
    ) -> Result<f64, GraphmlError> {
        let text = text(data);
        text.parse().ok().filter(|number| fits(*number)).ok_or_else(|| {
            let text = text.to_owned();
            self.error(data, GraphmlProblem::BadNumber { text, attribute, range })
        })
    }

    /// Returns the data element of an attribute.
    fn data(&self, element: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
        let is_wanted = |key: &str| self.keys.get(key).is_some_and(|known| *known == name);
        children(element, "data").find(|data| data.attribute("key").is_some_and(is_wanted))
    }

    fn attribute(
        &self,
        node: Node<'a, 'i>,
        element: &'static str,
        attribute: &'static str,
    ) -> Result<&'a str, GraphmlError> {
        node.attribute(attribute)
            .ok_or_else(|| self.error(node, GraphmlProblem::NoAttribute { element, attribute }))
    }

    fn error(&self, node: Node<'_, '_>, problem: GraphmlProblem) -> GraphmlError {
        let at = self.document.text_pos_at(node.range().start);
        GraphmlError { line: at.row, column: at.col, problem }
    }
}

fn text<'a>(data: Node<'a, '_>) -> &'a str {
    data.text().unwrap_or_default().trim()
}

/// Converts a text to a name: other characters become `-`, and none is at the ends.
fn to_name(text: &str, length: usize, otherwise: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = text.trim().chars().map(fit).collect();
    let mut name: String = name.trim_matches('-').chars().take(length).collect();
    name.truncate(name.trim_end_matches('-').len());
    if is_name(&name) { name } else { otherwise.to_owned() }
}

/// Returns the distance of two positions, degrees, in metres on a sphere (the haversine formula, exact for short
/// distances, too).
fn great_circle(from: [f64; 2], to: [f64; 2]) -> f64 {
    let [from_north, from_east] = from.map(f64::to_radians);
    let [to_north, to_east] = to.map(f64::to_radians);
    let half = |angle: f64| {
        let sine = libm::sin(angle / 2.0);
        sine * sine
    };
    let across = libm::cos(from_north) * libm::cos(to_north) * half(to_east - from_east);
    let chord = (half(to_north - from_north) + across).clamp(0.0, 1.0);
    2.0 * EARTH_RADIUS * libm::asin(libm::sqrt(chord))
}

/// Returns the first node that is not reachable from node 0.
fn first_unreachable(nodes: usize, trunks: &[Trunk]) -> Option<usize> {
    let mut neighbors = vec![Vec::new(); nodes];
    for [a, b] in trunks.iter().map(|trunk| trunk.ends) {
        neighbors[a].push(b);
        neighbors[b].push(a);
    }
    let (mut reached, mut waiting) = (vec![false; nodes], vec![0]);
    while let Some(node) = waiting.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            waiting.extend(&neighbors[node]);
        }
    }
    reached.iter().position(|reached| !reached)
}

#[cfg(test)]
mod tests;
