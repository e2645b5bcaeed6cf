//! What the origin of a report is made of.

use core::net::IpAddr;

use earmark_core::{Context, InterfaceId};

use crate::counters::DropReason;

/// Arrival interface of this host's own reports.
pub(crate) const OWN: InterfaceId = InterfaceId(0);

/// Origin of a report, beside the address of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) ssrc: u32,
    /// Interface that the report arrived through; [`OWN`] for this host's own.
    pub(crate) arrival: InterfaceId,
}

impl Origin {
    /// Checks whether a report of another origin may touch what this origin has made: only if its reports come another
    /// way now, because the routes between core routers have changed or the sender has moved.
    ///
    /// # Errors
    /// The reason why the report changes nothing.
    #[inline]
    pub(crate) fn admits(
        self,
        context: &Context<'_>,
        other: Origin,
        source: IpAddr,
    ) -> Result<(), DropReason> {
        if other == self {
            return Ok(());
        }
        if other.ssrc != self.ssrc {
            return Err(DropReason::ForeignSsrc);
        }
        let has_moved = || {
            self.arrival != OWN
                && (context.may_concern(other.arrival, self.arrival)
                    || !context.is_behind(source, self.arrival))
        };
        match has_moved() {
            true => Ok(()),
            false => Err(DropReason::WrongArrival),
        }
    }
}
