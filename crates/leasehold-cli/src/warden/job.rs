//! Starting the job: from the fork to its exec.

use std::{
    ffi::{CString, OsString},
    os::unix::ffi::OsStrExt,
    ptr,
};

use nix::{
    errno::Errno,
    sys::{
        prctl::set_pdeathsig,
        signal::{Signal, kill, killpg},
    },
    unistd::{ForkResult, Pid, fork, getpid, getppid, setpgid},
};

use super::{
    end::End,
    found::Found,
    message::Change,
    page::{Page, boottime},
};

/// The exit code of a child that found, before its exec, that it must not run. Nobody sees it.
const GAVE_UP: i32 = 70;

/// The direct child of the warden.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// Its pid: safe to use until it is reaped, for only the warden does that.
    pub(super) pid: Pid,
    /// Whether it leads a process group of its own.
    leads_group: bool,
}

impl Job {
    /// Forks the child that becomes `argv`. What keeps it from that is in the page when it has ended.
    pub(super) fn start(found: &Found, argv: &[CString], changes: &[Change], page: &'static Page) -> nix::Result<Job> {
        let environment = environment(changes)?;
        let warden = getpid();
        // SAFETY: the warden has one thread, so the child may go on as any program does.
        #[expect(unsafe_code, reason = "fork is unsafe where there are threads")]
        let forked = unsafe { fork() }?;
        match forked {
            ForkResult::Child => give_up(page, become_job(found, argv, &environment, page, warden)),
            ForkResult::Parent { child: pid } => {
                let leads_group = !found.job_shares_group();
                // Whoever is first: a signal to the group may come at once.
                let _ = setpgid(pid, if leads_group { pid } else { found.group() });
                Ok(Job { pid, leads_group })
            }
        }
    }

    /// Sends a signal to the child alone.
    pub(super) fn send(self, signal: Signal) {
        let _ = kill(self.pid, signal);
    }

    /// Sends signals to the child's own group, if it has one, and says to which. Unlike a walk over the tree this
    /// can't miss a process that is being forked.
    pub(super) fn send_to_group(self, signals: &[Signal]) -> Option<Pid> {
        if !self.leads_group {
            return None;
        }
        for signal in signals {
            let _ = killpg(self.pid, *signal);
        }
        Some(self.pid)
    }
}

/// Why the child did not become the job.
#[derive(Clone, Copy, Debug)]
enum Refused {
    /// The warden died meanwhile, so nobody would watch us.
    Alone,
    /// The time was over.
    TooLate,
    /// The system refused.
    By(Errno),
}

impl From<Errno> for Refused {
    fn from(error: Errno) -> Refused {
        Refused::By(error)
    }
}

/// In the child: takes its place among the processes, gets everything back as it was found, and executes the program.
fn become_job(found: &Found, argv: &[CString], environment: &[CString], page: &Page, warden: Pid) -> Refused {
    let ready = || -> Result<(), Refused> {
        let own_group = Pid::from_raw(0);
        setpgid(own_group, if found.job_shares_group() { found.group() } else { own_group })?;
        set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != warden {
            return Err(Refused::Alone); // it died before the line above, which therefore didn't count
        }
        if boottime() >= page.due().term_at {
            return Err(Refused::TooLate);
        }
        Ok(found.restore_signals()?)
    };
    match ready() {
        Ok(()) => Refused::By(execute(argv, environment)),
        Err(refused) => refused,
    }
}

/// Not by nix, which would need copies of all of it; nor by std, which resets SIGPIPE and the mask.
fn execute(argv: &[CString], environment: &[CString]) -> Errno {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: both are lists of C strings that end with a null and outlive the call; a list without a program
    // begins with that null, for which the call fails.
    #[expect(unsafe_code, reason = "execvpe takes raw pointers")]
    unsafe {
        libc::execvpe(argv[0], argv.as_ptr(), environment.as_ptr());
    }
    Errno::last()
}

/// In the child: leaves word and ends, without any of the warden's destructors.
fn give_up(page: &Page, refused: Refused) -> ! {
    let code = match refused {
        Refused::Alone => GAVE_UP,
        Refused::TooLate => {
            page.set_errno(Page::TOO_LATE);
            GAVE_UP
        }
        Refused::By(error) => {
            page.set_errno(error as i32);
            End::not_started_code(error)
        }
    };
    // SAFETY: ends the process; nothing is called before.
    #[expect(unsafe_code, reason = "std has no exit without destructors")]
    unsafe {
        libc::_exit(code)
    }
}

/// The inherited environment with `changes`, in its order.
fn environment(changes: &[Change]) -> nix::Result<Vec<CString>> {
    let is_changed = |name: &OsString| changes.iter().any(|change| change.name() == name);
    let kept = std::env::vars_os().filter(|(name, _)| !is_changed(name));
    let set = changes.iter().filter_map(|change| match change {
        Change::Set(name, value) => Some((name.clone(), value.clone())),
        Change::Remove(_) => None,
    });
    let entry = |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
    kept.chain(set).map(|variable| CString::new(entry(variable)).map_err(|_| Errno::EINVAL)).collect()
}
