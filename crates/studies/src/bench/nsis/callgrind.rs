//! Parser for files of callgrind: instructions of each function itself, by the source file of the code, and the calls
//! between functions.
//!
//! ```text
//! fl=(1) src/a.rs       the file of the next function
//! fn=(7) a::f           a function; its first occurrence has the name, later ones the number alone
//! 12 30                 line, instructions
//! fi=(2) src/b.rs       what follows was inlined from there
//! +3 5
//! cfn=(8) g             a call from here,
//! calls=2 40
//! 13 100                with the instructions of the callee and all below it
//! ```

use std::collections::HashMap;

/// Names of one kind, by callgrind's numbers.
#[derive(Default)]
struct Names<'t>(HashMap<&'t str, &'t str>);

impl<'t> Names<'t> {
    /// Returns the name in `(7) a::f`, or in `(7)` alone.
    fn of(&mut self, text: &'t str) -> &'t str {
        let (number, name) = text.split_once(' ').unwrap_or((text, ""));
        if name.is_empty() {
            return self.0.get(number).copied().unwrap_or(number);
        }
        self.0.insert(number, name);
        name
    }
}

/// Location of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place<'t> {
    /// Symbol of the function.
    pub(super) function: &'t str,
    /// Source file of the code.
    pub(super) file: &'t str,
}

/// Calls from a location to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call<'t> {
    pub(super) from: Place<'t>,
    pub(super) to: &'t str,
    /// Instructions of the callee and of everything that it called.
    pub(super) instructions: u64,
}

/// Contents of a file.
#[derive(Debug, Default)]
pub(super) struct Costs<'t> {
    /// Instructions of a location itself.
    pub(super) own: HashMap<Place<'t>, u64>,
    pub(super) calls: Vec<Call<'t>>,
}

impl<'t> Costs<'t> {
    /// Parses a file with lines as positions and instructions as the only event.
    pub(super) fn parse(text: &'t str) -> Costs<'t> {
        let (mut files, mut functions) = (Names::default(), Names::default());
        let mut costs = Costs::default();
        let mut place = Place { function: "", file: "" };
        let (mut callee, mut is_call) = ("", false);
        for line in text.lines() {
            if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
                let cost = line.split(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or(0);
                if std::mem::take(&mut is_call) {
                    costs.calls.push(Call { from: place, to: callee, instructions: cost });
                } else {
                    *costs.own.entry(place).or_default() += cost;
                }
                continue;
            }
            let Some((what, value)) = line.split_once('=') else { continue };
            match what {
                "fl" | "fi" | "fe" => place.file = files.of(value),
                "fn" => place.function = functions.of(value),
                "cfn" => callee = functions.of(value),
                "cfi" | "cfl" => drop(files.of(value)),
                "calls" => is_call = true,
                _ => {}
            }
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let text = "events: Ir\n\nfl=(1) src/a.rs\nfn=(7) a::f\n12 30\nfi=(2) src/b.rs\n+3 5\n* 1\nfe=(1)\n\
            cfn=(8) g\ncalls=2 40\n13 100\n14 2\n\nfn=(8)\n1 100\n\ntotals: 138\n";
        let costs = Costs::parse(text);
        let at = |function, file| costs.own[&Place { function, file }];
        assert_eq!((at("a::f", "src/a.rs"), at("a::f", "src/b.rs")), (32, 6));
        assert_eq!(at("g", "src/a.rs"), 100);
        let from = Place { function: "a::f", file: "src/a.rs" };
        assert_eq!(costs.calls, [Call { from, to: "g", instructions: 100 }]);
    }
}
