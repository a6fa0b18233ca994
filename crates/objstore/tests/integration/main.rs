//! Integration tests of the object stores.

mod common;
mod corpus;
mod crafted;
mod damage;
mod kill;
mod store;
