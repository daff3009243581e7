/// A step of the search for a request's file. Each step looks up a different path, or the same path again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchStep {
    /// The path as requested. If it leads to nothing or to a folder, other steps may follow.
    #[default]
    Exact,
    /// The path with `.html`.
    Page,
    /// The path as requested, after no page was found for it.
    Settled,
    /// The part of the path that names a script.
    Script,
    /// The fallback file for navigations to paths that do not exist.
    Fallback,
}
