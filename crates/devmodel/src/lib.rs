//! senesce devmodel.
