/// A virtual time: the progress of the turns. New jobs start at it.
///
/// It never moves backwards. If it were the tag of the job served last, a rarely served job would set it back, and the
/// next new job would have the link to itself until it caught up with the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct VirtualTime<T>(T);

impl<T: Ord + Copy> VirtualTime<T> {
    pub fn starting_at(start: T) -> VirtualTime<T> {
        VirtualTime(start)
    }

    pub fn now(self) -> T {
        self.0
    }

    /// Advances to `to`; does nothing if the time is already that far.
    pub fn advance_to(&mut self, to: T) {
        self.0 = self.0.max(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_only_advances() {
        let mut time = VirtualTime::starting_at(5);
        let seen = [3, 9, 7, 9].map(|to| {
            time.advance_to(to);
            time.now()
        });
        assert_eq!(seen, [5, 9, 9, 9]);
    }
}
