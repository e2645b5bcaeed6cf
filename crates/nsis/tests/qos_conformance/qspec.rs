//! Conversion between QSPECs and lines of a story: one line for the header, and one for each parameter with its object.

use earmark_testkit::conformance::words::{Fault, Words};
use std::str::FromStr;

use earmark_wire::intserv::TokenBucket;
use earmark_wire::qspec::iana::{Excess, MessageSequence, QspecType, Y2171Priority};
use earmark_wire::qspec::{
    AdmissionPriority, ExcessTreatment, Parameter, PathJitter, Phb, PhbField, PreemptionPriority,
    Procedure, QosObject, Qspec, Ratio, RphPriority, Value,
};

/// Value of an unknown latency: all ones.
const UNKNOWN: u32 = u32::MAX;

/// Names of the objects, in the order of their numbers.
const OBJECTS: [&str; 4] = ["desired", "available", "reserved", "minimum"];

/// Returns the lines of a QSPEC.
pub(crate) fn show(octets: &[u8]) -> Vec<String> {
    let Ok(qspec) = Qspec::parse(octets) else {
        return vec![format!("QSPEC that is none, {} octets", octets.len())];
    };
    let Procedure { sequence, combination } = qspec.procedure;
    let sequence = match sequence {
        MessageSequence::TwoWay => "two-way".into(),
        MessageSequence::ThreeWay => "three-way".into(),
        MessageSequence::ResourceQuery => "query".into(),
        MessageSequence::Unknown(code) => code.to_string(),
    };
    let model = match qspec.qspec_type {
        QspecType::Default => String::new(),
        other => format!(" model={}", other.code()),
    };
    let local = if qspec.is_local { " local" } else { "" };
    let mut lines = vec![format!("QSPEC {sequence} {combination}{model}{local}")];
    let objects = [qspec.desired, qspec.available, qspec.reserved, qspec.minimum];
    for (name, object) in OBJECTS.iter().zip(objects) {
        let Some(object) = object else { continue };
        if object.is_failed {
            lines.push(format!("{name} E"));
        }
        lines.extend(object.parameters.iter().map(|it| format!("{name} {}", parameter(&it))));
    }
    lines
}

fn parameter(parameter: &Parameter<'_>) -> String {
    let Parameter { is_mandatory, is_failed, is_not_supported, value } = parameter;
    let constant = matches!(value, Value::Tmod1(_));
    let mut text = value_text(value);
    for (flag, name) in
        [(*is_mandatory && !constant, " M"), (*is_failed, " E"), (*is_not_supported, " N")]
    {
        if flag {
            text += name;
        }
    }
    text
}

fn value_text(value: &Value<'_>) -> String {
    let known = |number: u32| match number {
        UNKNOWN => "unknown".to_string(),
        number => number.to_string(),
    };
    match value {
        Value::Tmod1(bucket) => format!("TMOD-1 {}", bucket_text(bucket)),
        Value::Tmod2(bucket) => format!("TMOD-2 {}", bucket_text(bucket)),
        Value::PathLatency(us) => format!("PATH-LATENCY {}", known(*us)),
        Value::PathJitter(PathJitter { variance, percentile, minimum_latency }) => format!(
            "PATH-JITTER {} percentile={} minimum={}",
            known(*variance),
            known(*percentile),
            known(*minimum_latency)
        ),
        Value::PathPlr(ratio) => format!("PATH-PLR {}", ratio.get()),
        Value::PathPer(ratio) => format!("PATH-PER {}", ratio.get()),
        Value::SlackTerm(us) => format!("SLACK-TERM {us}"),
        Value::PreemptionPriority(PreemptionPriority { preemption, defending }) => {
            format!("PREEMPTION-PRIORITY {preemption} defending={defending}")
        }
        Value::AdmissionPriority(AdmissionPriority { y2171, local }) => {
            format!("ADMISSION-PRIORITY {} local={local}", y2171.code())
        }
        Value::RphPriority(RphPriority { namespace, priority }) => {
            format!("RPH-PRIORITY {priority} namespace={namespace}")
        }
        Value::ExcessTreatment(ExcessTreatment { excess, remark }) => {
            format!("EXCESS-TREATMENT {} remark={remark}", excess.code())
        }
        Value::PhbClass(field) => match field.phb() {
            Some(Phb::Standard { dscp, is_set: false }) => format!("PHB-CLASS dscp={dscp}"),
            _ => format!("PHB-CLASS field={}", field.0),
        },
        Value::DsteClassType(class) => format!("DSTE-CLASS-TYPE {class}"),
        Value::Y1541QosClass(class) => format!("Y.1541-QOS-CLASS {class}"),
        Value::Unknown { id, .. } => format!("PARAMETER {id}"),
    }
}

fn bucket_text(bucket: &TokenBucket) -> String {
    let TokenBucket { rate, depth, peak, min_policed_unit, max_packet_size } = bucket;
    format!("r={rate} b={depth} p={peak} m={min_policed_unit} MPS={max_packet_size}")
}

/// A QSPEC of a story, read line by line.
#[derive(Debug)]
pub(crate) struct Draft {
    qspec_type: QspecType,
    procedure: Procedure,
    objects: [Vec<Parameter<'static>>; 4],
    failed: [bool; 4],
}

impl Draft {
    /// Starts with the first line.
    pub(crate) fn begin(words: &mut Words<'_>) -> Result<Draft, Fault> {
        let sequence = match words.next("a message sequence")? {
            "two-way" => MessageSequence::TwoWay,
            "three-way" => MessageSequence::ThreeWay,
            "query" => MessageSequence::ResourceQuery,
            other => return Err(format!("there is no message sequence `{other}`")),
        };
        let combination = words.value("an object combination")?;
        let qspec_type = words.maybe("model")?.map_or(QspecType::Default, QspecType::from_code);
        let procedure = Procedure { sequence, combination };
        Ok(Draft { qspec_type, procedure, objects: Default::default(), failed: [false; 4] })
    }

    /// Reads a line of an object; `false` if it is another line.
    pub(crate) fn take(&mut self, object: &str, words: &mut Words<'_>) -> Result<bool, Fault> {
        let Some(place) = OBJECTS.iter().position(|name| *name == object) else {
            return Ok(false);
        };
        let flags = [words.flag("M"), words.flag("E"), words.flag("N")];
        if words.is_empty() {
            self.failed[place] = flags[1];
            return Ok(true);
        }
        let value = value(words)?;
        let [is_mandatory, is_failed, is_not_supported] = flags;
        self.objects[place].push(Parameter {
            is_mandatory: is_mandatory || matches!(value, Value::Tmod1(_)),
            is_failed,
            is_not_supported,
            value,
        });
        Ok(true)
    }

    pub(crate) fn octets(&self) -> Result<Vec<u8>, Fault> {
        let [desired, available, reserved, minimum] = [0, 1, 2, 3].map(|place| {
            let parameters = &self.objects[place];
            let is_failed = parameters.iter().any(|parameter| parameter.is_failed);
            (!parameters.is_empty()).then(|| QosObject {
                is_failed: is_failed || self.failed[place],
                ..QosObject::new(parameters)
            })
        });
        let qspec = Qspec {
            qspec_type: self.qspec_type,
            desired,
            available,
            reserved,
            minimum,
            ..Qspec::new(self.procedure)
        };
        let mut octets = vec![0; qspec.buffer_len()];
        qspec.emit(&mut octets).map_err(|error| error.to_string())?;
        Ok(octets)
    }
}

fn value(words: &mut Words<'_>) -> Result<Value<'static>, Fault> {
    let name = words.next("a parameter")?;
    Ok(match name {
        "TMOD-1" => Value::Tmod1(bucket(words)?),
        "TMOD-2" => Value::Tmod2(bucket(words)?),
        "PATH-LATENCY" => Value::PathLatency(known(words.next("microseconds")?)?),
        "PATH-JITTER" => Value::PathJitter(PathJitter {
            variance: known(words.next("a variance")?)?,
            percentile: known(words.text("percentile").unwrap_or("unknown"))?,
            minimum_latency: known(words.text("minimum").unwrap_or("unknown"))?,
        }),
        "PATH-PLR" => Value::PathPlr(Ratio::new(words.value("a ratio")?)),
        "PATH-PER" => Value::PathPer(Ratio::new(words.value("a ratio")?)),
        "SLACK-TERM" => Value::SlackTerm(words.value("microseconds")?),
        "PREEMPTION-PRIORITY" => Value::PreemptionPriority(PreemptionPriority {
            preemption: words.value("a priority")?,
            defending: words.key("defending")?,
        }),
        "ADMISSION-PRIORITY" => Value::AdmissionPriority(AdmissionPriority {
            y2171: Y2171Priority::from_code(words.value("a priority")?),
            local: words.key("local")?,
        }),
        "RPH-PRIORITY" => Value::RphPriority(RphPriority {
            priority: words.value("a priority")?,
            namespace: words.key("namespace")?,
        }),
        "EXCESS-TREATMENT" => Value::ExcessTreatment(ExcessTreatment {
            excess: Excess::from_code(words.value("a treatment")?),
            remark: words.key("remark")?,
        }),
        "PHB-CLASS" => Value::PhbClass(match words.maybe("field")? {
            Some(field) => PhbField(field),
            None => PhbField::from(Phb::Standard { dscp: words.key("dscp")?, is_set: false }),
        }),
        "DSTE-CLASS-TYPE" => Value::DsteClassType(words.value("a class")?),
        "Y.1541-QOS-CLASS" => Value::Y1541QosClass(words.value("a class")?),
        "PARAMETER" => Value::Unknown { id: words.value("a number")?, octets: &[0; 4] },
        other => return Err(format!("there is no parameter `{other}`")),
    })
}

fn known(text: &str) -> Result<u32, Fault> {
    match text {
        "unknown" => Ok(UNKNOWN),
        number => u32::from_str(number).map_err(|error| format!("`{number}`: {error}")),
    }
}

fn bucket(words: &mut Words<'_>) -> Result<TokenBucket, Fault> {
    Ok(TokenBucket {
        rate: words.key("r")?,
        depth: words.key("b")?,
        peak: words.key("p")?,
        min_policed_unit: words.key("m")?,
        max_packet_size: words.key("MPS")?,
    })
}
