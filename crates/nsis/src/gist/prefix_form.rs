//! How a peer writes the prefixes of a flow.

use earmark_wire::gist::Mri;

/// Which prefix lengths of an MRI the peer writes as 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefixForm(pub(super) u8);

impl PrefixForm {
    pub(super) const SOURCE: u8 = 1;
    pub(super) const DESTINATION: u8 = 2;

    /// Returns whether the peer writes prefix lengths as 0.
    #[inline]
    pub(crate) const fn is_tolerated(self) -> bool {
        self.0 != 0
    }

    /// Returns an MRI as the peer writes it.
    #[inline]
    pub(crate) const fn written(self, mut mri: Mri) -> Mri {
        if let Mri::PathCoupled(flow) = &mut mri {
            if self.0 & PrefixForm::SOURCE != 0 {
                flow.source_prefix = 0;
            }
            if self.0 & PrefixForm::DESTINATION != 0 {
                flow.destination_prefix = 0;
            }
        }
        mri
    }
}
