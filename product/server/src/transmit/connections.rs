use std::ops::{Index, IndexMut};

use sched::grow::grow_to;

use super::connection::Connection;

/// The open connections, by the numbers that their opener gave them.
pub(super) struct OpenConnections<S>(Vec<Option<Connection<S>>>);

impl<S> OpenConnections<S> {
    pub fn new() -> OpenConnections<S> {
        OpenConnections(Vec::new())
    }

    pub fn put(&mut self, at: usize, connection: Connection<S>) {
        grow_to(&mut self.0, at + 1, || None);
        let before = self.0[at].replace(connection);
        debug_assert!(before.is_none(), "a number is one open connection's");
    }

    pub fn take(&mut self, at: usize) -> Option<Connection<S>> {
        self.0.get_mut(at)?.take()
    }

    pub fn get(&self, at: usize) -> Option<&Connection<S>> {
        self.0.get(at)?.as_ref()
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut Connection<S>> {
        self.0.get_mut(at)?.as_mut()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection<S>> {
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
        self.0.iter().enumerate().filter(|(_, connection)| connection.is_some()).map(|(at, _)| at).collect()
    }
}

impl<S> Index<usize> for OpenConnections<S> {
    type Output = Connection<S>;

    fn index(&self, at: usize) -> &Connection<S> {
        self.get(at).expect("it is open")
    }
}

impl<S> IndexMut<usize> for OpenConnections<S> {
    fn index_mut(&mut self, at: usize) -> &mut Connection<S> {
        self.get_mut(at).expect("it is open")
    }
}
