//! Integration tests of the cluster.

mod ranks;
