/// A step of the search for the file of a request. Each step looks up another path, or the same path again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchStep {
    /// The path as requested. If nothing or a folder is there, other steps may follow.
    #[default]
    Exact,
    /// The path with `.html`.
    Page,
    /// The path as requested, after no page was found.
    Settled,
    /// The part of the path that names a script.
    Script,
    /// The fallback file for navigations to paths that do not exist.
    Fallback,
}
