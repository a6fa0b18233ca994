//! Runs the common test body on the simulated drive; crates/cli/tests/integration/zoned_drive.rs runs it on drives of the guest.

#[path = "body/device.rs"]
mod device;

#[test]
fn the_simulated_drive_passes() {
    device::simulated("zn540");
}
