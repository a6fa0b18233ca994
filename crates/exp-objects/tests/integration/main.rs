mod io_scheduler;
mod object_dirs;
