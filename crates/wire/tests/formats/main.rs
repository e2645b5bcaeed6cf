//! Messages and objects of all protocols, read and written.

mod diagnostics;
mod gist;
mod gist_malformed;
mod gist_round_trip;
mod malformed;
mod malformed_input;
mod natfw_nslp;
mod natfw_nslp_faults;
mod neighbors;
mod notify;
mod objects;
mod ping_nslp;
mod policy;
mod qos_nslp;
mod qos_nslp_faults;
mod qos_nslp_properties;
mod qspec;
mod qspec_completion;
mod qspec_malformed;
mod qspec_properties;
mod round_trip;
mod rtcp;
mod session_auth;
mod yessir;
mod yessir_properties;
