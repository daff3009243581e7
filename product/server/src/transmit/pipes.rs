use std::ops::{Index, IndexMut};

use sched::grow::grow_to;

use super::pipe::Pipe;

/// The open connections, by the numbers that their opener gave them.
pub(super) struct Pipes<S>(Vec<Option<Pipe<S>>>);

impl<S> Pipes<S> {
    pub fn new() -> Pipes<S> {
        Pipes(Vec::new())
    }

    pub fn put(&mut self, at: usize, pipe: Pipe<S>) {
        grow_to(&mut self.0, at + 1, || None);
        let before = self.0[at].replace(pipe);
        debug_assert!(before.is_none(), "a number is one open connection's");
    }

    pub fn take(&mut self, at: usize) -> Option<Pipe<S>> {
        self.0.get_mut(at)?.take()
    }

    pub fn get(&self, at: usize) -> Option<&Pipe<S>> {
        self.0.get(at)?.as_ref()
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut Pipe<S>> {
        self.0.get_mut(at)?.as_mut()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Pipe<S>> {
        self.0.iter_mut().flatten()
    }

    /// Gives back what is behind the last one.
    pub fn shrink(&mut self) {
        let len = self.0.iter().rposition(Option::is_some).map_or(0, |at| at + 1);
        self.0.truncate(len);
        self.0.shrink_to_fit();
    }

    #[cfg(test)]
    pub fn numbers(&self) -> Vec<usize> {
        self.0.iter().enumerate().filter(|(_, pipe)| pipe.is_some()).map(|(at, _)| at).collect()
    }
}

impl<S> Index<usize> for Pipes<S> {
    type Output = Pipe<S>;

    fn index(&self, at: usize) -> &Pipe<S> {
        self.get(at).expect("it is open")
    }
}

impl<S> IndexMut<usize> for Pipes<S> {
    fn index_mut(&mut self, at: usize) -> &mut Pipe<S> {
        self.get_mut(at).expect("it is open")
    }
}
