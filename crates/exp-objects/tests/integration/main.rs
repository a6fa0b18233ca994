//! What the experiments on object stores must do, tried from outside.

mod io_scheduler;
mod object_dirs;
