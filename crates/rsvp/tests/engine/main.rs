//! The engine's answers to messages, timers and commands, a module for each question.

#[path = "../common/chain.rs"]
mod chain;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/message_ids.rs"]
mod message_ids;
#[path = "../common/origins.rs"]
mod origins;
#[path = "../common/restarts.rs"]
mod restarts;
#[path = "../common/sharing.rs"]
mod sharing;
#[path = "../common/signing.rs"]
mod signing;

mod asymmetric_routes;
mod bandwidth_reduction;
mod blockade;
mod bundles;
mod changes;
mod diagnostics;
mod encapsulation;
mod errors;
mod flow_routes;
mod foreign_neighbors;
mod graceful_restart;
mod graceful_restart_chain;
mod graceful_restart_shared;
mod handshake;
mod hello;
mod host;
mod hub;
mod increase;
mod integrated_services;
mod integrity;
mod joint_messages;
mod lifecycle;
mod limits;
mod local_repair;
mod model;
mod notify;
mod policy;
mod policy_wildcard;
mod proxy;
mod proxy_notify;
mod reach;
mod receiver_proxy;
mod recovery_path;
mod refresh_reduction;
mod refresh_reduction_chain;
mod refresh_reduction_changes;
mod refresh_reduction_interfaces;
mod reload;
mod router_alert;
mod rules;
mod shared;
mod shared_sender_end;
mod tokens;
mod unconfirmed_requests;
mod untrusted_floods;
mod untrusted_links;
mod untrusted_neighbors;
mod untrusted_origins;
mod untrusted_peers;
