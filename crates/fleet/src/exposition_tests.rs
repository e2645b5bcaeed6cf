use super::*;

/// Parses a text in parts of this many octets; returns names and values.
fn parse(text: &str, size: usize) -> Result<Vec<(String, f64)>, ExpositionError> {
    let (mut lines, mut samples) = (Lines::default(), Vec::new());
    for part in text.as_bytes().chunks(size) {
        lines.push(part, |sample| {
            samples.push((sample.name.to_owned(), sample.value));
            Ok(())
        })?;
    }
    lines.finish().map(|()| samples)
}

#[test]
fn line_has_name_labels_and_value() {
    let sample = parse_line(r#"x_total{interface="eth0", note="a\"b\\c\nd",} 1.5e3 1700000000"#);
    let sample = sample.expect("valid").expect("a sample");
    assert_eq!((sample.name, sample.value), ("x_total", 1_500.0));
    assert_eq!(sample.label("interface"), Some("eth0"));
    assert_eq!(sample.label("note"), Some("a\"b\\c\nd"));
    assert_eq!(sample.label("other"), None);
    let sample = parse_line("x:y{} +Inf").expect("valid").expect("a sample");
    assert_eq!((sample.name, sample.value), ("x:y", f64::INFINITY));
    assert!(parse_line("x NaN").expect("valid").expect("a sample").value.is_nan());
    for line in ["", "  ", "# HELP x y", "#"] {
        assert_eq!(parse_line(line), Ok(None), "{line}");
    }
}

#[test]
fn malformed_line_is_refused() {
    for (line, error) in [
        ("<!doctype html>", LineError::Name),
        ("1x 2", LineError::Name),
        ("x", LineError::Value),
        ("x{} y", LineError::Value),
        ("x{a=\"b\"", LineError::Labels),
        ("x{a=\"b} 1", LineError::Labels),
        ("x{a=b} 1", LineError::Labels),
        ("x{=\"b\"} 1", LineError::Labels),
        ("x{a=\"b\" c=\"d\"} 1", LineError::Labels),
        ("x{a=\"\\t\"} 1", LineError::Labels),
        ("x 1 2.5", LineError::Timestamp),
        ("x 1 2 3", LineError::Timestamp),
    ] {
        assert_eq!(parse_line(line), Err(error), "{line}");
    }
}

#[test]
fn parts_of_any_size_give_the_same_samples() {
    let text = "# TYPE x gauge\nx{n=\"ä\"} 1\n\ny 2\r\nz 3\n".replace('\r', "");
    let whole = parse(&text, text.len()).expect("valid");
    assert_eq!(whole.len(), 3);
    for size in 1..text.len() {
        assert_eq!(parse(&text, size).as_ref(), Ok(&whole), "{size}");
    }
}

#[test]
fn error_has_the_number_of_its_line() {
    let problem = |line, error| ExpositionError::Line { line, error };
    assert_eq!(parse("x 1\n# c\ny z\n", 5), Err(problem(3, LineError::Value)));
    assert_eq!(parse("x 1\ny 2", 5), Err(problem(2, LineError::CutOff)));
    let mut lines = Lines::default();
    assert_eq!(lines.push(b"\xff\n", |_| Ok(())), Err(problem(1, LineError::Utf8)));
    assert_eq!(lines.push(b"x 1\n", |_| Err(LineError::Range)), Err(problem(1, LineError::Range)));
}

#[test]
fn lines_octets_and_length_are_bounded() {
    let long = format!("x {}", " ".repeat(MAX_LINE));
    let error = Err(ExpositionError::Line { line: 1, error: LineError::TooLong });
    assert_eq!(parse(&long, 100), error);
    assert_eq!(parse(&"\n".repeat(MAX_LINES), 9_999).map(|samples| samples.len()), Ok(0));
    assert_eq!(parse(&"\n".repeat(MAX_LINES + 1), 9_999), Err(ExpositionError::TooManyLines));
    let line = format!("# {}\n", "x".repeat(1_021));
    let text = line.repeat(MAX_OCTETS / line.len());
    assert_eq!(parse(&text, 9_999).map(|samples| samples.len()), Ok(0));
    assert_eq!(parse(&format!("{text}#\n"), 9_999), Err(ExpositionError::TooManyOctets));
}
