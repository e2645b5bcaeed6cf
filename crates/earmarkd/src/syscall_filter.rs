//! System calls that the daemon may make once it serves (`daemon.syscall_filter`), by seccomp.
//!
//! The list is that of the calls that the daemon makes after its start in all tests, with the variants that other versions of the
//! C library choose. Every other call fails with EPERM, as if the daemon lacked a privilege: it can start no program,
//! open no raw socket beside its own, load no BPF program and change no mount.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use serde::Deserialize;

/// What happens at a system call outside the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyscallFilter {
    /// The call fails with EPERM.
    #[default]
    Enforce,
    /// The kernel logs the call and carries it out.
    Log,
    /// There is no filter.
    Off,
}

/// Calls with any arguments.
const ALLOWED: &[c_long] = &[
    // Sockets: messages, connections with neighbours, clients of the control socket.
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
    // Waiting.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_sched_yield,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    // Files: the configuration, keys, state of the kernel in /proc, the recording, the log.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_faccessat,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_memfd_create,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
    // Memory, signals and the end.
    libc::SYS_brk,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_uname,
];

/// Calls of a thread that writes a database, beside the others.
#[cfg(feature = "history")]
const OF_DATABASES: &[c_long] = &[
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fdatasync,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_pwrite64,
];

/// Calls that only this architecture has beside their newer forms.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_stat,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// Address families of new sockets: connections with neighbours, netlink, and Unix sockets.
const FAMILIES: [i32; 4] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_UNIX];

/// Operations of bpf(2) on maps and attachments (`enum bpf_cmd`): no program is loaded any more.
const BPF_OPERATIONS: [u64; 14] = [
    1,  // BPF_MAP_LOOKUP_ELEM
    2,  // BPF_MAP_UPDATE_ELEM
    3,  // BPF_MAP_DELETE_ELEM
    4,  // BPF_MAP_GET_NEXT_KEY
    8,  // BPF_PROG_ATTACH
    9,  // BPF_PROG_DETACH
    15, // BPF_OBJ_GET_INFO_BY_FD
    16, // BPF_PROG_QUERY
    24, // BPF_MAP_LOOKUP_BATCH
    26, // BPF_MAP_UPDATE_BATCH
    27, // BPF_MAP_DELETE_BATCH
    28, // BPF_LINK_CREATE
    29, // BPF_LINK_UPDATE
    34, // BPF_LINK_DETACH
];

impl SyscallFilter {
    /// Applies the filter to the calling thread, and to the threads that it starts, for good.
    ///
    /// # Errors
    /// The kernel has no seccomp.
    pub(crate) fn apply(self) -> io::Result<()> {
        let Some(otherwise) = self.otherwise() else { return Ok(()) };
        apply_filter(&program(otherwise, &[])?).map_err(io::Error::other)
    }

    /// Applies the filter to the calling thread for good, with what a database needs.
    ///
    /// # Errors
    /// The kernel has no seccomp.
    #[cfg(feature = "history")]
    pub(crate) fn apply_with_files(self) -> io::Result<()> {
        let Some(otherwise) = self.otherwise() else { return Ok(()) };
        apply_filter(&program(otherwise, OF_DATABASES)?).map_err(io::Error::other)
    }

    /// Returns what happens at a call outside the list; `None` if there is no filter.
    fn otherwise(self) -> Option<SeccompAction> {
        match self {
            SyscallFilter::Off => None,
            SyscallFilter::Log => Some(SeccompAction::Log),
            SyscallFilter::Enforce => Some(SeccompAction::Errno(libc::EPERM.cast_unsigned())),
        }
    }
}

fn program(otherwise: SeccompAction, more: &[c_long]) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(OLDER).chain(more).map(|&call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_bpf, first_argument_in(&BPF_OPERATIONS)?);
    let families = FAMILIES.map(|family| u64::from(family.cast_unsigned()));
    rules.insert(libc::SYS_socket, first_argument_in(&families)?);
    let filter = SeccompFilter::new(rules, otherwise, SeccompAction::Allow, arch);
    filter.and_then(TryInto::try_into).map_err(io::Error::other)
}

/// Returns the rules of a call whose first argument is one of these values.
fn first_argument_in(values: &[u64]) -> io::Result<Vec<SeccompRule>> {
    let rule = |&value: &u64| {
        let is_it = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
        SeccompRule::new(vec![is_it])
    };
    values.iter().map(rule).collect::<Result<_, _>>().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    /// Runs on a thread of its own, which alone is filtered.
    fn filtered<T: Send>(filter: SyscallFilter, what: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let run = || {
                filter.apply().expect("the kernel has seccomp");
                what()
            };
            scope.spawn(run).join().expect("it ends")
        })
    }

    #[test]
    fn filter_refuses_what_the_daemon_never_does() {
        let starts_program = || Command::new("true").status().map(|_| ());
        let opens_packet_socket = || -> io::Result<()> {
            Ok(socket(AddressFamily::PACKET, SocketType::DGRAM, None).map(drop)?)
        };
        let changes_user = || -> io::Result<()> {
            let ids = rustix::process::geteuid();
            Ok(rustix::thread::set_thread_res_uid(ids, ids, ids)?)
        };
        let makes_directory = || std::fs::create_dir("/proc/none");
        let attempts: [(&str, &(dyn Fn() -> io::Result<()> + Sync)); 4] = [
            ("start a program", &starts_program),
            ("open a packet socket", &opens_packet_socket),
            ("change the user", &changes_user),
            ("make a directory", &makes_directory),
        ];
        for (what, attempt) in attempts {
            let error = filtered(SyscallFilter::Enforce, attempt).expect_err(what);
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{what}: {error}");
        }
        assert!(filtered(SyscallFilter::Off, changes_user).is_ok());
        assert!(filtered(SyscallFilter::Log, changes_user).is_ok());
    }

    #[test]
    fn filter_lets_the_daemon_work() {
        filtered(SyscallFilter::Enforce, || {
            assert!(std::fs::read_to_string("/proc/self/status").is_ok());
            assert!(std::net::TcpListener::bind("127.0.0.1:0").is_ok());
            assert!(vec![1_u8; 64 << 20].iter().all(|&octet| octet == 1));
            std::thread::sleep(std::time::Duration::from_millis(1));
        });
    }
}
