//! Attribution of instructions to the components of GIST, by the module of the source code.
//!
//! The components are those of *Overhead and Performance Study of GIST*, Table III. Instructions of library code
//! (copying, allocating, searching a tree) belong to its callers, in proportion to the cost of their calls.

use std::collections::HashMap;

use serde::Serialize;

use crate::callgrind::{Call, Costs, Location};

earmark_core::named_enum! {
    /// A component of Table III. The table's sockets are absent, because a router without I/O has none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Component {
        /// Timers.
        Timers = "timers",
        /// Receiving messages, and dispatching them.
        ReceiveAndDistribute = "receiving and distribution",
        /// Parsing messages.
        Parse = "message parsing",
        /// Encoding messages.
        Compose = "message composing",
        /// Looking up routing state and associations.
        HashTables = "hash tables",
        /// State machines.
        Fsm = "state machines",
        /// The application, Ping NSLP.
        Nslp = "NSLP (Ping)",
        /// Everything else: routes, cookies, limits.
        Misc = "miscellaneous",
    }
}

/// Modules and their components; the first match applies. The modules of the formats are divided by function.
const MODULES: [(&str, Component); 16] = [
    ("earmark_core::timer", Component::Timers),
    ("earmark_nsis::gist::expire", Component::Timers),
    ("earmark_core::hash", Component::HashTables),
    ("earmark_nsis::gist::store", Component::HashTables),
    ("earmark_nsis::gist::peer", Component::HashTables),
    ("earmark_nsis::gist::receive", Component::ReceiveAndDistribute),
    ("earmark_nsis::engine", Component::ReceiveAndDistribute),
    ("earmark_node", Component::ReceiveAndDistribute),
    ("earmark_nsis::gist::transmit", Component::Compose),
    ("earmark_nsis::gist::data", Component::Compose),
    ("earmark_core::effects", Component::Compose),
    ("earmark_nsis::gist::cookie", Component::Misc),
    ("earmark_nsis::gist", Component::Fsm),
    ("earmark_nsis::nslp", Component::Nslp),
    ("earmark_nsis::ping", Component::Nslp),
    ("earmark", Component::Misc),
];
/// Functions that belong to a component regardless of the source of their code: finding a routing state, and
/// comparing its keys.
const FUNCTIONS: [(&str, Component); 2] = [
    ("earmark_nsis::gist::Gist>::at", Component::HashTables),
    ("core::cmp::PartialEq>::eq", Component::HashTables),
];
/// Crate of the formats.
const FORMATS: &str = "earmark_wire";
/// Names of functions that encode.
const WRITING: [&str; 7] =
    ["emit", "writer", "put", "write", "append", "buffer_len", "appended_len"];
/// Number of passes in which library cost is moved to callers that are libraries too.
const PASSES: usize = 64;

/// Share of each component in the counted instructions.
pub(super) fn components(costs: &Costs<'_>) -> HashMap<Component, f64> {
    let mut taken: HashMap<Component, f64> = HashMap::new();
    let mut of_libraries: HashMap<&str, f64> = HashMap::new();
    for (location, &count) in &costs.own {
        match component(location) {
            Some(component) => *taken.entry(component).or_default() += count as f64,
            None => *of_libraries.entry(location.function).or_default() += count as f64,
        }
    }
    let mut callers: HashMap<&str, Vec<&Call<'_>>> = HashMap::new();
    for call in costs.calls.iter().filter(|call| call.from.function != call.to) {
        callers.entry(call.to).or_default().push(call);
    }
    for _ in 0..PASSES {
        for (function, count) in std::mem::take(&mut of_libraries) {
            let calls = callers.get(function).map_or(&[][..], Vec::as_slice);
            let all: u64 = calls.iter().map(|call| call.instructions).sum();
            if all == 0 {
                *taken.entry(Component::Misc).or_default() += count;
                continue;
            }
            for call in calls {
                let share = count * call.instructions as f64 / all as f64;
                match component(&call.from) {
                    Some(component) => *taken.entry(component).or_default() += share,
                    None => *of_libraries.entry(call.from.function).or_default() += share,
                }
            }
        }
    }
    // Cost of libraries that call each other in cycles.
    *taken.entry(Component::Misc).or_default() += of_libraries.values().sum::<f64>();
    taken
}

/// Returns the component of a location; `None` for library code.
fn component(location: &Location<'_>) -> Option<Component> {
    let by_function = FUNCTIONS.iter().find(|(end, _)| {
        location.function.ends_with(end) && !module_of_function(location.function).is_empty()
    });
    if let Some((_, component)) = by_function {
        return Some(*component);
    }
    let enclosing = of_module(&module_of_function(location.function), location.function);
    match module_of_file(location.file) {
        // A format that was inlined into the code that encodes or parses messages.
        Some(module) if module.starts_with(FORMATS) && !is_format(location.function) => {
            Some(match enclosing {
                Some(Component::Compose | Component::Nslp) => Component::Compose,
                _ if WRITING.iter().any(|part| module.contains(part)) => Component::Compose,
                _ => Component::Parse,
            })
        }
        Some(module) => of_module(&module, location.function),
        None => enclosing,
    }
}

fn is_format(function: &str) -> bool {
    module_of_function(function).starts_with(FORMATS)
}

fn of_module(module: &str, function: &str) -> Option<Component> {
    if module.starts_with(FORMATS) {
        let writes = WRITING.iter().any(|part| function.contains(part) || module.contains(part));
        return Some(if writes { Component::Compose } else { Component::Parse });
    }
    MODULES.iter().find(|(start, _)| module.starts_with(start)).map(|(_, component)| *component)
}

/// Returns `crates/nsis/src/gist/step.rs`, with any prefix, as `earmark_nsis::gist::step`; `None` for files of other
/// projects.
fn module_of_file(file: &str) -> Option<String> {
    let (_, path) = file.rsplit_once("crates/")?;
    let (package, path) = path.split_once("/src/")?;
    let module = path.strip_suffix(".rs")?.replace('/', "::");
    Some(format!("earmark_{package}::{}", module.trim_end_matches("::mod")))
}

/// Returns the path of a function, or of the type of a method, such as `<earmark_wire::gist::mri::Mri as ..>::eq`.
fn module_of_function(function: &str) -> String {
    let name = function.trim_start_matches(['<', '&']);
    if name.starts_with("earmark") { name.to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_belong_to_components() {
        let step = "earmark_nsis::gist::step::<impl earmark_nsis::gist::Gist>::step";
        let of = |function, file| component(&Location { function, file });
        assert_eq!(of(step, "/a/crates/nsis/src/gist/step.rs"), Some(Component::Fsm));
        assert_eq!(of(step, "/a/crates/core/src/timer.rs"), Some(Component::Timers));
        assert_eq!(of(step, "/rustc/x/library/core/src/option.rs"), Some(Component::Fsm));
        let emit = "earmark_wire::gist::mri::PathCoupled::emit";
        assert_eq!(of(emit, "/a/crates/wire/src/gist/mri.rs"), Some(Component::Compose));
        let eq = "<earmark_wire::gist::mri::Mri as core::cmp::PartialEq>::eq";
        assert_eq!(of(eq, "/a/crates/wire/src/gist/mri.rs"), Some(Component::HashTables));
        assert_eq!(of("malloc", "malloc.c"), None);
        assert_eq!(
            of("core::ptr::drop_in_place<earmark_wire::X>", "/rustc/x/library/core/src/ptr.rs"),
            None
        );
    }

    #[test]
    fn library_cost_belongs_to_callers() {
        let fsm = Location { function: "earmark_nsis::gist::step::f", file: "?" };
        let timers = Location { function: "earmark_core::timer::g", file: "?" };
        let copy = Location { function: "memcpy", file: "?" };
        let own = [(fsm, 10), (timers, 20), (copy, 40)].into();
        let call = |from, instructions| Call { from, to: "memcpy", count: 1, instructions };
        let costs = Costs { own, calls: vec![call(fsm, 30), call(timers, 10)], ..Costs::default() };
        let taken = components(&costs);
        assert_eq!((taken[&Component::Fsm], taken[&Component::Timers]), (40.0, 30.0));
        assert_eq!(taken.values().sum::<f64>(), 70.0);
    }
}
