use super::*;

#[test]
fn only_boot_failures_of_emulation_are_retried() {
    for (end, again) in [
        (GuestEnd::Panic, true),
        (GuestEnd::SlowBoot, true),
        (GuestEnd::TimeLimit, false),
        (GuestEnd::OutOfMemory, false),
        (GuestEnd::Other, false),
    ] {
        assert_eq!(may_boot_again(end, Accelerator::Tcg, false), again, "{end:?}");
        assert!(!may_boot_again(end, Accelerator::Tcg, true), "the command may have done something: {end:?}");
        assert!(!may_boot_again(end, Accelerator::Kvm, false), "{end:?}");
    }
}
