//! sslyze, judged as strictly as grade A of SSL Labs: TLS 1.3, Mozilla's intermediate configuration, and nothing that
//! would cap the grade (TLS 1.1 and below, suites without forward secrecy or authenticated encryption, compression,
//! renegotiation by clients, known attacks).

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::bench::Bench;
use super::run;

const LIMIT: Duration = Duration::from_secs(300);
/// The verdict of sslyze on Mozilla's configuration.
const COMPLIANT: &str = "OK - Compliant";

/// Returns the expected values, by their paths in the results.
fn expected() -> Vec<(&'static str, Value)> {
    let (yes, no) = (json!(true), json!(false));
    vec![
        ("ssl_2_0_cipher_suites/result/is_tls_version_supported", no.clone()),
        ("ssl_3_0_cipher_suites/result/is_tls_version_supported", no.clone()),
        ("tls_1_0_cipher_suites/result/is_tls_version_supported", no.clone()),
        ("tls_1_1_cipher_suites/result/is_tls_version_supported", no.clone()),
        ("tls_1_2_cipher_suites/result/is_tls_version_supported", yes.clone()),
        ("tls_1_3_cipher_suites/result/is_tls_version_supported", yes.clone()),
        ("tls_compression/result/supports_compression", no.clone()),
        ("tls_1_3_early_data/result/supports_early_data", no.clone()),
        ("openssl_ccs_injection/result/is_vulnerable_to_ccs_injection", no.clone()),
        ("heartbleed/result/is_vulnerable_to_heartbleed", no.clone()),
        ("robot/result/robot_result", json!("NOT_VULNERABLE_RSA_NOT_SUPPORTED")),
        ("session_renegotiation/result/supports_secure_renegotiation", yes.clone()),
        ("session_renegotiation/result/is_vulnerable_to_client_renegotiation_dos", no),
        ("session_renegotiation/result/client_renegotiations_success_count", json!(0)),
        ("tls_fallback_scsv/result/supports_fallback_scsv", yes.clone()),
        ("tls_extended_master_secret/result/supports_ems_extension", yes.clone()),
        ("certificate_info/result/certificate_deployments/0/received_chain_has_valid_order", yes),
    ]
}

pub fn run(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    let json = bench.folder.join("sslyze.json");
    let mut command = Command::new(&found[0]);
    command
        .args(["--mozilla_config=intermediate", "--early_data", "--certinfo_ca_file"])
        .arg(&bench.certificates.authority);
    command.arg(format!("--json_out={}", json.display())).arg(format!("localhost:{}", bench.port));
    let (_, said) = run::to_end(&mut command, &bench.log("sslyze"), LIMIT)?;
    let text = fs::read_to_string(&json).map_err(|_| format!("no result: {}", run::last_lines(&said, 3)))?;
    let result: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", json.display()))?;
    let mut problems = problems(result.pointer("/server_scan_results/0/scan_result").unwrap_or(&Value::Null));
    if !said.contains(COMPLIANT) {
        let of_mozilla = said.split_once("COMPLIANCE AGAINST TLS CONFIGURATION").map_or("", |(_, rest)| rest);
        problems.push(format!("not Mozilla's intermediate configuration: {}", run::last_lines(of_mozilla, 10)));
    }
    if problems.is_empty() { Ok("nothing below A; Mozilla intermediate".into()) } else { Err(problems.join("\n")) }
}

fn problems(result: &Value) -> Vec<String> {
    let at = |place: &str| result.pointer(&format!("/{place}")).unwrap_or(&Value::Null);
    let wrong = expected().into_iter().filter(|(place, wanted)| at(place) != wanted);
    let mut problems: Vec<String> =
        wrong.map(|(place, wanted)| format!("{place}: {}, expected {wanted}", at(place))).collect();
    let list = |place: &str| at(place).as_array().cloned().unwrap_or_default();
    for suite in list("tls_1_2_cipher_suites/result/accepted_cipher_suites") {
        let name = suite.pointer("/cipher_suite/name").and_then(Value::as_str).unwrap_or("a suite without a name");
        if !is_strong(name) {
            problems.push(format!("suite {name}: expected forward secrecy and authenticated encryption"));
        }
    }
    let stores = list("certificate_info/result/certificate_deployments/0/path_validation_results");
    let is_trusted = |store: &Value| store["was_validation_successful"] == true;
    if !stores.iter().any(is_trusted) {
        problems.push("the chain does not lead to its authority".into());
    }
    problems
}

fn is_strong(name: &str) -> bool {
    let is_aead = ["_GCM_SHA256", "_GCM_SHA384", "_POLY1305_SHA256"].iter().any(|end| name.ends_with(end));
    name.starts_with("TLS_ECDHE_") && is_aead
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result in which everything is as expected.
    fn good() -> Value {
        let mut result = json!({});
        for (place, value) in expected() {
            let (scan, rest) = place.split_once("/result/").unwrap();
            match rest.strip_prefix("certificate_deployments/0/") {
                Some(name) => {
                    result[scan]["result"]["certificate_deployments"] =
                        json!([{ name: value, "path_validation_results": [{ "was_validation_successful": true }] }]);
                }
                None => result[scan]["result"][rest] = value,
            }
        }
        let suites = json!([{ "cipher_suite": { "name": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" } }]);
        result["tls_1_2_cipher_suites"]["result"]["accepted_cipher_suites"] = suites;
        result
    }

    #[test]
    fn each_weakness_is_a_problem() {
        assert_eq!(problems(&good()), Vec::<String>::new());
        let with = |place: &str, value: Value| {
            let mut result = good();
            *result.pointer_mut(place).unwrap() = value;
            problems(&result)
        };
        let said = with("/tls_1_0_cipher_suites/result/is_tls_version_supported", json!(true));
        assert_eq!(said, ["tls_1_0_cipher_suites/result/is_tls_version_supported: true, expected false"]);
        let suite = "/tls_1_2_cipher_suites/result/accepted_cipher_suites/0/cipher_suite/name";
        assert_eq!(with(suite, json!("TLS_RSA_WITH_AES_128_GCM_SHA256")).len(), 1);
        assert_eq!(with(suite, json!("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA")).len(), 1);
        let chain = "/certificate_info/result/certificate_deployments/0/path_validation_results";
        assert_eq!(with(chain, json!([])), ["the chain does not lead to its authority"]);
    }

    #[test]
    fn a_scan_that_did_not_run_is_a_problem() {
        let mut result = good();
        result["heartbleed"]["result"] = Value::Null;
        assert_eq!(problems(&result).len(), 1);
        assert!(problems(&Value::Null).len() > expected().len());
    }
}
