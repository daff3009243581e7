//! Header compression (RFC 9204) without a dynamic table: fields are indices into the static table, or literals in
//! Huffman code.

mod decode;
mod encode;
mod huffman;
mod integer;
mod static_table;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub use decode::Undecodable;
pub use decode::decode;
pub use encode::encode;
pub use integer::{Integer, read as read_integer};
