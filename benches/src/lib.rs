//! Benchmarks of senesce: ratio programs, see `benches/README.md`.
