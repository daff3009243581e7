//! The policies. One file each: its formula, its source, what it is good at and where it is bad.

mod fair;
mod fcfs;
mod las;
mod psjf;
mod srpt;

pub use fair::Fair;
pub use fcfs::Fcfs;
pub use las::Las;
pub use psjf::Psjf;
pub use srpt::Srpt;

use crate::Job;

/// Ranks jobs. Waiting never changes a rank: a rank is a function of the job alone, worked out again only when the
/// job's own attained service changes.
pub trait Policy: Send {
    /// The name on command lines and in records.
    fn name(&self) -> &'static str;
    /// Lower drains first; equal ranks drain in order of arrival.
    fn rank(&self, job: &Job) -> u64;
    /// Whether a job can be passed over for as long as others keep arriving; only then has the guard work to do.
    fn can_starve(&self) -> bool {
        true
    }
}

/// Names of all policies, in the order help texts list them.
pub const NAMES: &[&str] = &["fair", "fcfs", "srpt", "psjf", "las"];

/// The policy of this name.
pub fn by_name(name: &str) -> Result<Box<dyn Policy>, UnknownPolicy> {
    Ok(match name {
        "fair" => Box::new(Fair),
        "fcfs" => Box::new(Fcfs),
        "srpt" => Box::new(Srpt),
        "psjf" => Box::new(Psjf),
        "las" => Box::new(Las),
        _ => return Err(UnknownPolicy(name.to_string())),
    })
}

/// No policy has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl std::fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown policy `{}`: choose one of {}", self.0, NAMES.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

/// The rank of a job whose size is not known, under a policy that orders by size: what it has attained so far.
///
/// The size of a response that has already sent x bytes is more than x, and for the heavy-tailed sizes of the web
/// what is left grows with x (a decreasing hazard rate), so ordering such jobs by attained service is the best that
/// can be done blind (Nuyens & Wierman, "The foreground-background queue: a survey", 2008).
fn blind_rank(job: &Job) -> u64 {
    job.attained
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_the_policys_own() {
        for name in NAMES {
            assert_eq!(by_name(name).unwrap().name(), *name);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let said = by_name("sprt").map(|_| ()).unwrap_err().to_string();
        assert_eq!(said, "unknown policy `sprt`: choose one of fair, fcfs, srpt, psjf, las");
    }
}
