//! Prognoses of images with real file systems, as root, and the real kernel's behaviour.

mod advice;
mod common;
mod looking;
mod rules;
mod twins;
