//! Messages on a router with other work (section 6 of the study of Budapest): forwarded packets ([`background`]), and
//! messages of the same kind ([`signalling`]). The cost of resident sessions is another section.

mod background;
mod signalling;

use anyhow::Result;

use super::PartOptions;
use super::forwarding_latency::RouterVariant;
use super::section::{Estimate, Section};
use crate::bench::Supervision;
use crate::bench::router::Protocol;
use earmark_lab::statistics::trimmed_mean;

const VARIANTS: [RouterVariant; 3] = [
    RouterVariant { protocol: Protocol::Rsvp, name: "RSVP", settings: "", daemon: true },
    RouterVariant {
        protocol: Protocol::Boomerang,
        name: "Boomerang, by the daemon",
        settings: "[boomerang]\nkernel = false\nchanges_per_second = 1000000\n",
        daemon: true,
    },
    RouterVariant {
        protocol: Protocol::Boomerang,
        name: "Boomerang, by the kernel",
        settings: "[boomerang]\nkernel = true\nchanges_per_second = 1000000\n",
        daemon: false,
    },
];

/// Measures both loads; says what is missing if namespaces are unavailable.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let mut section = Section::default();
    if let Some(obstacle) = &order.obstacle {
        section.text(format!("Loads take network namespaces, and were left out: {obstacle}."));
        section.leave_out("loads", "loads take network namespaces, and so root");
        return Ok(section);
    }
    section.append(background::measure(order, supervision)?);
    section.append(signalling::measure(order, supervision)?);
    Ok(section)
}

/// Summarizes values by the means of `parts` consecutive parts, each without its lowest and highest tenth: one pause
/// of a virtual machine for some milliseconds would dominate a plain mean.
fn trimmed_estimate(values: &[f64], parts: usize) -> Option<Estimate> {
    let part = values.len().div_ceil(parts.max(1)).max(1);
    let means: Vec<f64> =
        values.chunks(part).map(|part| trimmed_mean(part.iter().copied())).collect();
    Some(Estimate::of(&means)?.behind(values))
}

/// Returns the plain mean.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_have_the_interval_of_their_parts() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let estimate = trimmed_estimate(&values, 10).unwrap();
        assert_eq!((estimate.median, estimate.repetitions), (50.5, 100));
        assert_eq!((estimate.low, estimate.high), (15.5, 85.5), "the second and the ninth part");
        assert_eq!((trimmed_estimate(&[], 10), mean(&[])), (None, None));
        assert_eq!(mean(&values), Some(50.5));
    }

    #[test]
    fn missing_namespaces_are_noted() {
        let order = PartOptions { quick: true, obstacle: Some("no root".to_owned()) };
        assert_eq!(measure(&order, &Supervision::unwatched()).unwrap().blocks.len(), 1);
    }
}
