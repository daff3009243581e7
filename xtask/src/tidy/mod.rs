//! Rules that a reviewer would otherwise have to remember, each a function from text to a list of problems.
//!
//! A check reads nothing itself: `main` reads the tree once and hands it over, so that every check has tests that feed
//! it the mistake it is there to find. A problem says where, what, and what would be right.

mod arrows;
mod chains;
mod commits;
mod files;
mod folders;
mod links;
mod manifests;
mod modules;
mod openers;
mod results;
mod rust;
mod sizes;
mod source;
mod types;

use std::path::Path;

use files::TextFile;
use source::Source;

pub fn main(root: &Path) -> Result<(), String> {
    let tree = files::read(root)?;
    let ratchet = tree.text("xtask/tidy.toml")?;
    let sources = parse(&tree.texts)?;
    let crates = arrows::of_workspace(root)?;
    let mut problems = arrows::check(tree.text("ARCHITECTURE.md")?, &crates);
    let rust = tree.texts.iter().filter(|file| file.path.ends_with(".rs"));
    problems.extend(arrows::check_named(&crates, rust.map(|file| (file.path.as_str(), file.text.as_str()))));
    problems.extend(sizes::check(ratchet, &sizes::measure(&sources)));
    problems.extend(types::check(ratchet, &types::measure(&sources)));
    problems.extend(modules::check(ratchet, &modules::measure(&sources)));
    problems.extend(folders::check(ratchet, &folders::measure(&sources)));
    problems.extend(chains::check(ratchet, &chains::measure(&sources)));
    problems.extend(openers::check(&openers::measure(&sources)));
    problems.extend(sources.iter().flat_map(rust::check));
    problems.extend(manifests::check(&tree.texts));
    problems.extend(files::check(&tree));
    problems.extend(links::check(&tree));
    problems.extend(results::check(ratchet, &results::measure(tree.paths())));
    problems.extend(match commits::since(ratchet) {
        Ok(since) => commits::check(&since, &commits::read(root, &since)),
        Err(problem) => vec![problem],
    });
    if problems.is_empty() {
        println!("tidy: {} files, of them {} Rust: no problem", tree.file_count(), sources.len());
        return Ok(());
    }
    problems.sort();
    for problem in &problems {
        eprintln!("{problem}");
    }
    Err(format!("tidy found {} problem(s), listed above", problems.len()))
}

fn parse(texts: &[TextFile]) -> Result<Vec<Source>, String> {
    texts.iter().filter(|file| file.path.ends_with(".rs")).map(|file| Source::parse(&file.path, &file.text)).collect()
}
