//! Grows tables with little spare capacity. Ten thousand tables stay tiny, so their first elements are allocated one by
//! one. Each client can make a table indexed by slot large, so a large table grows by an eighth instead of doubling.

const EXACT_MAX: usize = 4;
/// Above `EXACT_MAX` elements, a table grows by its length divided by this, plus `FEW`.
const PART: usize = 8;
const FEW: usize = 2;

/// Makes room for one more element.
pub fn reserve_one<T>(table: &mut Vec<T>) {
    reserve(table, table.len() + 1);
}

/// Makes the table at least `len` long.
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
