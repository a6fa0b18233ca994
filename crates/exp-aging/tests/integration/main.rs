//! Tests of the crate over its whole surface, in one binary.

mod endings;
mod ranks;
