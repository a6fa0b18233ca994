mod endings;
mod ranks;
