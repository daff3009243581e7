//! Closed loads: SURGE's users, WebStone's clients, and visitors of pages.

use std::collections::BTreeSet;

use testbed::{Load, check_customers};
use units::{Nanos, Rate};
use workload::surge::{Files, Sequence, UserModel};
use workload::{PAGE_OBJECTS_MEDIAN, PageLoads, Population, Source, USERS_MAX, WebStone, WebStoneClients};

use super::jobs;
use cli::Failure;

/// Users, and their properties that are known before the run.
pub(crate) struct Users {
    pub(crate) source: Box<dyn Source>,
    /// A description of the users for the manifest.
    pub(crate) who: String,
    /// All sizes that they may request.
    pub(crate) sizes: BTreeSet<u64>,
    /// The instant from which no user sends requests.
    pub(crate) until: Nanos,
    /// The mean number of requests of a visit, rounded.
    pub(crate) visit_requests: Option<u64>,
}

/// The users of a load; `None` if the load is open.
pub(crate) fn of(load: &Load, rate_per_s: Option<f64>, link: Rate, at_once: u32) -> Result<Option<Users>, Failure> {
    if load.pages {
        return pages(load, rate_per_s, link, at_once).map(Some);
    }
    match (load.users, load.webstone) {
        (Some(users), _) => equivalents(load, users).map(Some),
        (None, Some(of)) => webstone(load, of).map(Some),
        (None, None) => Ok(None),
    }
}

fn equivalents(load: &Load, users: u32) -> Result<Users, Failure> {
    if !(1..=USERS_MAX).contains(&users) {
        return Err(Failure::Usage(format!("--users: {users} users: write 1 to {USERS_MAX}")));
    }
    let until = until(load, "--users")?;
    let files = Files::matched(jobs::server_model(load));
    let sizes = files.sizes().iter().copied().collect();
    let sequence = Box::new(Sequence::new(files, load.seed));
    let source = Box::new(Population::users(users, UserModel::PUBLISHED, until, sequence, load.seed));
    Ok(Users { source, who: format!("{users} users"), sizes, until, visit_requests: None })
}

fn webstone(load: &Load, of: WebStone) -> Result<Users, Failure> {
    check_customers(&load.class).map_err(|reason| Failure::Usage(format!("--class: {reason}")))?;
    let until = until(load, "--webstone")?;
    let clients: Vec<u32> = load.class.iter().map(|customer| customer.clients).collect();
    let classes: Vec<String> = load.class.iter().map(|customer| customer.to_string()).collect();
    let who = format!("WebStone {}: {}", of.name(), classes.join(", "));
    let source = Box::new(WebStoneClients::new(of, &clients, until, load.seed));
    let sizes = of.files().sizes().iter().copied().collect();
    Ok(Users { source, who, sizes, until, visit_requests: None })
}

fn pages(load: &Load, rate_per_s: Option<f64>, link: Rate, at_once: u32) -> Result<Users, Failure> {
    let (Some(rho), None) = (load.rho, rate_per_s) else {
        return Err(Failure::Usage("--pages: how many is missing: write the load of the link, --rho 0.8".into()));
    };
    let until = until(load, "--pages")?;
    let mut pages = PageLoads::new(rho, (link, until.as_secs_f64()), at_once, load.seed)
        .map_err(|reason| Failure::Usage(format!("--pages: {reason}")))?;
    if load.patient {
        pages.wait();
    }
    // The same for every seed, so that runs with several seeds have one load.
    let visit_requests = Some(PAGE_OBJECTS_MEDIAN);
    let who = if load.patient { "page loads of the patient" } else { "page loads" }.into();
    let (sizes, source) = (pages.sizes(), Box::new(pages));
    Ok(Users { who, sizes, until, visit_requests, source })
}

/// The end of the run. Users send requests without end, so it must be given.
fn until(load: &Load, flag: &str) -> Result<Nanos, Failure> {
    match load.seconds {
        Some(seconds) if (1e-9..=1e9).contains(&seconds) => Ok(Nanos((seconds * 1e9).round() as u64)),
        Some(seconds) => Err(Failure::Usage(format!("--seconds: {seconds} s makes no sense: write 60, say"))),
        None => Err(Failure::Usage(format!("{flag}: they ask without end: write --seconds too"))),
    }
}
