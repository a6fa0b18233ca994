//! What the command line must do, tried from outside.

mod advise;
mod age;
mod age_changes;
mod age_trouble;
mod architecture;
mod bench;
mod common;
mod device;
mod history;
mod kill;
mod kills;
mod lab;
mod layout;
mod ledger;
mod objects;
mod outputs;
mod prognosis;
mod reference;
mod smoke;
mod study;
mod tutorials;
mod user;
mod words;
mod zns;
mod zoned_drive;
