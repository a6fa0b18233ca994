//! What aging must do, tried from outside.

mod clock;
mod execute;
mod theory;
mod parts;
mod planner;
mod profiles;
