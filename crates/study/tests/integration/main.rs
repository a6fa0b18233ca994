//! What a study is read from, and what it leaves.

mod foreign;
