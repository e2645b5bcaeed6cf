//! `admission` of an interface: how the link admits reservations.

use std::time::Duration;

use earmark_core::admission::{AdmissionMethod, MeasuredSum};
use serde::Deserialize;
use toml::Spanned;

use super::source::Source;
use super::{ConfigError, Queueing};

/// `"parameter"`, or `{ measured = { target = 0.9, window = "10s", sample = "1s" } }`.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AdmissionName {
    Parameter,
    Measured(MeasuredTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredTable {
    target: Option<f64>,
    window: Option<Spanned<String>>,
    sample: Option<Spanned<String>>,
}

impl Source<'_> {
    pub(super) fn admission(
        &self,
        admission: Option<&Spanned<AdmissionName>>,
        queues: Queueing,
    ) -> Result<AdmissionMethod, ConfigError> {
        const HINT: &str = "admission = { measured = { target = 0.9, window = \"10s\", sample = \"1s\" } }, for example";
        let Some(admission) = admission else { return Ok(AdmissionMethod::default()) };
        let span = admission.span();
        let AdmissionName::Measured(table) = admission.get_ref() else {
            return Ok(AdmissionMethod::Parameter);
        };
        let usual = MeasuredSum::default();
        let [millisecond, hour] = [Duration::from_millis(10), Duration::from_secs(3_600)];
        let limits = millisecond..=hour;
        let sample = self.duration(table.sample.as_ref(), limits, usual.sample, HINT)?;
        let window = table.window.as_ref();
        let window = self.duration(window, sample..=hour, usual.window.max(sample), HINT)?;
        let target = table.target.unwrap_or(usual.target);
        // Written so that NaN fails, too.
        if !(target > 0.0 && target <= 1.0) {
            return Err(self.error(span, "the target is a share above 0 and at most 1", HINT));
        }
        if !matches!(queues, Queueing::PerFlow | Queueing::Aggregate) {
            return Err(self.error(
                span,
                "reservations are measured with queues = \"per-flow\" or \"aggregate\" only",
                "choose one of these, or admission = \"parameter\"",
            ));
        }
        Ok(AdmissionMethod::Measured(MeasuredSum { target, window, sample }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    #[test]
    fn admission_by_measurement_is_read_and_checked() {
        let method = |admission: &str| {
            let text = format!("[[interface]]\nname = 'eth0'\nbandwidth = '10Mbit'\n{admission}\n");
            Config::parse(&text, Path::new("r1.toml")).map(|config| config.interfaces[0].admission)
        };
        let usual = MeasuredSum::default();
        for (text, expected) in [
            ("", AdmissionMethod::Parameter),
            ("admission = 'parameter'", AdmissionMethod::Parameter),
            ("admission = { measured = {} }", AdmissionMethod::Measured(usual)),
            (
                "admission = { measured = { target = 0.8, window = '30s', sample = '500ms' } }",
                AdmissionMethod::Measured(MeasuredSum {
                    target: 0.8,
                    window: Duration::from_secs(30),
                    sample: Duration::from_millis(500),
                }),
            ),
        ] {
            assert_eq!(method(text).expect(text), expected);
        }
        for (text, message) in [
            ("admission = { measured = { target = 1.5 } }", "the target is a share"),
            ("admission = { measured = { window = '500ms' } }", "out of range"),
            ("admission = { measured = { sample = '1ms' } }", "out of range"),
            ("queues = 'priority'\nadmission = { measured = {} }", "per-flow"),
        ] {
            let error = method(text).expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
