//! Prognoses of images with real file systems, as root, and what the real kernel then does.

mod advice;
mod common;
mod looking;
mod rules;
mod twins;
