//! Texts and names of the kernel's errors (errno(3)).

use rustix::io::Errno;

/// Returns the last error of this thread, for C library calls without a wrapper.
pub(crate) fn last() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error();
    code.map_or(Errno::IO, Errno::from_raw_os_error)
}

/// Returns the text of an I/O error without the number that `std` appends: `No space left on device (ENOSPC)`.
pub fn errno_message(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => {
            let text = error.to_string();
            let message = text.split(" (os error").next().unwrap_or(&text).to_string();
            format!("{message} ({})", name(Errno::from_raw_os_error(number)))
        }
        None => error.to_string(),
    }
}

/// Returns the name of an error such as `ENOSPC`; `errno 74` for rare ones.
pub(crate) fn name(errno: Errno) -> String {
    use Errno as E;
    let names = [
        (E::NOSPC, "ENOSPC"),
        (E::IO, "EIO"),
        (E::MFILE, "EMFILE"),
        (E::NFILE, "ENFILE"),
        (E::ROFS, "EROFS"),
        (E::ACCESS, "EACCES"),
        (E::PERM, "EPERM"),
        (E::NOENT, "ENOENT"),
        (E::EXIST, "EEXIST"),
        (E::NOTDIR, "ENOTDIR"),
        (E::ISDIR, "EISDIR"),
        (E::BUSY, "EBUSY"),
        (E::INVAL, "EINVAL"),
        (E::NOTSUP, "EOPNOTSUPP"),
        (E::NOSYS, "ENOSYS"),
        (E::NOTEMPTY, "ENOTEMPTY"),
        (E::NODEV, "ENODEV"),
        (E::NXIO, "ENXIO"),
        (E::STALE, "ESTALE"),
        (E::FBIG, "EFBIG"),
        (E::DQUOT, "EDQUOT"),
        (E::NOMEM, "ENOMEM"),
        (E::NAMETOOLONG, "ENAMETOOLONG"),
        (E::NOTTY, "ENOTTY"),
        (E::XDEV, "EXDEV"),
        (E::NOTCONN, "ENOTCONN"),
    ];
    names
        .iter()
        .find(|(known, _)| *known == errno)
        .map_or_else(|| format!("errno {}", errno.raw_os_error()), |(_, name)| (*name).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_has_text_and_name() {
        let message = |number| errno_message(&std::io::Error::from_raw_os_error(number));
        assert_eq!(message(28), "No space left on device (ENOSPC)");
        assert_eq!(message(74), "Bad message (errno 74)");
        assert_eq!(errno_message(&std::io::Error::other("torn")), "torn");
    }
}
