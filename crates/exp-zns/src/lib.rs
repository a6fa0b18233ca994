//! Experiments on zoned drives: the verb `zoned measure`, the published experiments, and the guest with emulated
//! drives.

mod f2fs_bandwidth;
mod guest_drives;
pub mod job;
mod on_model;
mod vm_selftest;
pub mod zns;
pub mod zns_bandwidth;
pub mod zns_finish;
pub mod zns_heavy;
pub mod zns_inter_zone;
pub mod zns_intra_zone;
pub mod zns_open_close;
pub mod zns_read_interference;
pub mod zns_request_size;
pub mod zns_reset;
pub mod zns_reset_interference;
pub mod zns_rocksdb;
pub mod zns_study;
pub mod zoned_model;

use senesce_runner::{Reproducible, RunKind, experiment, verb};
use senesce_runs::import::Importer;
use zns::Zns;

#[rustfmt::skip]
pub const EXPERIMENTS: &[&dyn Reproducible] = &[
    experiment::<vm_selftest::VmSelftest>(),
    experiment::<f2fs_bandwidth::F2fsBandwidth>(),
    experiment::<zns_rocksdb::ZnsRocksdb>(),
    experiment::<Zns<zns_request_size::ZnsRequestSize>>(),
    experiment::<Zns<zns_intra_zone::ZnsIntraZone>>(),
    experiment::<Zns<zns_inter_zone::ZnsInterZone>>(),
    experiment::<Zns<zns_bandwidth::ZnsBandwidth>>(),
    experiment::<Zns<zns_reset::ZnsReset>>(),
    experiment::<Zns<zns_finish::ZnsFinish>>(),
    experiment::<Zns<zns_open_close::ZnsOpenClose>>(),
    experiment::<Zns<zns_read_interference::ZnsReadInterference>>(),
    experiment::<Zns<zns_heavy::ZnsHeavy>>(),
    experiment::<Zns<zns_reset_interference::ZnsResetInterference>>(),
];

pub const VERBS: &[&dyn RunKind] =
    &[verb::<job::ZnsJob>(), verb::<zoned_model::ZonedModel>(), verb::<zns_study::ZnsStudyImport>()];

pub const IMPORTERS: &[&dyn Importer] = &[&zns_study::ZnsStudyImport];
