//! Load that waits: SURGE's users, and sessions that come by themselves.

use std::collections::BTreeSet;

use units::{Nanos, Rate};
use workload::surge::{Files, Sequence, UserModel};
use workload::{EndlessSizes, LoadProfile, Population, SessionModel, USERS_MAX};

use super::Args;
use super::jobs::{self, Demand};
use cli::Failure;

/// Users, and what is known of them before the run.
pub(crate) struct Users {
    pub(crate) population: Population,
    /// As the manifest tells of them.
    pub(crate) who: String,
    /// All sizes they may ask for.
    pub(crate) sizes: BTreeSet<u64>,
    /// Nobody asks from then on.
    pub(crate) until: Nanos,
    /// Mean number of requests of a session, rounded.
    pub(crate) session_requests: Option<u64>,
}

/// The users or sessions asked for; `None` where the load is open.
pub(crate) fn of(args: &Args, link: Rate) -> Result<Option<Users>, Failure> {
    match (args.users, &args.session) {
        (Some(users), _) => equivalents(args, users).map(Some),
        (None, Some(session)) => sessions(args, session, link).map(Some),
        (None, None) => Ok(None),
    }
}

fn equivalents(args: &Args, users: u32) -> Result<Users, Failure> {
    if !(1..=USERS_MAX).contains(&users) {
        return Err(Failure::Usage(format!("--users: {users} users: write 1 to {USERS_MAX}")));
    }
    let until = until(args, "--users")?;
    let files = Files::matched(&jobs::server_model(args)?);
    let sizes = files.sizes().iter().copied().collect();
    let sequence = Box::new(Sequence::new(files, args.seed));
    let population = Population::users(users, UserModel::PUBLISHED, until, sequence, args.seed);
    Ok(Users { population, who: format!("{users} users"), sizes, until, session_requests: None })
}

fn sessions(args: &Args, session: &str, link: Rate) -> Result<Users, Failure> {
    let wrong = |reason: String| Failure::Usage(format!("--session: {reason}"));
    let (requests, think) = parse(session).map_err(wrong)?;
    let until = until(args, "--session")?;
    let (list, sizes): (Vec<u64>, EndlessSizes) = if args.surge.is_some() {
        let files = Files::matched(&jobs::server_model(args)?);
        let sample = Sequence::new(files.clone(), args.seed).take(SAMPLE).collect();
        (sample, Box::new(Sequence::new(files, args.seed)))
    } else {
        let list: Vec<u64> = jobs::trace(args)?.arrivals.iter().map(|arrival| arrival.size_bytes).collect();
        (list.clone(), workload::endless(list, args.seed))
    };
    let session_ns = SessionModel::link_time(&list, requests, link);
    let load = match Demand::of(args)? {
        Demand::Load(load) => load,
        // Requests per second as a load of the link: so many sessions, each with its time of the link.
        Demand::Rate(rate_per_s) => LoadProfile::constant(rate_per_s / requests * session_ns / 1e9)
            .map_err(|error| Failure::Usage(format!("--rate: {error}")))?,
    };
    let model = SessionModel { requests, think, load, session_ns, until };
    model.check().map_err(wrong)?;
    let who = format!("sessions of {requests} requests, {} s apart", think.as_secs_f64());
    let sizes_known = match args.surge {
        Some(_) => Files::matched(&jobs::server_model(args)?).sizes().iter().copied().collect(),
        None => list.into_iter().collect(),
    };
    let population = Population::sessions(model, sizes, args.seed);
    let session_requests = Some(requests.round() as u64);
    Ok(Users { population, who, sizes: sizes_known, until, session_requests })
}

/// Requests that tell the mean size of a sequence.
const SAMPLE: usize = 100_000;

/// `5,2s`: the mean number of requests, the mean time to think.
fn parse(text: &str) -> Result<(f64, Nanos), String> {
    let (requests, think) = text
        .split_once(',')
        .ok_or_else(|| format!("`{text}` is no session: write requests and think time, such as 5,2s"))?;
    let requests = requests
        .trim()
        .parse()
        .map_err(|_| format!("`{requests}` is no number of requests: write requests and think time, such as 5,2s"))?;
    let think = units::parse_duration(think.trim()).map_err(|error| error.to_string())?;
    Ok((requests, think.into()))
}

/// Users ask without end, so the run has to be given one.
fn until(args: &Args, flag: &str) -> Result<Nanos, Failure> {
    match args.seconds {
        Some(seconds) if (1e-9..=1e9).contains(&seconds) => Ok(Nanos((seconds * 1e9).round() as u64)),
        Some(seconds) => Err(Failure::Usage(format!("--seconds: {seconds} s makes no sense: write 60, say"))),
        None => Err(Failure::Usage(format!("{flag}: they ask without end: write --seconds too"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_as_written() {
        assert_eq!(parse("5,2s"), Ok((5.0, Nanos::from_secs(2))));
        assert_eq!(parse("2.5, 300ms"), Ok((2.5, Nanos::from_millis(300))));
        for wrong in ["", "5", "x,2s", "5,2"] {
            assert!(parse(wrong).unwrap_err().contains("such as 5,2s") || wrong == "5,2", "{wrong}");
        }
    }
}
