//! senesce objstore.
