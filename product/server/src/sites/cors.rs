//! Requests by scripts of other origins (the Fetch standard, section 3.2). Adds the fields that let such a script read
//! a response, and answers preflights, by which a browser asks beforehand.

use config::CorsRule;
use http::{Method, Readings, Request, Response, Status};

use super::Sites;
use crate::body::Body;
use crate::files::SiteNumber;

impl Sites {
    /// Returns the answer to a preflight. `None` for other requests, and for paths without a rule.
    pub fn preflight(&self, site: SiteNumber, request: &Request) -> Option<Response<Body>> {
        if request.method != Method::Options || value(request, "access-control-request-method").is_none() {
            return None;
        }
        let origin = value(request, "origin")?;
        let readings = Readings::of(request.path).ok()?;
        let rule = self.answers[self.place(site)].cors(readings.plain())?;
        let mut response = Response::new(Status::NO_CONTENT, Body::default());
        if rule.allows(origin) {
            response = response.with("Access-Control-Allow-Methods", rule.methods.as_bytes());
            if !rule.headers.is_empty() {
                response = response.with("Access-Control-Allow-Headers", rule.headers.as_bytes());
            }
            if let Some(age) = rule.max_age {
                response = response.with("Access-Control-Max-Age", age.as_secs().to_string().as_bytes());
            }
        }
        Some(response)
    }
}

/// The fields that are always replaced, even if a program has set them.
const FIELDS: [&str; 3] =
    ["Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers"];

/// Adds the fields of a rule to a response.
pub(super) fn shared(rule: &CorsRule, request: &Request, response: Response<Body>) -> Response<Body> {
    let response = FIELDS.iter().fold(response, |response, name| response.without(name));
    if rule.is_for_any() {
        return exposed(rule, response.with("Access-Control-Allow-Origin", b"*"));
    }
    // Caches must not give one origin's response to another.
    let response = response.varying_by("Origin");
    let Some(origin) = value(request, "origin").filter(|origin| rule.allows(origin)) else { return response };
    let response = response.with("Access-Control-Allow-Origin", origin);
    let response = match rule.allows_credentials {
        true => response.with("Access-Control-Allow-Credentials", b"true"),
        false => response,
    };
    exposed(rule, response)
}

fn exposed(rule: &CorsRule, response: Response<Body>) -> Response<Body> {
    match rule.exposed.is_empty() {
        true => response,
        false => response.with("Access-Control-Expose-Headers", rule.exposed.as_bytes()),
    }
}

/// Returns the value of a field that occurs exactly once in a request.
fn value<'r>(request: &Request<'r>, name: &str) -> Option<&'r [u8]> {
    let mut values = request.values(name);
    values.next().filter(|_| values.next().is_none())
}
