/// A step of the search for the file of a request: each is a lookup of another path, or of the same one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchStep {
    /// The path as it is; what is there need not be the answer.
    #[default]
    Exact,
    /// The path with `.html`.
    Page,
    /// The path as it is, after there was no page.
    Settled,
    /// The part of the path that names a script.
    Script,
    /// The file for navigations that lead nowhere.
    Fallback,
}
