//! Growing tables without much that is not used: of those that stay tiny there are ten thousand, so the first elements are allocated one
//! by one, and of those by slot each client can make a large one, so they grow by an eighth and not to twice as much.

const EXACT_MAX: usize = 4;
/// Beyond that a table grows by this part of its length, and a few.
const PART: usize = 8;
const FEW: usize = 2;

/// Makes room for one more.
pub fn reserve_one<T>(table: &mut Vec<T>) {
    reserve(table, table.len() + 1);
}

/// Makes the table at least so long.
pub fn grow_to<T>(table: &mut Vec<T>, len: usize, vacant: impl FnMut() -> T) {
    if table.len() < len {
        reserve(table, len);
        table.resize_with(len, vacant);
    }
}

fn reserve<T>(table: &mut Vec<T>, len: usize) {
    if len > table.capacity() {
        let spare = if len <= EXACT_MAX { 0 } else { len / PART + FEW };
        table.reserve_exact(len + spare - table.len());
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
        assert_eq!(table.capacity(), 114);
        table.resize(114, 0);
        reserve_one(&mut table);
        assert_eq!((table.len(), table.capacity()), (114, 115 + 14 + 2), "an eighth more");
    }
}
