//! File server workload on fresh and aged file systems (technical report CMU-PDL-16-105).

use crate::aged_server::Server;

pub(crate) struct Fileserver;

impl Server for Fileserver {
    const KIND: &'static str = "aged-fileserver";
    const TITLE: &'static str = "A file server on fresh and aged file systems";
    const PERSONALITY: &'static str = "fileserver";
    const PAGE: &'static str = include_str!("../docs/experiments/aged-fileserver.md");
    const PUBLISHED: &'static str = include_str!("../data/published/aged-fileserver.csv");
    const CLAIMS: &'static str = include_str!("../data/published/aged-fileserver.claims.toml");
    const FILES: [f64; 3] = [0.01, 0.15, 1.0];
}
