//! The engine's answers to messages, timers and commands, a module for each question.

#[path = "../common/mod.rs"]
mod common;

mod gist_associations;
mod gist_encapsulation;
mod gist_handshake;
mod gist_hostile;
mod gist_large_messages;
mod gist_nat_traversal;
mod gist_route_flaps;
mod gist_routes;
mod gist_tables;
mod gist_translators;
mod intake_limits;
mod model;
mod natfw_deletion;
mod origins;
mod ping;
mod qos;
mod qos_ended_requests;
mod qos_large_messages;
mod qos_lost_tears;
mod qos_old_branches;
mod qos_route_changes;
mod qos_summaries;
mod tolerated;
mod untrusted_origins;
