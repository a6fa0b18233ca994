//! The test body of all drives on the simulated one; crates/cli/tests/integration/zoned_drive.rs runs it on drives of the guest.

#[path = "body/device.rs"]
mod device;

#[test]
fn the_simulated_drive_passes() {
    device::simulated("zn540");
}
