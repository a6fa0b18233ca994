//! Tests of the crate over its whole surface, in one binary.

mod altered_records;
mod bench_target;
mod compare;
mod comparison_table;
mod history;
mod identical_layouts;
mod leading_metric;
