//! Where lines go: standard error or the journal's socket. Writing never waits for the reader.
//!
//! A pipe or terminal is opened anew without blocking, because the mode of the inherited descriptor belongs to all programs that
//! share it; a socket is sent to with `MSG_DONTWAIT`. A descriptor that cannot be opened anew is asked first, and gets no more
//! than it takes at once. Only a file may make the writer wait, for its disk.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, sendmsg_addr,
};
use rustix::time::Timespec;

/// Socket of the journal's native protocol.
pub(super) const JOURNAL: &str = "/run/systemd/journal/socket";

/// A reader of lines.
#[derive(Debug)]
pub(super) enum Output {
    /// Nobody.
    Nothing,
    /// A byte stream.
    Stream(Stream),
    /// The journal.
    Journal(Journal),
}

impl Output {
    /// Writes a line, or the datagram of one, without waiting.
    ///
    /// # Errors
    /// The line is lost: the reader does not keep up, the disk is full, or nobody reads any more.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Output::Nothing => Ok(()),
            Output::Stream(stream) => stream.write(line),
            Output::Journal(journal) => journal.send(line),
        }
    }

    /// Writes what remains of the last line. Returns whether nothing remains.
    pub(super) fn finish(&mut self) -> bool {
        match self {
            Output::Nothing | Output::Journal(_) => true,
            Output::Stream(stream) => stream.finish().is_ok(),
        }
    }
}

/// A byte stream that takes lines as far as it has room.
#[derive(Debug)]
pub(super) struct Stream {
    descriptor: OwnedFd,
    mode: StreamMode,
    /// Rest of a line that the stream took in part.
    rest: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamMode {
    /// The descriptor does not block, or is a file.
    Plain,
    /// A socket.
    Socket,
    /// A pipe or terminal that other programs share, and that blocks.
    Shared,
}

/// How octets are sent to sockets.
const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Most octets that a pipe takes at once if it is writable (PIPE_BUF of Linux).
const PIPE_BUF: usize = 4_096;

impl Stream {
    /// Creates a stream to the file, pipe, terminal or socket behind a descriptor.
    ///
    /// # Errors
    /// The descriptor is closed.
    pub(super) fn to(descriptor: BorrowedFd<'_>) -> io::Result<Stream> {
        let inherited = descriptor.try_clone_to_owned()?;
        let (descriptor, mode) =
            match FileType::from_raw_mode(rustix::fs::fstat(&inherited)?.st_mode) {
                FileType::Socket => (inherited, StreamMode::Socket),
                FileType::RegularFile => (inherited, StreamMode::Plain),
                // Fails for a terminal or pipe of another user.
                _ => match reopen(inherited.as_fd()) {
                    Ok(own) => (own, StreamMode::Plain),
                    Err(_) => (inherited, StreamMode::Shared),
                },
            };
        Ok(Stream { descriptor, mode, rest: Vec::new() })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.finish()?;
        let taken = self.write_some(line)?;
        self.rest.extend_from_slice(&line[taken..]);
        // The line has begun, so that its rest follows whenever there is room.
        let _ = self.finish();
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        while !self.rest.is_empty() {
            let taken = self.write_some(&self.rest)?;
            self.rest.drain(..taken);
        }
        self.rest.shrink_to(PIPE_BUF);
        Ok(())
    }

    /// Writes what the stream takes now, at least one octet.
    fn write_some(&self, octets: &[u8]) -> io::Result<usize> {
        let taken = match self.mode {
            StreamMode::Plain => rustix::io::write(&self.descriptor, octets)?,
            StreamMode::Socket => rustix::net::send(&self.descriptor, octets, FLAGS)?,
            StreamMode::Shared => {
                let mut asked = [PollFd::new(&self.descriptor, PollFlags::OUT)];
                poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
                if asked[0].revents().is_empty() {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                rustix::io::write(&self.descriptor, &octets[..octets.len().min(PIPE_BUF)])?
            }
        };
        if taken == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(taken) }
    }
}

/// Opens a pipe or terminal anew, for writing without blocking.
fn reopen(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The journal's socket.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
    address: SocketAddrUnix,
}

impl Journal {
    /// Connects to the journal at this path.
    ///
    /// # Errors
    /// There is no journal.
    pub(super) fn open(path: &Path) -> io::Result<Journal> {
        let (socket, address) = (UnixDatagram::unbound()?, SocketAddrUnix::new(path)?);
        let journal = Journal { socket, address };
        // The journal ignores an empty datagram, and without a journal this fails.
        match journal.send_datagram(&[]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(journal),
        }
    }

    fn send(&self, line: &[u8]) -> io::Result<()> {
        match self.send_datagram(line) {
            Err(error) if is_too_large(&error) => self.send_as_file(line),
            outcome => outcome,
        }
    }

    fn send_datagram(&self, line: &[u8]) -> io::Result<()> {
        rustix::net::sendto(&self.socket, line, FLAGS, &self.address)?;
        Ok(())
    }

    /// Sends a line that is too long for a datagram in a sealed file in memory.
    fn send_as_file(&self, line: &[u8]) -> io::Result<()> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(rustix::fs::memfd_create("earmarkd-log", flags)?);
        file.write_all(line)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        let descriptors = [file.as_fd()];
        let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut room);
        if !message.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        sendmsg_addr(&self.socket, &self.address, &[], &mut message, FLAGS)?;
        Ok(())
    }
}

fn is_too_large(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMSGSIZE | libc::ENOBUFS))
}

/// Returns whether a descriptor is the stream that the journal has given to this process, by the variable JOURNAL_STREAM.
pub(super) fn is_journal_stream(descriptor: BorrowedFd<'_>, variable: Option<&str>) -> bool {
    let Some((device, inode)) = variable.and_then(|text| text.split_once(':')) else {
        return false;
    };
    let (Ok(device), Ok(inode)) = (device.parse::<u64>(), inode.parse::<u64>()) else {
        return false;
    };
    rustix::fs::fstat(descriptor).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (device, inode))
}

#[cfg(test)]
mod tests {
    use std::io::{IoSliceMut, Read};

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

    use super::*;

    fn fill(output: &mut Output, line: &[u8]) -> usize {
        (0..100_000).take_while(|_| output.write(line).is_ok()).count()
    }

    /// A full pipe or socket takes no line and blocks nobody; what it took of a line is completed.
    #[test]
    fn full_stream_loses_whole_lines_only() {
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        for mode in [StreamMode::Plain, StreamMode::Shared, StreamMode::Socket] {
            let (reader, writer): (OwnedFd, OwnedFd) = match mode {
                StreamMode::Socket => {
                    let (a, b) = std::os::unix::net::UnixStream::pair().expect("sockets");
                    (a.into(), b.into())
                }
                _ => {
                    let (reader, writer) = std::io::pipe().expect("a pipe");
                    (reader.into(), writer.into())
                }
            };
            let mut stream = Stream::to(writer.as_fd()).expect("open");
            if mode == StreamMode::Shared {
                stream = Stream { descriptor: writer, mode, rest: Vec::new() };
            } else {
                assert_eq!(stream.mode, mode);
                drop(writer);
            }
            let mut output = Output::Stream(stream);
            let taken = fill(&mut output, &line);
            assert!((20..100_000).contains(&taken), "{mode:?}: {taken}");
            assert!(output.write(&line).is_err(), "{mode:?}: it is full");

            let mut read = vec![0; 30 * line.len()];
            let mut reader = File::from(reader);
            reader.read_exact(&mut read).expect("some lines");
            assert!(output.finish(), "{mode:?}");
            output.write(b"the last one\n").expect("room");
            drop(output);
            reader.read_to_end(&mut read).expect("the others");
            let text = String::from_utf8(read).expect("text");
            let mut lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.pop(), Some("the last one"), "{mode:?}");
            assert_eq!(lines.len(), taken, "{mode:?}");
            assert!(lines.iter().all(|line| line.len() == 999), "{mode:?}");
        }
    }

    #[test]
    fn full_disk_is_an_error() {
        let file = File::options().write(true).open("/dev/full").expect("a device");
        let mut output = Output::Stream(Stream::to(file.as_fd()).expect("open"));
        let error = output.write(b"line\n").expect_err("full");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }

    fn journal(name: &str) -> (UnixDatagram, Output, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("em-journal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let journal = Journal::open(&path).expect("open");
        let mut empty = [0; 8];
        assert_eq!(socket.recv(&mut empty).expect("the probe"), 0);
        (socket, Output::Journal(journal), path)
    }

    #[test]
    fn long_line_reaches_the_journal_in_a_sealed_file() {
        let (socket, mut output, path) = journal("long");
        let line = b"MESSAGE=".iter().copied().chain(b"x".repeat(4 << 20)).collect::<Vec<_>>();
        output.write(b"MESSAGE=short\n").expect("short");
        output.write(&line).expect("long");
        let mut short = [0; 100];
        let length = socket.recv(&mut short).expect("short");
        assert_eq!(&short[..length], b"MESSAGE=short\n");

        let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = RecvAncillaryBuffer::new(&mut room);
        let mut slices = [IoSliceMut::new(&mut short)];
        rustix::net::recvmsg(&socket, &mut slices, &mut message, RecvFlags::empty()).expect("long");
        let descriptor = message.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut all) => all.next(),
            _ => None,
        });
        let mut file = File::from(descriptor.expect("a descriptor"));
        let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
        assert_eq!(rustix::fs::fcntl_get_seals(&file).expect("seals"), all);
        let mut read = Vec::new();
        std::io::Seek::rewind(&mut file).expect("a file");
        file.read_to_end(&mut read).expect("a file");
        assert!(read == line);
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn full_socket_of_the_journal_blocks_nobody() {
        let (socket, mut output, path) = journal("full");
        let taken = fill(&mut output, b"MESSAGE=x\n");
        assert!((1..100_000).contains(&taken), "{taken}");
        let error = output.write(b"MESSAGE=y\n").expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        socket.recv(&mut [0; 100]).expect("a line");
        output.write(b"MESSAGE=y\n").expect("room");
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn stream_of_the_journal_is_told_by_device_and_inode() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let stat = rustix::fs::fstat(&reader).expect("a pipe");
        let right = format!("{}:{}", stat.st_dev, stat.st_ino);
        let wrong = format!("{}:{}", stat.st_dev, stat.st_ino + 1);
        assert!(is_journal_stream(reader.as_fd(), Some(&right)));
        for other in [Some(&*wrong), Some(""), Some("1"), Some("a:b"), None] {
            assert!(!is_journal_stream(reader.as_fd(), other), "{other:?}");
        }
    }
}
