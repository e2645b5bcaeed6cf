//! A headless Chromium, driven by chromedriver through WebDriver (W3C), in the namespace of a host.
#![allow(unreachable_pub)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::host::{Host, Outcome, until};

const PORT: u16 = 9_515;
/// Programs that the test needs.
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];

/// Returns a program that is missing.
pub fn missing_program() -> Option<&'static str> {
    let runs = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    PROGRAMS.into_iter().find(|program| !runs(program))
}

/// A session of a browser, which ends with this value.
pub struct Browser<'a> {
    host: &'a Host,
    driver: Child,
    session: String,
}

impl Browser<'_> {
    pub fn start(host: &Host) -> Result<Browser<'_>, Failed> {
        let mut command = host.namespace.command("chromedriver")?;
        command.arg(format!("--port={PORT}")).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = command.env("HOME", &host.directory).spawn()?;
        let mut browser = Browser { host, driver, session: String::new() };
        until("the driver listens", || Ok(browser.connect().ok()))?;
        let profile = host.directory.join("profile");
        let options = json!({ "args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            format!("--user-data-dir={}", profile.display()),
        ] });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
        } } });
        let created = browser.call("POST", "/session", &wanted)?;
        browser.session = created["sessionId"].as_str().ok_or("no session")?.to_owned();
        Ok(browser)
    }

    fn connect(&self) -> Result<TcpStream, Failed> {
        let stream = self.host.namespace.run_in(|| TcpStream::connect(("127.0.0.1", PORT)))??;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(stream)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, Failed> {
        let path = match path {
            "/session" => path.to_owned(),
            path => format!("/session/{}{path}", self.session),
        };
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let mut stream = self.connect()?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        // The driver keeps the connection open.
        let (mut reader, mut length) = (BufReader::new(stream), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            match line.strip_prefix("content-length:") {
                Some(value) => length = value.trim().parse()?,
                None if line.is_empty() => break,
                None => {}
            }
        }
        let mut content = vec![0; length];
        reader.read_exact(&mut content)?;
        let answer: Value = serde_json::from_slice(&content)?;
        match answer["value"].get("error") {
            Some(error) => Err(format!("{path}: {error}: {}", answer["value"]["message"]).into()),
            None => Ok(answer["value"].clone()),
        }
    }

    pub fn open(&self, url: &str) -> Outcome {
        self.call("POST", "/url", &json!({ "url": url })).map(drop)
    }

    /// Runs the body of a function in the page, and returns its value.
    pub fn run(&self, script: &str) -> Result<Value, Failed> {
        self.call("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Runs a function that calls its last argument with its value.
    pub fn run_until_called(&self, script: &str) -> Result<Value, Failed> {
        self.call("POST", "/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true.
    pub fn wait(&self, expression: &str) -> Outcome {
        let look =
            || Ok(self.run(&format!("return Boolean({expression})"))?.as_bool().filter(|is| *is));
        until(expression, look).map(drop).map_err(|error| {
            let page = self.run("return document.body.innerText").unwrap_or_default();
            format!(
                "{}\n{}",
                error.message().unwrap_or_default(),
                page.as_str().unwrap_or_default()
            )
            .into()
        })
    }

    fn element(&self, selector: &str) -> Result<String, Failed> {
        let found = json!({ "using": "css selector", "value": selector });
        let found = self.call("POST", "/element", &found)?;
        let id = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
        Ok(id.ok_or("no element")?.to_owned())
    }

    /// Types a text into an empty field, by keys.
    pub fn fill(&self, selector: &str, text: &str) -> Outcome {
        let id = self.element(selector)?;
        self.call("POST", &format!("/element/{id}/clear"), &json!({}))?;
        self.call("POST", &format!("/element/{id}/value"), &json!({ "text": text })).map(drop)
    }

    pub fn choose(&self, selector: &str, text: &str) -> Outcome {
        let id = self.element(selector)?;
        self.call("POST", &format!("/element/{id}/value"), &json!({ "text": text })).map(drop)
    }

    pub fn click(&self, selector: &str) -> Outcome {
        let id = self.element(selector)?;
        self.call("POST", &format!("/element/{id}/click"), &json!({})).map(drop)
    }

    /// Sends a command of the DevTools protocol.
    fn devtools(&self, command: &str, parameters: &Value) -> Result<Value, Failed> {
        self.call("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Sets the width of the page; `height` is that of a screenshot.
    pub fn resize(&self, width: u32, height: u32) -> Outcome {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &size).map(drop)
    }

    /// Has the page prefer a scheme of colors.
    pub fn prefer(&self, scheme: &str) -> Outcome {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": [feature] })).map(drop)
    }

    /// Returns a picture of the visible part, PNG.
    pub fn screenshot(&self) -> Result<Vec<u8>, Failed> {
        let picture = self.call("GET", "/screenshot", &Value::Null)?;
        Ok(decode_base64(picture.as_str().ok_or("no picture")?))
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        // Ends the browser, which the driver has started.
        let _ = self.call("DELETE", "", &json!({}));
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn decode_base64(text: &str) -> Vec<u8> {
    let digit = |octet: u8| match octet {
        b'A'..=b'Z' => Some(octet - b'A'),
        b'a'..=b'z' => Some(octet - b'a' + 26),
        b'0'..=b'9' => Some(octet - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().filter_map(digit).collect();
    let mut octets = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let bits = group.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
        let bits = bits << (6 * (4 - group.len()));
        octets.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    octets
}
