//! Files for responses that upstreams have produced and clients have not yet accepted. Without them, a slow client
//! would occupy a worker of the application until it has read the response.
//!
//! A spool file has no name, so that nothing remains of it however the process ends. It holds one response, in the
//! order in which its bytes arrived. No byte of the file is written twice, because the kernel may still be sending what
//! `sendfile` was given. The threads of the pool write, because writing to a disk may block.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use units::memory::Counted;

use crate::disk::{Pool, Reserved, Room, spool_folder};
use crate::files::{Content, Entry};

/// Bytes of a response, to be appended to the earlier ones.
#[derive(Debug)]
pub struct Write {
    pub to: Target,
    pub offset: u64,
    pub bytes: Arc<Counted>,
}

#[derive(Debug)]
pub enum Target {
    /// A new file, whose space is already reserved.
    New(Reserved),
    /// The file with the earlier bytes of this response.
    Open(Arc<Entry>),
}

/// A completed write.
#[derive(Debug)]
pub struct Written {
    pub offset: u64,
    pub bytes: Arc<Counted>,
    /// The file, which has all bytes of the write.
    pub result: io::Result<Arc<Entry>>,
}

impl Target {
    /// Reserves space for `bytes` more of a client's response, in its file or, if it has none, in a new file. Returns
    /// `None` if there is no space.
    pub fn with_room(file: Option<&Arc<Entry>>, room: &Arc<Room>, client: u32, bytes: u64) -> Option<Target> {
        let Some(file) = file else { return Reserved::of(room, client, bytes).map(Target::New) };
        let Content::Open(open) = &file.content else { unreachable!("what is spooled is not held in memory") };
        let grown = open.taken().is_some_and(|taken| taken.grow(bytes));
        grown.then(|| Target::Open(Arc::clone(file)))
    }
}

impl Write {
    /// Writes the bytes. Waits for the disk.
    pub fn run(self, folder: &Path, pool: Option<&Arc<Pool>>) -> Written {
        let Write { to, offset, bytes } = self;
        let file = match to {
            Target::Open(file) => Ok(file),
            Target::New(taken) => spool_folder::make(folder).map(|file| Arc::new(Entry::spooled(file, taken, pool))),
        };
        let result = file.and_then(|file| {
            let Content::Open(open) = &file.content else { unreachable!("what is spooled is not held in memory") };
            open.write_all_at(&bytes, offset).map(|()| file)
        });
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        Written { offset, bytes, result: result.map_err(named) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use units::memory::Account;

    use super::*;
    use crate::files::temporary::Folder;

    #[test]
    fn a_file_has_no_name_and_gives_its_room_back() {
        let (folder, room) = (Folder::new(), Room::new(20));
        let write = |to, offset, bytes: &[u8]| {
            let write = Write { to, offset, bytes: Arc::new(Counted::of(&Account::default(), bytes.to_vec())) };
            write.run(&folder.path(""), None).result
        };
        let file = write(Target::with_room(None, &room, 1, 5).unwrap(), 0, b"hello").unwrap();
        write(Target::with_room(Some(&file), &room, 1, 4).unwrap(), 5, b" you").unwrap();
        assert!(
            Target::with_room(Some(&file), &room, 1, 2).is_none() && Target::with_room(None, &room, 1, 2).is_none()
        );
        let Content::Open(open) = &file.content else { panic!("it is open") };
        let mut came = [0; 20];
        assert_eq!(open.read_at(&mut came, 0).unwrap(), 9);
        assert_eq!(&came[..9], b"hello you");
        assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 0);
        drop(file);
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let to = Target::with_room(None, &Room::new(10), 1, 5).unwrap();
        let write = Write { to, offset: 0, bytes: Arc::new(Counted::of(&Account::default(), vec![7; 5])) };
        let error = write.run(Path::new("/none-at-all"), None).result.unwrap_err();
        assert!(error.to_string().starts_with("/none-at-all: No such file"), "{error}");
    }
}
