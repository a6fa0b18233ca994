//! The built-in profiles.

pub const BUILTIN: [(&str, &str); 8] = [
    ("agrawal", include_str!("../../data/profiles/agrawal.toml")),
    ("meyer", include_str!("../../data/profiles/meyer.toml")),
    ("douceur", include_str!("../../data/profiles/douceur.toml")),
    ("wang_os", include_str!("../../data/profiles/wang_os.toml")),
    ("wang_lanl", include_str!("../../data/profiles/wang_lanl.toml")),
    ("dabre", include_str!("../../data/profiles/dabre.toml")),
    ("grundman", include_str!("../../data/profiles/grundman.toml")),
    ("pramod", include_str!("../../data/profiles/pramod.toml")),
];
