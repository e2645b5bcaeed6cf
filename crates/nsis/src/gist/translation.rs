//! Flows whose addresses this node translates: routing state whose two sides have different MRIs (RFC 5971 section 7.2).
//!
//! Keys of routing state, and applications, have the MRI of the downstream side, because the packets of the flow leave
//! this node with these addresses. MRIs of the upstream side are changed when their messages arrive and leave. NATFW NSLP,
//! which makes the translations, handles both MRIs itself.

use earmark_core::InterfaceId;
use earmark_wire::gist::{Body, Direction, Error, Mri, PathCoupled, Response};
use earmark_wire::natfw_nslp::iana::NSLPID as NATFW;

use super::Gist;
use super::prefix_form::PrefixForm;
use super::receipt::Receipt;
use super::tolerated_prefix::mri_of;
use crate::input_context::InputContext;

/// How this node names the flow of a message that its sender names otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalForm {
    pub(super) mri: Mri,
    /// How the sender writes the prefixes of the flow.
    pub(super) prefix_form: PrefixForm,
    /// The flow as the upstream side knows it, if this node translates its addresses.
    pub(super) upstream: Option<PathCoupled>,
}

impl Gist {
    /// Returns how this node names the flow of a message, if its sender may name it otherwise.
    #[inline]
    pub(super) fn local_form(
        &self,
        cx: &InputContext<'_, '_>,
        nslpid: u16,
        body: &Body<'_>,
    ) -> Option<LocalForm> {
        match body {
            Body::Response(Response { nat_traversal: Some(by), .. }) => {
                return Some(original_form(by.original.inverted()));
            }
            // An Error has the MRI of the message of this node.
            Body::Error(Error { nat_traversal: Some(by), .. }) => {
                return Some(original_form(by.original));
            }
            _ => {}
        }
        let mri = mri_of(body)?;
        let tolerated = self.tolerated_prefix(mri);
        if tolerated.is_none() && !cx.applications.natfw.translates() {
            return None;
        }
        let (mri, prefix_form) = tolerated.unwrap_or((*mri, PrefixForm::default()));
        let exact = LocalForm { mri, prefix_form, upstream: None };
        let translated = translated_form(cx, nslpid, body, exact);
        translated.or(tolerated.map(|_| exact))
    }
}

/// Returns the flow of a Response or Error as this node names it: translators on the path have changed the MRI of the Query, and
/// "a GIST node receiving such a message (Response or Error) MUST use the MRI from the NAT-Traversal object as the key to
/// index its internal routing state" (RFC 5971 section 7.2.3).
#[cold]
fn original_form(mri: Mri) -> LocalForm {
    LocalForm { mri, prefix_form: PrefixForm::default(), upstream: None }
}

/// Returns whether a Query lacks a translation that this node makes for other flows of its source.
#[inline]
pub(super) fn lacks_translation(
    cx: &mut InputContext<'_, '_>,
    receipt: &Receipt<'_>,
    mri: &Mri,
) -> bool {
    receipt.upstream.is_none()
        && leaves_untranslated(cx, receipt.interface, mri)
        && cx.applications.by_id(receipt.nslpid).is_some_and(|it| it.is_about_packets())
}

/// Returns whether a Query would leave the network untranslated here, although this node translates the source of its flow.
#[inline]
pub(super) fn leaves_untranslated(
    cx: &InputContext<'_, '_>,
    arrival: InterfaceId,
    mri: &Mri,
) -> bool {
    let Mri::PathCoupled(flow) = mri else { return false };
    flow.direction == Direction::Downstream
        && cx.applications.natfw.leaves_untranslated(cx.context, flow, arrival)
}

#[cold]
fn translated_form(
    cx: &InputContext<'_, '_>,
    nslpid: u16,
    body: &Body<'_>,
    exact: LocalForm,
) -> Option<LocalForm> {
    let Mri::PathCoupled(flow) = exact.mri else { return None };
    // An Error has the MRI of a message that this node sent to the other side.
    let (nslpid, side) = match body {
        Body::Error(error) => (error.error.original_header()?.nslpid, flow.direction.inverted()),
        _ => (nslpid, flow.direction),
    };
    if nslpid == NATFW {
        return None;
    }
    let natfw = &cx.applications.natfw;
    if side == Direction::Upstream {
        let upstream = Some(natfw.upstream_form(cx.now, &flow)?);
        return Some(LocalForm { upstream, ..exact });
    }
    let mri = Mri::PathCoupled(natfw.downstream_form(cx.now, &flow)?);
    Some(LocalForm { mri, upstream: Some(flow), ..exact })
}

/// Returns the MRI of a message that this node sends, as the peer on the side that it leads to names the flow.
#[inline]
pub(super) fn peer_form(cx: &InputContext<'_, '_>, nslpid: u16, mri: Mri) -> Mri {
    match &mri {
        Mri::PathCoupled(flow)
            if flow.direction == Direction::Upstream && cx.applications.natfw.translates() =>
        {
            upstream_form(cx, nslpid, flow).unwrap_or(mri)
        }
        _ => mri,
    }
}

#[cold]
fn upstream_form(cx: &InputContext<'_, '_>, nslpid: u16, flow: &PathCoupled) -> Option<Mri> {
    let form = (nslpid != NATFW).then(|| cx.applications.natfw.upstream_form(cx.now, flow));
    form.flatten().map(Mri::PathCoupled)
}
