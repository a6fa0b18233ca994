//! Where senesce keeps what it can make again.

use std::path::PathBuf;

/// `$XDG_CACHE_HOME/senesce`, or `~/.cache/senesce` (XDG base directory specification).
pub fn cache_folder() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(|| PathBuf::from("/var/cache"))
        .join("senesce")
}
