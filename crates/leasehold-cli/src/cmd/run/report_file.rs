//! Where a report goes, and what was counted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use leasehold::HolderId;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// As many links as the kernel follows.
const LINKS: usize = 40;

/// How long a pipe that is full is waited for: its reader may have gone to sleep for good.
const PATIENCE_MS: u16 = 1000;

/// The file of a report: replaced as a whole each time, or written to once where it can't be replaced.
#[derive(Debug)]
pub struct ReportFile {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A file: a new one takes its name. Its path, links followed.
    File(PathBuf),
    /// A pipe, a device, an open descriptor: gets one text, at the end.
    Stream(File),
}

impl ReportFile {
    /// Finds out what is at `path`. A file that isn't there yet is a file.
    ///
    /// # Errors
    /// It can be neither.
    pub fn open(path: &Path) -> io::Result<ReportFile> {
        let place = match place(path)? {
            Some(file) => Place::File(file),
            None => Place::Stream(stream(path)?),
        };
        Ok(ReportFile { path: path.to_owned(), place })
    }

    /// As it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says how things stand, where that can be replaced later.
    ///
    /// # Errors
    /// It can't be written.
    pub fn begin(&self, text: &str) -> io::Result<()> {
        match &self.place {
            Place::File(path) => replace(path, text),
            Place::Stream(_) => Ok(()),
        }
    }

    /// Says how it ended.
    ///
    /// # Errors
    /// It can't be written.
    pub fn end(&mut self, text: &str) -> io::Result<()> {
        match &mut self.place {
            Place::File(path) => replace(path, text),
            Place::Stream(stream) => {
                poll(&mut [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(PATIENCE_MS))?;
                stream.write_all(text.as_bytes())
            }
        }
    }
}

/// Where a file's new text is to take its name; none for what is no file, or is behind a descriptor as `/dev/stdout`
/// is: there the name is the kernel's.
fn place(path: &Path) -> io::Result<Option<PathBuf>> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(path.to_owned())),
        Err(error) => return Err(error),
    };
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if fs::canonicalize(directory)?.starts_with("/proc") {
        return Ok(None);
    }
    if found.is_symlink() {
        // The kernel is asked first: it refuses endless links, and those that others left in a directory like /tmp.
        return match fs::metadata(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => place(&directory.join(fs::read_link(path)?)),
        };
    }
    Ok(found.is_file().then(|| path.to_owned()))
}

/// A descriptor that is open already is not opened anew: a file that it stands for would be written from its beginning
/// by the one and from where it is by the other, each over the other's text.
fn stream(path: &Path) -> io::Result<File> {
    match descriptor(path) {
        Some(number) => duplicate(number),
        // A fifo that nobody reads is an error, not a reason to wait.
        None => OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(path),
    }
}

/// The number of the descriptor of ours that a path like `/dev/stdout` or `/dev/fd/3` stands for.
fn descriptor(path: &Path) -> Option<RawFd> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let directory = fs::canonicalize(path.parent()?).ok()?;
        if directory == fs::canonicalize("/proc/self/fd").ok()? {
            return path.file_name()?.to_str()?.parse().ok().filter(|number| *number >= 0);
        }
        path = directory.join(fs::read_link(&path).ok()?);
    }
    None
}

fn duplicate(number: RawFd) -> io::Result<File> {
    // SAFETY: it is only asked for a duplicate; if it isn't open, that fails.
    #[expect(unsafe_code, reason = "a number is all that the caller has of it")]
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    descriptor.try_clone_to_owned().map(File::from)
}

/// A reader sees the old text or the new one, never a part.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_file_name(format!(".leasehold-report-{}", HolderId::fresh()));
    let written = write_new(&beside, path, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// With the permissions of the file that it is to replace, if there is one.
fn write_new(new: &Path, old: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(new)?;
    if let Ok(old) = fs::metadata(old) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())
}
