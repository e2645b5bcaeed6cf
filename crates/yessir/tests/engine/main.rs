//! The engine's answers to messages, timers and commands, a module for each question.

#[path = "../common/mod.rs"]
mod common;

mod auth;
mod forwarding;
mod groups;
mod limits;
mod malformed_input;
mod measured;
mod reach;
mod refresh_path;
mod retry;
mod roles;
mod router;
mod tokens;
mod untrusted_origins;
