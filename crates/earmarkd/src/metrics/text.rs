//! The text of the metrics, in the format that the scraper accepts.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::family::{Family, FamilyKind, Value};

/// Format of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus 0.0.4, which every scraper reads.
    Prometheus,
}

impl Format {
    /// Returns the format for a value of the header `Accept`.
    pub(super) fn accepted(accept: &str) -> Format {
        match accept.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    /// Returns the value of the header `Content-Type`.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Returns the text of families.
    pub(super) fn write(self, families: Vec<Arc<Vec<Family>>>) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Families(families)));
        let mut written = String::new();
        match self {
            Format::OpenMetrics => text::encode(&mut written, &registry)?,
            Format::Prometheus => prometheus_text::encode(&mut written, &registry)?,
        }
        Ok(written)
    }
}

#[derive(Debug)]
struct Families(Vec<Arc<Vec<Family>>>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.0.iter().flat_map(|families| families.iter()) {
            let kind = match family.kind {
                FamilyKind::Counter => MetricType::Counter,
                FamilyKind::Gauge => MetricType::Gauge,
                FamilyKind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(&family.name, &family.help, None, kind)?;
            for sample in &family.samples {
                let labels: Vec<(&str, &str)> =
                    sample.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
                match labels.as_slice() {
                    [] => encode(&mut metric, &sample.value)?,
                    labels => encode(&mut metric.encode_family(&labels)?, &sample.value)?,
                }
            }
        }
        Ok(())
    }
}

fn encode(metric: &mut MetricEncoder<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Count(count) => metric.encode_counter::<NoLabelSet, _, u64>(count, None),
        Value::Seconds(seconds) => metric.encode_counter::<NoLabelSet, _, u64>(seconds, None),
        Value::Number(number) => metric.encode_gauge(number),
        Value::Histogram(histogram) => metric.encode_histogram::<NoLabelSet>(
            histogram.sum(),
            histogram.count(),
            &histogram.buckets(),
            None,
        ),
    }
}
