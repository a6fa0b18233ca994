//! Prognoses of images with real file systems, as root, and the real kernel's behaviour.

mod advice;
mod common;
mod examination;
mod rules;
mod twins;
