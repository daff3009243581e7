//! The inputs kept for a target: one file, in which each stands behind its length ([`crate::Input::long_text`]), the shortest first.
//! `cargo xtask fuzz --keep` writes it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Input, Target};

/// The folder of all of them.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The file of this target.
pub fn file(name: &str) -> PathBuf {
    folder().join(name).with_extension("bin")
}

/// Every input of a target: those that are kept, none where there is no file, and its seeds.
pub fn read(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let bytes = match fs::read(file(target.name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        bytes => bytes?,
    };
    let mut inputs = unpack(&bytes);
    inputs.extend((target.seeds)());
    Ok(inputs)
}

/// Writes each into a file of its own, as libFuzzer wants them.
pub fn write(target: &Target, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (nth, input) in read(target)?.iter().enumerate() {
        fs::write(folder.join(nth.to_string()), input)?;
    }
    Ok(())
}

fn unpack(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = Input::new(bytes);
    std::iter::from_fn(|| (!rest.is_empty()).then(|| rest.long_text().to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::unpack;
    use crate::Script;

    #[test]
    fn inputs_stand_behind_their_lengths() {
        let inputs = [b"a".to_vec(), vec![7; 300], Vec::new()];
        let packed = inputs.iter().fold(Script::default(), |packed, input| packed.long_text(input));
        assert_eq!(unpack(&packed.done()), inputs);
        assert!(unpack(&[]).is_empty());
    }
}
