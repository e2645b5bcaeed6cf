//! The engines that nodes are composed of: those of this project, and those that a program adds.

use crate::engine::{EngineKind, Engines};
use crate::protocols::of_each_protocol;

/// The engines of this project.
const ENGINES: [EngineKind; 4] = of_each_protocol!(engine::KIND);

/// Reason why a kind of engine cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddEngineError {
    /// Another engine has the name.
    #[error("duplicate engine `{0}`")]
    Name(&'static str),
    /// Another engine has the number.
    #[error("engine `{name}` has number {number} in the ledger, as `{other}` has")]
    Number {
        /// Name of the new engine.
        name: &'static str,
        /// Number of both.
        number: u8,
        /// Name of the other engine.
        other: &'static str,
    },
}

impl Engines {
    /// Adds an engine.
    ///
    /// # Errors
    /// Another engine has the name or the number.
    pub fn with(mut self, kind: EngineKind) -> Result<Engines, AddEngineError> {
        let EngineKind { name, protocol, .. } = kind;
        if self.iter().any(|other| other.name == name) {
            return Err(AddEngineError::Name(name));
        }
        if let Some(other) = self.iter().find(|other| other.protocol == protocol) {
            let (number, other) = (protocol.number(), other.name);
            return Err(AddEngineError::Number { name, number, other });
        }
        self.added.push(kind);
        Ok(self)
    }

    /// Iterates over the kinds: those of this project, if they take part, then the added ones.
    pub fn iter(&self) -> impl Iterator<Item = &EngineKind> {
        let own: &[EngineKind] = if self.own { &ENGINES } else { &[] };
        own.iter().chain(&self.added)
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::admission::Protocol;

    use super::*;

    #[test]
    fn engine_with_used_name_or_number_is_refused() {
        let [first, ..] = ENGINES;
        let engines = Engines::default();
        assert_eq!(engines.clone().with(first), Err(AddEngineError::Name(first.name)));
        let renamed = EngineKind { name: "new", ..first };
        assert_eq!(
            engines.clone().with(renamed),
            Err(AddEngineError::Number { name: "new", number: 1, other: first.name })
        );
        let free = EngineKind { protocol: Protocol::new(200), ..renamed };
        assert_eq!(engines.with(free).map(|engines| engines.iter().count()), Ok(5));
    }
}
