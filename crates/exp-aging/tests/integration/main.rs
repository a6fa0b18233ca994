mod copies;
mod endings;
mod ranks;
