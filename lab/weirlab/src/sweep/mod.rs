//! `weirlab sweep`: a grid of simulations from a file to tables. The grid is the crate `sweep`; here stand
//! what a run is ([`simulator`]), the progress bar, and the manifest.

mod closed_form;
mod simulator;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ::sweep::{Plan, Progress, Results, Store, Workers};
use cli::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use record::SweepManifest;
use serde_json::json;
use testbed::Interrupt;

use crate::load::machine;
use simulator::Simulator;

#[derive(clap::Args)]
pub struct Args {
    /// The experiment, for example experiments/ranks/mg1-policies.toml
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Folder for the results; the same again goes on where it stopped [default: runs/NAME-<unix time>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Read this trace wherever the experiment names one
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Seeds of each cell, instead of as many as the experiment says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    replications: Option<u16>,
    /// How many runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs_parallel: Option<u16>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let mut plan = Plan::read(&args.file)?;
    if let Some(replications) = args.replications {
        plan.replicate(replications.into()).map_err(|reason| Failure::Usage(format!("--{reason}")))?;
    }
    let simulator = Simulator::new(&plan.model, args.file.parent().unwrap_or(Path::new("")), &args.file)?;
    let model: Arc<dyn ::sweep::Model> = Arc::new(simulator.with_trace(args.trace));
    let out = args.out.unwrap_or_else(|| crate::run::default_out(&plan.name));
    plan.check(model.as_ref(), &args.file, &out)?;
    let interrupt = Interrupt::listen()?;
    let store = Arc::new(Store::open(&out)?);
    let workers = args.jobs_parallel.map_or(Workers::PerCore, |number| Workers::Number(number.into()));
    let (bar, started) = (bar(args.json), Instant::now());
    let stop = || interrupt.check().is_err();
    let done = ::sweep::conduct(&plan, &model, &store, workers, &stop, &mut |state| show(&bar, state));
    bar.finish_and_clear();
    let done = done?;
    let elapsed_s = started.elapsed().as_secs_f64();
    let results = Results::read(&plan, model.as_ref(), &store)?;
    ::sweep::write_tables(&plan, &results, &out)?;
    manifest(&plan).write(&out)?;
    let text = if args.json {
        let written = json!({
            "name": plan.name, "out": out, "runs": done.all, "runs_found": done.found,
            "elapsed_s": elapsed_s, "cells": ::sweep::cells_json(&plan, &results),
        });
        written.to_string() + "\n"
    } else {
        eprintln!("{} runs, {} of them done before; results in {}", done.all, done.found, out.display());
        ::sweep::markdown(&plan, &results)
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn manifest(plan: &Plan) -> SweepManifest {
    SweepManifest {
        name: plan.name.clone(),
        question: plan.question.clone(),
        model: plan.model.clone(),
        runs: plan.runs() as u64,
        seeds: plan.seeds.clone(),
        commit: machine::commit(),
        kernel: machine::kernel(),
        command: std::env::args().collect(),
    }
}

/// On standard error, and only if that is a terminal.
fn bar(json: bool) -> ProgressBar {
    let template = "{elapsed} {wide_bar} {pos} of {len} runs, {eta} to go";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    if json { ProgressBar::hidden() } else { ProgressBar::new(0).with_style(style) }
}

fn show(bar: &ProgressBar, state: Progress) {
    if bar.length() != Some(state.all as u64) {
        bar.set_length(state.all as u64);
        // What was there already took no time: the estimate is of the rest.
        bar.set_position(state.found as u64);
        bar.reset_eta();
    }
    bar.set_position(state.done as u64);
}
