//! Filters of system calls (seccomp(2)).

/// `AUDIT_ARCH_X86_64` of linux/audit.h.
const X86_64: u32 = 0xC000_003E;
/// `__X32_SYSCALL_BIT` of asm/unistd.h: the same calls with other numbers.
const X32: u32 = 0x4000_0000;
/// Offsets of the number, the architecture and the first argument in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Bits of the lower half of an argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Argument {
    pub number: u32,
    pub mask: u32,
}

/// A program for seccomp(2). Calls that it does not answer pass.
pub(crate) struct Filter(Vec<libc::sock_filter>);

impl Filter {
    /// Creates a filter; `foreign` is the action for system calls of another architecture.
    pub(crate) fn new(foreign: u32) -> Self {
        let program = vec![
            load(ARCHITECTURE),
            jump(libc::BPF_JEQ, X86_64, 1, 0),
            end(foreign),
            load(NUMBER),
            jump(libc::BPF_JGE, X32, 0, 1),
            end(foreign),
        ];
        Self(program)
    }

    /// Answers a call with an error, or with success for 0.
    pub(crate) fn answer(&mut self, call: libc::c_long, error: libc::c_int) {
        self.0.extend([jump(libc::BPF_JEQ, call as u32, 0, 1), end(failure(error))]);
    }

    /// Answers a call with an error if an argument has one of the values. Its other calls pass.
    pub(crate) fn answer_if(&mut self, call: libc::c_long, argument: Argument, values: &[u32], error: libc::c_int) {
        self.compare(call, argument, values, [end(failure(error)), end(libc::SECCOMP_RET_ALLOW)]);
    }

    /// Answers a call with an error unless an argument has the value.
    pub(crate) fn answer_unless(&mut self, call: libc::c_long, argument: Argument, value: u32, error: libc::c_int) {
        self.compare(call, argument, &[value], [end(libc::SECCOMP_RET_ALLOW), end(failure(error))]);
    }

    /// Ends with `equal` or `other`: the argument has replaced the call's number.
    fn compare(
        &mut self,
        call: libc::c_long,
        argument: Argument,
        values: &[u32],
        [equal, other]: [libc::sock_filter; 2],
    ) {
        let count = values.len() as u8;
        self.0.extend([
            jump(libc::BPF_JEQ, call as u32, 0, count + 4),
            load(ARGUMENTS + 8 * argument.number),
            statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, argument.mask),
        ]);
        self.0.extend((1..).zip(values).map(|(number, value)| jump(libc::BPF_JEQ, *value, count + 1 - number, 0)));
        self.0.extend([other, equal]);
    }

    /// Filters the calls of this thread and the programs that it starts, for ever. Set-user-ID programs have no effect then.
    pub(crate) fn install(mut self) -> crate::Result<()> {
        self.0.push(end(libc::SECCOMP_RET_ALLOW));
        let filter = libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_mut_ptr() };
        // SAFETY: the arguments are numbers, and a filter that lives until the call returns, when the kernel has copied it.
        unsafe {
            checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            checked(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter))
        }
    }
}

pub(crate) fn failure(error: libc::c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | error as u32
}

pub(crate) fn checked(result: libc::c_int) -> crate::Result<()> {
    if result < 0 { Err(crate::errno::last()) } else { Ok(()) }
}

fn statement(code: u32, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

/// Skips `if_so` statements if the comparison holds, otherwise `if_not`.
fn jump(comparison: u32, value: u32, if_so: u8, if_not: u8) -> libc::sock_filter {
    libc::sock_filter { jt: if_so, jf: if_not, ..statement(libc::BPF_JMP | comparison | libc::BPF_K, value) }
}

fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn end(action: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, action)
}
