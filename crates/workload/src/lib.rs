//! senesce workload.
