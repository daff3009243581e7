//! Queries a machine from outside through User-Mode Linux's management console, a datagram socket. It answers even
//! while a program inside spins, when nothing inside could.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

/// The magic number at the start of a request (arch/um/drivers/mconsole.h).
const MAGIC: u32 = 0xcafe_babe;
const VERSION: u32 = 2;
/// The size of a request's text in bytes.
const REQUEST_BYTES: usize = 512;
/// The maximum size of a piece of a reply.
const REPLY_BYTES: usize = 16_384;
const PIECES_MAX: usize = 1_000;
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Sends a command to the machine with this socket and returns the reply; `reply_to` is a path for our own socket.
pub fn ask(socket: &Path, reply_to: &Path, command: &str) -> std::io::Result<String> {
    let own = UnixDatagram::bind(reply_to)?;
    let answer = exchange(&own, socket, command);
    std::fs::remove_file(reply_to)?;
    answer
}

fn exchange(own: &UnixDatagram, socket: &Path, command: &str) -> std::io::Result<String> {
    own.set_read_timeout(Some(ANSWERS_WITHIN))?;
    own.send_to(&request(command), socket)?;
    let mut text = String::new();
    let mut piece = [0; REPLY_BYTES];
    for _ in 0..PIECES_MAX {
        let received = own.recv(&mut piece)?;
        // Error, more, length, then the text.
        let word = |at: usize| piece[..received].get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let (Some(more), Some(length)) = (word(4), word(8)) else { break };
        let end = received.min(12 + usize::try_from(length).unwrap_or(usize::MAX - 12));
        text += &String::from_utf8_lossy(&piece[12.min(end)..end]);
        if more == 0 {
            break;
        }
    }
    Ok(text)
}

fn request(command: &str) -> Vec<u8> {
    let text = &command.as_bytes()[..command.len().min(REQUEST_BYTES - 1)];
    let mut bytes: Vec<u8> = [MAGIC, VERSION, text.len() as u32].into_iter().flat_map(u32::to_ne_bytes).collect();
    bytes.extend_from_slice(text);
    bytes.resize(12 + REQUEST_BYTES, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_in_pieces_is_one_text() {
        let folder = std::env::temp_dir().join(format!("weir-console-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (there, here) = (folder.join("there"), folder.join("here"));
        let machine = UnixDatagram::bind(&there).unwrap();
        let answers = std::thread::spawn(move || {
            let mut asked = [0; 1024];
            let (length, from) = machine.recv_from(&mut asked).unwrap();
            for (more, text) in [(1u32, "one "), (0, "two")] {
                let mut piece: Vec<u8> = [0, more, text.len() as u32].into_iter().flat_map(u32::to_ne_bytes).collect();
                piece.extend(text.as_bytes());
                machine.send_to_addr(&piece, &from).unwrap();
            }
            asked[..length].to_vec()
        });
        assert_eq!(ask(&there, &here, "sysrq p").unwrap(), "one two");
        let asked = answers.join().unwrap();
        assert_eq!((asked.len(), &asked[..4]), (524, &MAGIC.to_ne_bytes()[..]));
        assert_eq!(&asked[12..20], b"sysrq p\0");
        assert!(!here.exists());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
