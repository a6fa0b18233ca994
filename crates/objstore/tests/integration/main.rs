//! Integration tests of the object stores.

mod corpus;
mod crafted;
mod damage;
mod kill;
mod store;
