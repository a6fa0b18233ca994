//! What the object stores must do, tried from outside.

mod corpus;
mod crafted;
mod damage;
mod kill;
mod store;
