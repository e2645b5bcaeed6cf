//! What this host asks for and is told: calls of applications, proxies, new settings, and listings.

pub(crate) mod commands;
pub mod proxy;
pub(crate) mod reach;
pub(crate) mod reload;
pub(crate) mod view;
