//! `[[interface.service]]`: rates for packets with certain DSCPs that are not reserved for.

use earmark_core::Rate;
use earmark_linux::ServicePlan;
use serde::Deserialize;
use toml::Spanned;

use super::source::Source;
use super::{ConfigError, InterfaceConfig, Reservable};

/// Most services of an interface.
const MAX_SERVICES: usize = earmark_linux::traffic_control::MAX_SERVICES;

/// The part of a link available to reservations and services; signalling and best effort keep the rest.
const SHARED: f64 = 0.97;

impl InterfaceConfig {
    /// The rate that services leave for reservations on a link of this bandwidth.
    pub(super) fn left_by_services(&self, bandwidth: Rate) -> Rate {
        if self.services.is_empty() {
            return bandwidth;
        }
        let all = bandwidth.share(SHARED);
        self.services.iter().fold(all, |left, service| left.saturating_sub(service.rate))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceTable {
    dscp: Vec<Spanned<DscpName>>,
    bandwidth: Spanned<String>,
}

/// A code point by number or name: `46` or `"ef"`.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a code point from 0 to 63, or a name such as \"ef\", \"af41\" or \"cs3\""
)]
pub(super) enum DscpName {
    Number(u64),
    Name(String),
}

impl DscpName {
    /// Returns the code point by its number or its name in RFC 2474, 2597, 3246 or 5865.
    pub(super) fn code_point(&self) -> Option<u8> {
        let name = match self {
            DscpName::Number(number) => return u8::try_from(*number).ok().filter(|&n| n < 64),
            DscpName::Name(name) => name.to_ascii_lowercase(),
        };
        let digits = |prefix: &str, length: usize| {
            let digits = name.strip_prefix(prefix)?.as_bytes();
            let is_number = digits.len() == length && digits.iter().all(u8::is_ascii_digit);
            is_number.then(|| digits.iter().map(|digit| digit - b'0').collect::<Vec<u8>>())
        };
        match name.as_str() {
            "ef" => return Some(46),
            "voice-admit" => return Some(44),
            "default" => return Some(0),
            _ => {}
        }
        if let Some([class @ 1..=4, drop @ 1..=3]) = digits("af", 2).as_deref() {
            return Some(class * 8 + drop * 2);
        }
        match digits("cs", 1).as_deref() {
            Some([class @ 0..=7]) => Some(class * 8),
            _ => None,
        }
    }
}

impl Source<'_> {
    /// The services of an interface. A configured bandwidth must have room for them beside the reservable rate. With the
    /// bandwidth from the driver, the reservable rate is reduced instead ([`InterfaceConfig::capacity`]).
    pub(super) fn services(
        &self,
        tables: &[ServiceTable],
        bandwidth: Option<Rate>,
        reservable: Reservable,
    ) -> Result<Vec<ServicePlan>, ConfigError> {
        if let Some(surplus) = tables.get(MAX_SERVICES) {
            return Err(self.error(
                surplus.bandwidth.span(),
                format!("an interface has at most {MAX_SERVICES} services"),
                "put several code points into one service: dscp = [\"af41\", \"af42\"]",
            ));
        }
        let (mut services, mut known) = (Vec::new(), [false; 64]);
        let mut sum = match reservable {
            Reservable::Share(share) => bandwidth.map_or(Rate::ZERO, |all| all.share(share)),
            Reservable::Rate(rate) => rate,
        };
        for table in tables {
            let rate: Rate =
                self.read(&table.bandwidth, "write for example bandwidth = \"1Mbit\"")?;
            sum = Rate::from_bps(sum.as_bps().saturating_add(rate.as_bps()));
            if let Some(bandwidth) = bandwidth
                && sum > bandwidth.share(SHARED)
            {
                return Err(self.error(
                    table.bandwidth.span(),
                    format!(
                        "services and reservable bandwidth sum to {sum}, above 97 % of the \
                         link's {bandwidth}"
                    ),
                    "lower `reservable` of the interface, or the bandwidth of a service: \
                     signalling and best effort keep 3 %",
                ));
            }
            let mut dscps = Vec::new();
            for dscp in &table.dscp {
                let hint = "0 to 63, or a name such as \"ef\", \"af41\" or \"cs3\"";
                let Some(code_point) = dscp.get_ref().code_point() else {
                    return Err(self.error(dscp.span(), "unknown code point", hint));
                };
                if matches!(code_point, 48 | 56) {
                    return Err(self.error(
                        dscp.span(),
                        "CS6 and CS7 are control traffic, which has its share of every link",
                        "leave it out: routing protocols need no service",
                    ));
                }
                if std::mem::replace(&mut known[usize::from(code_point)], true) {
                    return Err(self.error(
                        dscp.span(),
                        format!("code point {code_point} is in two services, or twice in one"),
                        "name each code point once on an interface",
                    ));
                }
                dscps.push(code_point);
            }
            services.push(ServicePlan { dscps, rate });
        }
        Ok(services)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn services(text: &str) -> Result<Vec<ServicePlan>, ConfigError> {
        let text = format!("[[interface]]\nname = 'a'\nbandwidth = '10Mbit'\n{text}");
        let mut config = Config::parse(&text, Path::new("earmark.toml"))?;
        Ok(config.interfaces.remove(0).services)
    }

    #[test]
    fn services_are_read_in_their_order_by_name_and_number() {
        let text = "reservable = '50%'\n\
            [[interface.service]]\ndscp = ['ef', 44]\nbandwidth = '1Mbit'\n\
            [[interface.service]]\ndscp = ['AF41', 'af42', 'cs3', 'default']\nbandwidth = '2Mbit'";
        let expected = [
            ServicePlan { dscps: vec![46, 44], rate: Rate::from_mbps(1) },
            ServicePlan { dscps: vec![34, 36, 24, 0], rate: Rate::from_mbps(2) },
        ];
        assert_eq!(services(text).expect("fine"), expected);
        assert_eq!(services("").expect("fine"), []);
    }

    #[test]
    fn invalid_service_is_refused_with_place() {
        let service = |dscp: &str, bandwidth: &str| {
            format!("[[interface.service]]\ndscp = [{dscp}]\nbandwidth = '{bandwidth}'\n")
        };
        let nine: String = (0..9).map(|n| service(&n.to_string(), "1kbit")).collect();
        for (text, key, word) in [
            (service("46", "3Mbit"), "bandwidth", "97 %"),
            (service("46", "11Mbit"), "bandwidth", "97 %"),
            (service("64", "1kbit"), "dscp", "unknown code point"),
            (service("-1", "1kbit"), "dscp", "a code point"),
            (service("'af44'", "1kbit"), "dscp", "unknown code point"),
            (service("'af4é'", "1kbit"), "dscp", "unknown code point"),
            (service("'cs8'", "1kbit"), "dscp", "unknown code point"),
            (service("'cs6'", "1kbit"), "dscp", "control traffic"),
            (service("1, 1", "1kbit"), "dscp", "twice"),
            (service("1", "1kbit") + &service("1", "1kbit"), "dscp", "two services"),
            (nine, "bandwidth", "at most 8"),
        ] {
            let error = services(&text).expect_err(&text);
            assert!(error.to_string().contains(word), "{text}: {error}");
            assert_eq!(error.place.key, format!("interface.service.{key}"), "{error}");
        }
    }
}
