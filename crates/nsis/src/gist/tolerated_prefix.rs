//! Flows whose sender writes prefix length 0 beside the address of a host. The node treats them as flows of this host. Only
//! to the peer that wrote an MRI so it is returned as written, because the peer finds its state by that.

use earmark_wire::gist::{
    Body, Confirm, Data, Error, ErrorData, Mri, PathCoupled, Query, Response,
};

use super::Gist;
use super::prefix_form::PrefixForm;

/// Returns the body of a message with another MRI.
#[cold]
pub(super) fn with_mri<'a>(body: &Body<'a>, mri: Mri) -> Body<'a> {
    match body {
        Body::Query(query) => Body::Query(Query { mri, ..*query }),
        Body::Response(response) => Body::Response(Response { mri, ..*response }),
        Body::Confirm(confirm) => Body::Confirm(Confirm { mri, ..*confirm }),
        Body::Data(data) => Body::Data(Data { mri, ..*data }),
        Body::Error(error) => {
            let error = Error { error: ErrorData { mri: Some(mri), ..error.error }, ..*error };
            Body::Error(error)
        }
        Body::Hello(hello) => Body::Hello(*hello),
    }
}

/// Returns the MRI of a message.
#[inline]
pub(super) fn mri_of<'a>(body: &'a Body<'_>) -> Option<&'a Mri> {
    match body {
        Body::Query(query) => Some(&query.mri),
        Body::Response(response) => Some(&response.mri),
        Body::Confirm(confirm) => Some(&confirm.mri),
        Body::Data(data) => Some(&data.mri),
        Body::Error(error) => error.error.mri.as_ref(),
        Body::Hello(_) => None,
    }
}

impl Gist {
    /// Returns the MRI of a received message, and how its sender writes it, if its destination prefix has length 0 beside
    /// the address of a host. A prefix of length 0 with an unspecified address is a wildcard, and so is any if the settings
    /// accept prefixes of length 0.
    #[inline]
    pub(super) fn tolerated_prefix(&self, mri: &Mri) -> Option<(Mri, PrefixForm)> {
        match mri {
            Mri::PathCoupled(flow) if flow.destination_prefix == 0 => self.host_prefixes(flow),
            _ => None,
        }
    }

    #[cold]
    fn host_prefixes(&self, flow: &PathCoupled) -> Option<(Mri, PrefixForm)> {
        let is_wildcard = flow.destination.is_unspecified() || self.config.shortest_prefix == 0;
        if self.config.strict || is_wildcard {
            return None;
        }
        let whole = if flow.destination.is_ipv4() { 32 } else { 128 };
        let mut form = PrefixForm::DESTINATION;
        let mut flow = PathCoupled { destination_prefix: whole, ..*flow };
        if flow.source_prefix == 0 && !flow.source.is_unspecified() {
            flow.source_prefix = whole;
            form |= PrefixForm::SOURCE;
        }
        Some((Mri::PathCoupled(flow), PrefixForm(form)))
    }
}
