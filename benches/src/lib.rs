//! Benchmarks of senesce: criterion benches and ratio programs, see `benches/README.md`.
