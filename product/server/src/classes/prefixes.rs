use std::sync::Arc;

use sched::policy::PolicySpec;
use thiserror::Error;

/// The class of a request, by its path: the first prefix is class 0, and unmatched paths are the class after the last prefix. Shared by all workers.
#[derive(Debug, Clone)]
pub struct Classes {
    /// Without the slash they begin with, which a decoded path does not have either.
    prefixes: Arc<[String]>,
}

/// Why these classes cannot be had under this policy.
#[derive(Debug, Error)]
pub enum ClassesError {
    #[error("class `{0}` is not a path prefix; expected for example /members/")]
    NotAPath(String),
    #[error("class `{0}` is given twice; expected each prefix once")]
    Twice(String),
    #[error("policy `{0}` has no classes; expected one with classes, for example strict/{0}")]
    None(PolicySpec),
    #[error("policy `{policy}` has {classes} classes; {prefixes} prefixes were given, expected at most {}", .classes - 1)]
    TooMany { policy: PolicySpec, classes: usize, prefixes: usize },
}

impl Classes {
    /// The classes with these prefixes of decoded paths, for this policy.
    pub fn new(prefixes: &[String], policy: &PolicySpec) -> Result<Classes, ClassesError> {
        let classes = policy.classes();
        if !prefixes.is_empty() && prefixes.len() >= classes {
            let (policy, prefixes) = (policy.clone(), prefixes.len());
            return Err(match classes {
                0 | 1 => ClassesError::None(policy),
                _ => ClassesError::TooMany { policy, classes, prefixes },
            });
        }
        let mut relative: Vec<String> = Vec::new();
        for prefix in prefixes {
            let rest = prefix.strip_prefix('/').ok_or_else(|| ClassesError::NotAPath(prefix.clone()))?;
            if relative.iter().any(|known| known == rest) {
                return Err(ClassesError::Twice(prefix.clone()));
            }
            relative.push(rest.to_string());
        }
        Ok(Classes { prefixes: relative.into() })
    }

    /// What the classes are called, in order; empty where there is one.
    pub fn names(&self) -> Vec<String> {
        let prefixes = self.prefixes.iter().map(|prefix| format!("/{prefix}"));
        let others = (!self.prefixes.is_empty()).then(|| "others".to_string());
        prefixes.chain(others).collect()
    }

    /// The class of what matches no prefix.
    pub fn last(&self) -> u16 {
        // At most [`sched::policy::CLASSES_MAX`].
        self.prefixes.len() as u16
    }

    /// The class of a request for this path, still percent-encoded; the longest prefix decides.
    pub fn of(&self, raw_path: &[u8]) -> u16 {
        if self.prefixes.is_empty() {
            return 0;
        }
        let mut path = String::new();
        if http::decode_path(raw_path, &mut path).is_err() {
            return self.last();
        }
        let matching = self.prefixes.iter().enumerate().filter(|(_, prefix)| path.starts_with(&***prefix));
        matching.max_by_key(|(_, prefix)| prefix.len()).map_or(self.last(), |(class, _)| class as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(prefixes: &[&str], policy: &str) -> Result<Classes, ClassesError> {
        Classes::new(&prefixes.iter().map(ToString::to_string).collect::<Vec<_>>(), &policy.parse().unwrap())
    }

    #[test]
    fn the_longest_prefix_decides() {
        let classes = classes(&["/gold/", "/gold/free/", "/silver"], "strict/srpt").unwrap();
        for (path, class) in [
            ("/gold/a", 0),
            ("/gold/free/a", 1),
            ("/silver", 2),
            ("/silverware/x", 2),
            ("/gold", 3),
            ("/", 3),
            ("/other/gold/a", 3),
            ("/%67old/a", 0),
            ("/%zz", 3),
        ] {
            assert_eq!(classes.of(path.as_bytes()), class, "{path}");
        }
        assert_eq!(classes.names(), ["/gold/", "/gold/free/", "/silver", "others"]);
    }

    #[test]
    fn without_prefixes_all_are_alike() {
        let classes = classes(&[], "srpt").unwrap();
        assert_eq!((classes.of(b"/a"), classes.names()), (0, vec![]));
    }

    #[test]
    fn wrong_classes_say_what_is_right() {
        for (prefixes, policy, said) in [
            (&["/a"][..], "srpt", "policy `srpt` has no classes; expected one with classes, for example strict/srpt"),
            (&["/a", "/b"], "weighted=3,1/srpt", "has 2 classes; 2 prefixes were given, expected at most 1"),
            (&["a"], "strict/srpt", "`a` is not a path prefix"),
            (&["/a", "/a"], "strict/srpt", "class `/a` is given twice"),
        ] {
            let error = classes(prefixes, policy).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
