//! The inputs kept for a target, in one file, in which each is preceded by its length ([`crate::Input::long_text`]),
//! the shortest first. `cargo xtask fuzz --keep` writes it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Input, Target};

/// The folder of all corpora.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The file of this target.
pub fn file(name: &str) -> PathBuf {
    folder().join(name).with_extension("bin")
}

/// Reads every input of a target: the kept ones, none if there is no file, and its seeds.
pub fn read(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let bytes = match fs::read(file(target.name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        bytes => bytes?,
    };
    let mut inputs = unpack(&bytes);
    inputs.extend((target.seeds)());
    Ok(inputs)
}

/// Writes each input into a separate file, as libFuzzer requires.
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
