//! Content-addressed object stores on file systems: chunkers, directory schemes, loose and packed stores, and the law
//! that says when a scheme runs a file system out of inodes.

pub mod chunker;
