//! Drives whose requests take at least a given time. The content is served to QEMU by the NBD protocol
//! (github.com/NetworkBlockDevice/nbd, doc/proto.md), and each reply is delayed; a waiting request needs no processor.

use rustix::fs::{FallocateFlags, fallocate};
use senesce_core::Bytes;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct SlowDrive {
    /// Inherited by QEMU. It has no name to which other programs could connect.
    socket: UnixStream,
}

impl SlowDrive {
    /// Serves `size` bytes of a file; every reply comes at least `latency` after its request.
    pub(crate) fn serve(content: File, size: Bytes, latency: Duration) -> io::Result<Self> {
        let (socket, server) = UnixStream::pair()?;
        let answers = server.try_clone()?;
        let (sender, receiver) = channel();
        let served = Served { content, size: size.0, latency };
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        thread("slow drive's requests").spawn(move || {
            // An unknown request or the end of the connection: QEMU reports a lost drive to the guest.
            let _ = served.serve(server, &sender);
        })?;
        thread("slow drive's answers").spawn(move || answer(answers, &receiver))?;
        Ok(Self { socket })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// A reply and its due time. All delays are equal, so replies are due in the order of requests.
type DelayedReply = (Instant, Vec<u8>);

fn answer(mut socket: UnixStream, answers: &Receiver<DelayedReply>) {
    for (due, bytes) in answers {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if socket.write_all(&bytes).is_err() {
            return;
        }
    }
}

#[derive(Debug)]
struct Served {
    content: File,
    size: u64,
    latency: Duration,
}

const GREETING: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_E889_0455_65A9;
/// Fixed newstyle negotiation, and no zeroes after the old reply to an export's name.
const HANDSHAKE_FLAGS: u16 = 1 | 2;
const ABORT: u32 = 2;
const INFO: u32 = 6;
const GO: u32 = 7;
const ACKNOWLEDGED: u32 = 1;
const INFORMATION: u32 = 3;
const UNSUPPORTED: u32 = 1 << 31 | 1;
/// Kind of [`INFORMATION`]: size and flags of the export.
const EXPORT: u16 = 0;
/// It has flags, flushes, trims and writes zeroes.
const TRANSMISSION_FLAGS: u16 = 1 | 4 | 32 | 64;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
/// QEMU requests at most 32 MiB at a time (NBD_MAX_BUFFER_SIZE in its include/block/nbd.h).
const LARGEST_TRANSFER: u32 = 32 << 20;
const LARGEST_OPTION: u32 = 64 << 10;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

#[derive(Debug, Clone, Copy)]
struct Request {
    kind: u16,
    handle: [u8; 8],
    offset: u64,
    length: u32,
}

impl Served {
    fn serve(&self, mut socket: UnixStream, answers: &Sender<DelayedReply>) -> io::Result<()> {
        self.negotiate(&mut socket)?;
        loop {
            let request = read_request(&mut socket)?;
            let due = Instant::now() + self.latency;
            let answer = match request.kind {
                DISCONNECT => return Ok(()),
                WRITE if request.length > LARGEST_TRANSFER => return Err(ErrorKind::InvalidData.into()),
                WRITE => {
                    let mut bytes = vec![0; request.length as usize];
                    socket.read_exact(&mut bytes)?;
                    reply(request, self.write(request, &bytes), &[])
                }
                READ => match self.read(request) {
                    Ok(bytes) => reply(request, Ok(()), &bytes),
                    Err(error) => reply(request, Err(error), &[]),
                },
                TRIM | WRITE_ZEROES => reply(request, self.zero(request), &[]),
                // The content is lost with the host in any case.
                FLUSH => reply(request, Ok(()), &[]),
                _ => reply(request, Err(ErrorKind::InvalidInput.into()), &[]),
            };
            if answers.send((due, answer)).is_err() {
                return Ok(());
            }
        }
    }

    fn negotiate(&self, socket: &mut UnixStream) -> io::Result<()> {
        socket.write_all(&[&GREETING[..], &HANDSHAKE_FLAGS.to_be_bytes()].concat())?;
        take::<4>(socket)?;
        loop {
            if u64::from_be_bytes(take(socket)?) != OPTION {
                return Err(ErrorKind::InvalidData.into());
            }
            let (option, length) = (u32::from_be_bytes(take(socket)?), u32::from_be_bytes(take(socket)?));
            if length > LARGEST_OPTION {
                return Err(ErrorKind::InvalidData.into());
            }
            socket.read_exact(&mut vec![0; length as usize])?;
            match option {
                GO | INFO => {
                    let export =
                        [&EXPORT.to_be_bytes()[..], &self.size.to_be_bytes(), &TRANSMISSION_FLAGS.to_be_bytes()];
                    socket.write_all(&option_reply(option, INFORMATION, &export.concat()))?;
                    socket.write_all(&option_reply(option, ACKNOWLEDGED, &[]))?;
                    if option == GO {
                        return Ok(());
                    }
                }
                ABORT => {
                    socket.write_all(&option_reply(option, ACKNOWLEDGED, &[]))?;
                    return Err(ErrorKind::ConnectionAborted.into());
                }
                _ => socket.write_all(&option_reply(option, UNSUPPORTED, &[]))?,
            }
        }
    }

    fn check(&self, request: Request) -> io::Result<()> {
        let end = request.offset.checked_add(request.length.into());
        match end.is_some_and(|end| end <= self.size) {
            true => Ok(()),
            false => Err(ErrorKind::InvalidInput.into()),
        }
    }

    fn read(&self, request: Request) -> io::Result<Vec<u8>> {
        self.check(request)?;
        if request.length > LARGEST_TRANSFER {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut bytes = vec![0; request.length as usize];
        self.content.read_exact_at(&mut bytes, request.offset)?;
        Ok(bytes)
    }

    fn write(&self, request: Request, bytes: &[u8]) -> io::Result<()> {
        self.check(request)?;
        self.content.write_all_at(bytes, request.offset)
    }

    fn zero(&self, request: Request) -> io::Result<()> {
        self.check(request)?;
        if request.length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.content, flags, request.offset, request.length.into())?)
    }
}

fn take<const LENGTH: usize>(socket: &mut UnixStream) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn option_reply(option: u32, kind: u32, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32;
    [&OPTION_REPLY.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes(), &length.to_be_bytes(), content]
        .concat()
}

fn read_request(socket: &mut UnixStream) -> io::Result<Request> {
    if u32::from_be_bytes(take(socket)?) != REQUEST {
        return Err(ErrorKind::InvalidData.into());
    }
    // Flags for forced writes and holes make no difference here.
    take::<2>(socket)?;
    Ok(Request {
        kind: u16::from_be_bytes(take(socket)?),
        handle: take(socket)?,
        offset: u64::from_be_bytes(take(socket)?),
        length: u32::from_be_bytes(take(socket)?),
    })
}

fn reply(request: Request, outcome: io::Result<()>, content: &[u8]) -> Vec<u8> {
    let error = match outcome.map_err(|error| error.kind()) {
        Ok(()) => 0,
        Err(ErrorKind::InvalidInput) => EINVAL,
        Err(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => ENOSPC,
        Err(_) => EIO,
    };
    [&REPLY.to_be_bytes()[..], &error.to_be_bytes(), &request.handle, content].concat()
}

#[cfg(test)]
mod tests;
