//! Failures of single routers, on standard error.

use std::io::Write;

use earmark_control::command::Failure;
use serde_json::json;

use super::names::RouterName;

/// Prints the failure of a router to standard error. The other routers go on.
pub(crate) fn report(router: &RouterName, failure: &Failure, json: bool) {
    // Standard error may be closed; the exit status still reports the failure.
    let _ = if json {
        let Failure { code, message, hint } = failure;
        let error = json!({ "router": router.as_str(), "error": { "code": code, "message": message, "hint": hint } });
        writeln!(std::io::stderr().lock(), "{error}")
    } else {
        failure.print(&format!("earmark: {router}"), false)
    };
}
