//! Scenarios played to their end, a module for each part.

mod admission;
mod crossing;
mod explore;
mod faults;
mod fluid;
mod large;
mod malformed_input;
mod middleboxes;
mod mobility;
mod play;
mod play_in_parts;
mod processing;
mod recovery;
mod topologies;
