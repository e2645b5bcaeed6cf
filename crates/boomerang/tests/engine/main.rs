//! The engine's answers to messages, timers and commands, a module for each question.

#[path = "../common/mod.rs"]
mod common;

mod aggregates;
mod changes;
mod credentials;
mod documents;
mod flow_routes;
mod host;
mod model;
mod multicast;
mod node;
mod offload;
mod participation;
mod tokens;
mod untrusted_origins;
mod untrusted_peers;
