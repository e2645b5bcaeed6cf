//! The reader of published topologies in GraphML, as the Internet Topology Zoo has them (S. Knight et al., "The Internet
//! Topology Zoo", IEEE JSAC 29(9), 2011; <http://www.topology-zoo.org>).
//!
//! | attribute (`attr.name` of a `<key>`) | of | becomes |
//! |---|---|---|
//! | `label` | node | the router's name, in characters that a name can have; the second of a name is called `Denver-2` |
//! | `Latitude`, `Longitude` | node | degrees: delay of its links by great-circle distance, at two thirds of the speed of light |
//! | `LinkSpeedRaw` | edge | bandwidth, bits per second |
//! | `Network` | graph | name of the topology |
//!
//! All others are passed over. Edges are links of both directions; there may be several between two nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use earmark_core::Rate;
use roxmltree::{Document, Node, ParsingOptions};

use super::Place;
use super::backbone::{Backbone, MAX_ROUTERS, MAX_TRUNKS, Site, Trunk};
use super::parse::is_name;

/// Mean radius of the Earth, metres (IUGG).
const RADIUS: f64 = 6_371_008.8;
/// Two thirds of the speed of light: what fibre has, metres per second.
const SPEED: f64 = 299_792_458.0 * 2.0 / 3.0;
/// The least delay of a link: within one city.
const LEAST: Duration = Duration::from_micros(10);
/// Characters of a router's name, so that there is room for those of its hosts.
const NAME: usize = 24;
/// Elements and pieces of text of a file: what the largest backbone has, with all attributes of the Zoo.
const XML_NODES: u32 = 4_000_000;

/// Where and why a GraphML file is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphmlError {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// Why.
    pub problem: GraphmlProblem,
}

impl fmt::Display for GraphmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.problem)
    }
}

// The problem is part of the text above, so it is not named as a source once more.
impl std::error::Error for GraphmlError {}

/// What is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphmlProblem {
    /// No XML, in the words of its reader.
    #[error("{0}")]
    Xml(String),
    /// XML of another kind.
    #[error("this is no GraphML: there is no <{0}>")]
    Missing(&'static str),
    /// An element without what it needs.
    #[error("<{element}> has no attribute `{attribute}`")]
    NoAttribute {
        /// Its name,
        element: &'static str,
        /// and what it lacks.
        attribute: &'static str,
    },
    /// Two nodes of one `id`.
    #[error("there are two nodes with the id `{0}`")]
    DuplicateNode(String),
    /// A link to nowhere.
    #[error("there is no node with the id `{0}`")]
    NoSuchNode(String),
    /// A link from a node to itself.
    #[error("node `{0}` is linked with itself")]
    SelfLink(String),
    /// A node that is nowhere, so that nothing is known of delays.
    #[error("node `{node}` has no {attribute}, so the delay of its links is not known")]
    NoPlace {
        /// Its `id`,
        node: String,
        /// and what it lacks.
        attribute: &'static str,
    },
    /// No number, or none that can be.
    #[error("`{text}` is no {attribute}: {range}")]
    BadNumber {
        /// What stands there,
        text: String,
        /// what it should be,
        attribute: &'static str,
        /// and which ones there are.
        range: &'static str,
    },
    /// More than can be numbered.
    #[error("at most {MAX_ROUTERS} nodes and {MAX_TRUNKS} edges are possible")]
    TooLarge,
    /// Less than a network.
    #[error("a network needs at least two nodes and one edge")]
    Empty,
    /// Two parts of a network without a link between.
    #[error("node `{0}` is not linked with the first one, not over others either")]
    Disconnected(String),
}

/// Reads a file.
pub(super) fn parse(text: &str) -> Result<Backbone, GraphmlError> {
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: XML_NODES, ..ParsingOptions::default() };
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

/// Elements right below another one, whatever their namespace.
fn children<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

struct Reader<'a, 'i> {
    document: &'a Document<'i>,
    /// Names of attributes by the ids of their keys.
    keys: BTreeMap<&'a str, &'a str>,
}

/// A node of the file.
struct Located<'a, 'i> {
    element: Node<'a, 'i>,
    id: &'a str,
    /// Degrees north and east.
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
        if let Some(alone) = apart(nodes.len(), &trunks) {
            let problem = GraphmlProblem::Disconnected(nodes[alone].id.to_owned());
            return Err(self.error(nodes[alone].element, problem));
        }
        let name = self.data(graph, "Network").map_or("backbone", |data| text(data));
        Ok(Backbone { name: as_name(name, NAME, "backbone"), routers: self.sites(&nodes), trunks })
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
        let nanos = great_circle(from, to) / SPEED * 1e9;
        let delay = Duration::from_nanos(nanos as u64).max(LEAST);
        Ok(Trunk { ends, delay, bandwidth: bandwidth.transpose()? })
    }

    /// Names, each of them once, and places on a map on which degrees are as long to the right as upwards in its middle.
    fn sites(&self, nodes: &[Located<'a, 'i>]) -> Vec<Site> {
        let north: f64 = nodes.iter().map(|node| node.degrees[0]).sum();
        let shrink = libm::cos((north / nodes.len() as f64).to_radians());
        let mut taken: BTreeMap<String, u32> = BTreeMap::new();
        let mut site = |node: &Located<'a, 'i>| {
            let label = self.data(node.element, "label").map_or("", |data| text(data));
            let wanted = as_name(label, NAME - 5, "router");
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

    /// What stands in an element for an attribute of this name.
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

/// A name made of another one: other characters become `-`, and none stands at the ends.
fn as_name(text: &str, length: usize, otherwise: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = text.trim().chars().map(fit).collect();
    let mut name: String = name.trim_matches('-').chars().take(length).collect();
    name.truncate(name.trim_end_matches('-').len());
    if is_name(&name) { name } else { otherwise.to_owned() }
}

/// Metres between two places, degrees north and east, on a sphere (the haversine formula, exact for short ways, too).
fn great_circle(from: [f64; 2], to: [f64; 2]) -> f64 {
    let [from_north, from_east] = from.map(f64::to_radians);
    let [to_north, to_east] = to.map(f64::to_radians);
    let half = |angle: f64| {
        let sine = libm::sin(angle / 2.0);
        sine * sine
    };
    let across = libm::cos(from_north) * libm::cos(to_north) * half(to_east - from_east);
    let chord = (half(to_north - from_north) + across).clamp(0.0, 1.0);
    2.0 * RADIUS * libm::asin(libm::sqrt(chord))
}

/// The first node that is not reached from node 0.
fn apart(nodes: usize, trunks: &[Trunk]) -> Option<usize> {
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
