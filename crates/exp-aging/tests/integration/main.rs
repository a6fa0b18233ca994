mod copies;
mod endings;
mod own_target;
mod ranks;
