//! Web server workload on fresh and aged file systems (technical report CMU-PDL-16-105).

use crate::aged_server::Server;

pub(crate) struct Webserver;

impl Server for Webserver {
    const KIND: &'static str = "aged-webserver";
    const TITLE: &'static str = "A web server on fresh and aged file systems";
    const PERSONALITY: &'static str = "webserver";
    const PAGE: &'static str = include_str!("../docs/experiments/aged-webserver.md");
    const PUBLISHED: &'static str = include_str!("../data/published/aged-webserver.csv");
    const CLAIMS: &'static str = include_str!("../data/published/aged-webserver.claims.toml");
    const FILES: [f64; 3] = [0.1, 1.0, 1.0];
}
