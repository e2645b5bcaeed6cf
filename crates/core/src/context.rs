//! What an engine may look at and take from while it handles an input.

use crate::admission::Ledger;
use crate::{Interfaces, Routes};

/// The node around an engine.
pub struct Context<'a> {
    /// Where packets go.
    pub routes: &'a dyn Routes,
    /// Through what they go.
    pub interfaces: &'a Interfaces,
    /// Who holds how much of it.
    pub ledger: &'a mut Ledger,
}
