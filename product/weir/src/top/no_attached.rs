//! The part of `weir top` about attaches, in a build without BPF; it shows none.

use super::layout::Block;

#[derive(Default)]
pub struct Attaches {}

impl Attaches {
    pub fn read(&mut self) {}

    pub fn is_empty(&self) -> bool {
        true
    }

    pub fn blocks(&self) -> Vec<Block> {
        Vec::new()
    }
}
