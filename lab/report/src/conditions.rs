//! What two rows must have in common to stand side by side: a figure of 200 s says nothing beside one of 30 minutes, and one over a
//! token bucket nothing beside one over a wire.

use record::Manifest;

use crate::wire::WIRE;

/// Runs as long as each other to this part are of one length.
const LENGTH_PART: f64 = 0.02;

/// Returns the reason why these two are not compared, if so.
pub(crate) fn apart(one: &Manifest, other: &Manifest) -> Option<String> {
    if is_of_other_length(one.seconds, other.seconds) {
        return Some(format!("{} ran for {} s, {} for {}", one.name, one.seconds, other.name, other.seconds));
    }
    let (mine, theirs) = (physics(one), physics(other));
    mine.into_iter()
        .zip(theirs)
        .find(|(mine, theirs)| mine != theirs)
        .map(|((what, mine), (_, theirs))| format!("{what}: {mine} ({}), {theirs} ({})", one.name, other.name))
}

fn is_of_other_length(one: f64, other: f64) -> bool {
    (one - other).abs() > LENGTH_PART * one.max(other)
}

/// What decides how packets move, and is not the server's to decide.
fn physics(manifest: &Manifest) -> [(&'static str, String); 4] {
    let said = |name: &str| manifest.environment.get(name).cloned();
    [
        ("link", link(manifest).into()),
        ("clock", said("clock").unwrap_or_else(|| "real".into())),
        ("network", said("wan_paths").unwrap_or_else(|| "no delay or loss".into())),
        ("largest packets", said("gso_max_segs").unwrap_or_else(|| "as the kernel has them".into())),
    ]
}

fn link(manifest: &Manifest) -> &'static str {
    if manifest.is_of_server() {
        return "not seen by the server, which recorded";
    }
    if manifest.environment.contains_key(WIRE) { "a wire" } else { "a token bucket" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::manifest;

    fn with(name: &str, environment: &[(&str, &str)]) -> Manifest {
        let mut manifest = manifest(name);
        manifest.environment.extend(environment.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        manifest
    }

    #[test]
    fn rows_of_other_length_or_physics_are_apart() {
        let plain = manifest("a");
        assert_eq!(
            apart(&plain, &with("b", &[("qdisc", "cake"), ("bottleneck", "cake")])),
            None,
            "the question itself"
        );
        let long = Manifest { seconds: 1800.0, ..manifest("b") };
        assert_eq!(apart(&plain, &long).unwrap(), "a ran for 2 s, b for 1800");
        assert_eq!(apart(&plain, &Manifest { seconds: 2.02, ..manifest("b") }), None);
        for (name, value, said) in [
            ("wire", "netem rate 8000000", "link: a token bucket (a), a wire (b)"),
            ("clock", "virtual", "clock: real (a), virtual (b)"),
            ("wan_paths", "a=198.18.16.0/24,rtt=50ms", "network: no delay or loss (a), a=198.18.16.0/24,rtt=50ms (b)"),
            ("gso_max_segs", "1", "largest packets: as the kernel has them (a), 1 (b)"),
        ] {
            assert_eq!(apart(&plain, &with("b", &[(name, value)])).unwrap(), said);
            assert_eq!(apart(&with("a", &[(name, value)]), &with("b", &[(name, value)])), None);
        }
        let [one, other] = ["netem rate 8000000", "netem rate 4000000"].map(|kind| with("a", &[("wire", kind)]));
        assert_eq!(apart(&one, &other), None, "both serialise");
    }

    #[test]
    fn what_a_server_recorded_is_apart_from_what_clients_saw() {
        let of_server = manifest("b").of_server();
        let said = "link: a token bucket (a), not seen by the server, which recorded (b)";
        assert_eq!(apart(&manifest("a"), &of_server).unwrap(), said);
        assert_eq!(apart(&of_server, &manifest("c").of_server()), None);
    }
}
