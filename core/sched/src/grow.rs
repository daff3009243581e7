//! Growing tables by index that mostly stay tiny, ten thousand of them: the first elements are allocated one by one, not four at once.

const EXACT_MAX: usize = 4;

/// Makes room for one more.
pub fn reserve_one<T>(table: &mut Vec<T>) {
    if table.len() == table.capacity() && table.len() < EXACT_MAX {
        table.reserve_exact(1);
    }
}

/// Makes the table at least so long.
pub fn grow_to<T>(table: &mut Vec<T>, len: usize, vacant: impl FnMut() -> T) {
    if table.len() < len {
        if len <= EXACT_MAX {
            table.reserve_exact(len - table.len());
        }
        table.resize_with(len, vacant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_elements_cost_no_others() {
        let mut table: Vec<u64> = Vec::new();
        grow_to(&mut table, 1, || 0);
        assert_eq!((table.len(), table.capacity()), (1, 1));
        reserve_one(&mut table);
        assert_eq!(table.capacity(), 2);
        grow_to(&mut table, 1, || 0);
        grow_to(&mut table, 100, || 0);
        assert_eq!(table.len(), 100);
        let full = table.capacity();
        table.resize(full, 0);
        reserve_one(&mut table);
        assert_eq!(table.capacity(), full, "left to the vector's own growth");
    }
}
