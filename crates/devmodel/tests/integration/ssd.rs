//! Invariants of the drive with a flash translation layer.

use proptest::prelude::*;
use senesce_devmodel::simulate::{Before, Command};
use senesce_devmodel::ssd::parameters::{Placement, Policy, SlcCache};
use senesce_devmodel::ssd::{Drive, Flash, Hint, fast24};
use senesce_devmodel::{DeviceModel, Operation, Options, Outcome, Pacing, Parameters, Request, simulate};

const MIB: u64 = 1 << 20;

/// The study's drive, scaled down to 64 blocks per die: 480 MiB.
fn small(change: impl FnOnce(&mut Flash)) -> DeviceModel {
    let mut flash = fast24::drive_of_the_study().unwrap();
    flash.geometry.blocks_per_plane = 64;
    flash.spare_share = 0.2;
    change(&mut flash);
    flash.capacity_bytes = (flash.geometry.bytes().unwrap() as f64 / (1.0 + flash.spare_share)) as u64 / 4096 * 4096;
    flash.check("small").unwrap();
    DeviceModel {
        name: "small".into(),
        sources: Vec::new(),
        parameters: Parameters::FlashSsd(flash),
        measurement: None,
    }
}

/// Blocks of 4 KiB at deterministic positions.
fn random(operation: Operation, capacity: u64, count: u64) -> impl Iterator<Item = Request> {
    (0..count).map(move |index| {
        let place =
            (u128::from(index.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17).wrapping_mul(0xBF58_476D_1CE4_E5B9))
                * u128::from(capacity / 4096))
                >> 64;
        Request::of_bytes(operation, place as u64 * 4096, 4096)
    })
}

fn run(model: &DeviceModel, trace: impl IntoIterator<Item = Request>, depth: u32, before: Before) -> Outcome {
    let options = Options { pacing: Pacing::Depth(depth), before, ..Options::default() };
    simulate(model, trace, &options).unwrap()
}

#[test]
fn a_mapped_page_takes_at_most_16_bytes() {
    for name in DeviceModel::builtin_names() {
        if let Parameters::FlashSsd(flash) = DeviceModel::builtin(name).unwrap().parameters {
            let bytes = Drive::new(&flash).map().bytes_per_mapped_page();
            assert!(bytes <= 16.0, "{name}: {bytes}");
        }
    }
}

#[test]
fn placement_follows_write_order_and_not_address() {
    let model = small(|_| ());
    let stripe = 256 << 10;
    // 32 KiB of the file, then 224 KiB elsewhere; the file's own addresses are consecutive.
    let elsewhere = |index: u64| {
        Request::of_bytes(Operation::Write, 128 * MIB + index * (stripe - (32 << 10)), stripe - (32 << 10))
    };
    let apart =
        (0..256u64).flat_map(|index| [Request::of_bytes(Operation::Write, index << 15, 32 << 10), elsewhere(index)]);
    let together = [Request::of_bytes(Operation::Write, 0, 8 * MIB)];
    let reads = (0..8u64).map(|index| Request::read_bytes(index * MIB, MIB));
    let rate = |writes: Vec<Request>| {
        let outcome = run(
            &model,
            writes.into_iter().chain([Request::new(Operation::Flush, 0, 0)]).chain(reads.clone()),
            1,
            Before::Empty,
        );
        (outcome.read.unwrap().mean_ns, outcome.collision_index.unwrap())
    };
    let ((fast, even), (slow, collided)) = (rate(together.to_vec()), rate(apart.collect()));
    assert!(slow > 4.0 * fast, "{slow} {fast}");
    assert_eq!((even, collided), (1.0, 8.0));
}

#[test]
fn placement_by_address_undoes_the_order_of_writing() {
    let model = small(|flash| flash.placement = Placement::ByAddress);
    let writes = random(Operation::Write, 64 * MIB, 100_000)
        .chain((0..256u64).map(|index| Request::of_bytes(Operation::Write, (index * 97 % 256) << 15, 32 << 10)));
    let outcome =
        run(&model, writes.chain((0..8u64).map(|index| Request::read_bytes(index * MIB, MIB))), 1, Before::Empty);
    assert!(outcome.collision_index.unwrap() < 1.15, "{:?}", outcome.collision_index);
}

#[test]
fn random_overwriting_amplifies_and_discards_help() {
    let model = small(|_| ());
    let capacity = model.capacity_bytes();
    let steady = run(&model, random(Operation::Write, capacity, 100_000), 4, Before::Overwritten(2.0));
    let amplification = steady.write_amplification.unwrap();
    let formula = senesce_devmodel::ssd::amplification::desnoyers(1.2);
    // The blocks kept ready and those being filled are part of the 20 %.
    assert!(amplification > 2.0 && amplification < formula * 1.6, "{amplification} against {formula}");
    assert!(steady.erases.unwrap() > 0 && steady.wear.unwrap().max >= 1);
    let half = [Request::of_bytes(Operation::Discard, capacity / 2 / 4096 * 4096, capacity / 2)];
    let relieved = half.into_iter().chain(random(Operation::Write, capacity / 2 / 4096 * 4096, 100_000));
    let relieved = run(&model, relieved, 4, Before::Overwritten(2.0)).write_amplification.unwrap();
    assert!(relieved < amplification - 0.5, "{relieved} {amplification}");
    // Garbage collection takes time away from the host.
    let fresh = run(&model, random(Operation::Write, capacity, 100_000), 4, Before::Empty);
    assert_eq!(fresh.write_amplification, Some(1.0));
    assert!(steady.seconds > 1.5 * fresh.seconds, "{} {}", steady.seconds, fresh.seconds);
}

#[test]
fn cost_benefit_beats_greedy_for_skewed_writes() {
    let amplification = |policy, separate_stream| {
        let model = small(|flash| {
            // Small blocks, so that there are many to choose from.
            (flash.geometry.pages_per_block, flash.geometry.blocks_per_plane) = (4, 480);
            flash.collection.policy = policy;
            flash.collection.separate_stream = separate_stream;
        });
        let pages = model.capacity_bytes() / 4096;
        // Nine writes of ten go to a tenth of the addresses.
        let skewed = move |(index, request): (u64, Request)| {
            let start_sector =
                if index % 10 != 0 { request.start_sector / 8 % (pages / 10) * 8 } else { request.start_sector };
            Request { start_sector, ..request }
        };
        let trace = (0u64..).zip(random(Operation::Write, pages * 4096, 8 * pages)).map(skewed);
        run(&model, trace, 1, Before::Filled).write_amplification.unwrap()
    };
    let (greedy, cost_benefit) = (amplification(Policy::Greedy, true), amplification(Policy::CostBenefit, true));
    assert!(cost_benefit < 0.9 * greedy, "{cost_benefit} {greedy}");
}

#[test]
fn the_slc_cache_is_fast_until_it_is_full_and_empties_when_idle() {
    let model = small(|flash| {
        flash.spare_share = 0.3;
        flash.slc_cache = Some(SlcCache { bytes: 32 * MIB, bits_per_cell: 3, read_us: 20.0, program_us: 20.0 });
        flash.timing.program_us = 1500.0;
        flash.collection.idle_ready_blocks = 4;
        flash.collection.idle_after_ms = 10.0;
    });
    let burst = |from_ns: u64, first: u64, count: u64| {
        (0..count).map(move |index| Request {
            issue_time_ns: from_ns,
            queue_depth: 4,
            ..Request::of_bytes(Operation::Write, (first + index) * 128 * 1024, 128 * 1024)
        })
    };
    let seconds = |trace: Vec<Request>| {
        let mut ends = Vec::new();
        let options = Options { pacing: Pacing::IssueTime, ..Options::default() };
        senesce_devmodel::simulate::simulate_each(&model, trace, &options, |done| {
            ends.push((done.index, done.done_ns))
        })
        .unwrap();
        ends.sort_unstable();
        ends.into_iter().map(|(_, done)| done as f64 * 1e-9).collect::<Vec<_>>()
    };
    let once = seconds(burst(0, 0, 800).collect());
    let (within, behind) = (once[150], once[799] - once[400]);
    assert!(behind / 400.0 > 3.0 * within / 150.0, "{within} {behind}");
    // A pause of ten seconds lets the drive move the data away; the next burst is fast again.
    let paused = seconds(burst(0, 0, 300).chain(burst(10_000_000_000, 300, 150)).collect());
    assert!(paused[449] - 10.0 < 1.5 * within, "{} {within}", paused[449] - 10.0);
    let not_paused = seconds(burst(0, 0, 450).collect());
    assert!(not_paused[449] - not_paused[300] > 2.0 * within, "{not_paused:?}");
}

#[test]
fn a_map_that_does_not_fit_slows_random_reads() {
    let at = |cache| {
        let model = small(|flash| flash.mapping_cache_bytes = cache);
        run(&model, random(Operation::Read, model.capacity_bytes(), 20_000), 1, Before::Filled).seconds
    };
    let (whole, large, tiny) = (at(None), at(Some(16 * MIB)), at(Some(16 << 10)));
    assert!(large < 1.02 * whole && tiny > 1.3 * whole, "{whole} {large} {tiny}");
}

#[test]
fn invalid_parameters_are_refused() {
    let text = DeviceModel::builtin("ssd:fast24").unwrap().to_toml().unwrap();
    for (from, to, says) in [
        ("spare_share = 0.07", "spare_share = 0.0", "spare_share is 0, but must be above zero"),
        ("channels = 4", "channels = 5", "multiplies out to"),
        ("capacity_bytes = 60209819648", "capacity_bytes = 61209819648", "multiplies out to"),
        ("blocks_per_plane = 8192", "blocks_per_plane = 4294967295", "multiplies out to"),
        ("pages_per_block = 30", "pages_per_block = 0", "pages_per_block is 0"),
        ("dies_per_channel = 2", "dies_per_channel = 4294967295", "multiplies out to"),
        ("channel_mib_per_s = 800.0", "channel_mib_per_s = 1e-300", "0.1 to 1,000,000 MiB/s"),
        ("program_us = 185.0", "program_us = 1e300", "program_us"),
        ("ready_blocks = 2", "ready_blocks = 600", "the spare area has"),
        ("page_bytes = 32768", "page_bytes = 32769", "multiple of 4096"),
        ("write_buffer_bytes = 4194304", "write_buffer_bytes = 262144", "write_buffer_bytes must hold"),
        ("read_us = 30.49", "read_us = nan", "firmware.read_us"),
        ("placement = \"round-robin\"", "placement = \"anywhere\"", "anywhere"),
        ("separate_stream = true", "separate_stream = true\nspeed = 3", "speed"),
    ] {
        assert!(text.contains(from), "{from}");
        let stated = DeviceModel::from_toml("test", &text.replace(from, to)).unwrap_err().to_string();
        assert!(stated.contains(says), "{to}: {stated}");
    }
    assert!(DeviceModel::load("/no/such/file.toml").unwrap_err().to_string().contains("ssd:fast24"));
}

#[test]
fn invalid_traces_are_refused() {
    let model = small(|_| ());
    let capacity = model.capacity_bytes();
    let stated = |trace: Vec<Request>| simulate(&model, trace, &Options::default()).unwrap_err().to_string();
    let outside =
        |operation| stated(vec![Request::read_bytes(0, 4096), Request::of_bytes(operation, capacity - 4096, 8192)]);
    assert!(outside(Operation::Read).starts_with("request 1 (read) ends at byte"), "{}", outside(Operation::Read));
    assert!(outside(Operation::Discard).contains("(discard)"));
    let far = Request { start_sector: u64::MAX - 3, ..Request::read_bytes(0, 4096) };
    assert!(stated(vec![far]).contains("ends at byte"));
    let at = |issue_time_ns| Request { issue_time_ns, ..Request::read_bytes(0, 4096) };
    assert!(
        stated(vec![at(5), at(9), at(8)]).starts_with("request 2 was issued at 8 ns, before its predecessor at 9 ns")
    );
    let options = Options { before: Before::Overwritten(-1.0), ..Options::default() };
    assert!(simulate(&model, Vec::<Request>::new(), &options).unwrap_err().to_string().contains("rounds"));
    let nothing = simulate(&model, Vec::<Request>::new(), &Options::default()).unwrap();
    assert_eq!((nothing.requests, nothing.mib_per_s, nothing.read), (0, None, None));
}

#[test]
fn a_trace_at_its_issue_times_keeps_the_pauses() {
    let model = small(|_| ());
    let at =
        |index: u64| Request { issue_time_ns: 1_000 + index * 1_000_000, ..Request::read_bytes(index * 4096, 4096) };
    let options = Options { pacing: Pacing::IssueTime, before: Before::Filled, ..Options::default() };
    let outcome = simulate(&model, (0..1000).map(at), &options).unwrap();
    assert!((outcome.seconds - 0.999).abs() < 0.001, "{}", outcome.seconds);
    let read = outcome.read.unwrap();
    // 21.5 us of firmware, 29.8 or 41.8 us of flash, 4.9 us over the channel and 1.2 us over the interface.
    assert!(read.min_ns > 56_000 && read.max_ns < 71_000, "{read:?}");
    assert_eq!(outcome.bandwidth.len(), 1000);
    assert_eq!(read.count, 1000);
}

fn command() -> impl Strategy<Value = (u8, u64, u64, u8, u64)> {
    (0u8..8, 0u64..100_000, 1u64..300, 0u8..4, 0u64..100_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn map_always_holds_the_last_write(
        commands in proptest::collection::vec(command(), 1..400),
        placement in 0usize..3,
        policy in 0usize..3,
        separate in any::<bool>(),
        slc in any::<bool>(),
    ) {
        let model = small(|flash| {
            (flash.geometry.blocks_per_plane, flash.geometry.pages_per_block) = (40, 6);
            flash.spare_share = 0.4;
            flash.placement = [Placement::RoundRobin, Placement::ByAddress, Placement::DieAffinity][placement];
            flash.collection.policy = [Policy::Fifo, Policy::Greedy, Policy::CostBenefit][policy];
            flash.collection.separate_stream = separate;
            flash.collection.idle_ready_blocks = 4;
            flash.mapping_cache_bytes = Some(8192);
            flash.slc_cache = slc.then_some(SlcCache { bytes: 4 * MIB, bits_per_cell: 3, read_us: 20.0, program_us: 60.0 });
        });
        let Parameters::FlashSsd(flash) = &model.parameters else { unreachable!("it is one") };
        let pages = flash.logical_pages();
        let mut drive = Drive::new(flash);
        let mut written = vec![false; pages as usize];
        let mut now = 0;
        for (kind, place, count, hint, pause) in commands {
            let (first, count) = (place % pages, count.min(pages - place % pages));
            let range = first as usize..(first + count) as usize;
            let operation = [Operation::Write, Operation::Read, Operation::Discard, Operation::Flush][usize::from(kind.saturating_sub(4))];
            match operation {
                Operation::Write => written[range].fill(true),
                Operation::Discard => written[range].fill(false),
                Operation::Read | Operation::Flush => {}
            }
            let hint = [Hint::None, Hint::Behind(place * 7 % pages), Hint::Overwrite, Hint::Behind(u64::MAX)][usize::from(hint)];
            let done = drive.serve_hinted(&Request::of_bytes(operation, first * 4096, count * 4096), hint, now);
            prop_assert!(done >= now);
            now = done + pause * 100;
        }
        let mut places = std::collections::HashSet::new();
        for (page, written) in written.iter().enumerate() {
            let physical = drive.map().physical(page as u64);
            prop_assert_eq!(physical.is_some(), *written, "page {}", page);
            // No two pages share a position.
            prop_assert!(physical.is_none_or(|place| places.insert(place)));
        }
    }

    #[test]
    fn simulations_are_deterministic_and_complete(
        commands in proptest::collection::vec(command(), 1..100),
        depth in 1u32..40,
    ) {
        for name in ["ssd:fast24", "hdd:st500dm002", "850-evo"] {
            let model = DeviceModel::builtin(name).unwrap();
            let operations = [Operation::Read, Operation::Write, Operation::Discard, Operation::Flush];
            let one = |(kind, place, count, _, time): &(u8, u64, u64, u8, u64)| Request {
                issue_time_ns: *time,
                ..Request::of_bytes(operations[usize::from(*kind % 4)], place * 40_960, count * 512)
            };
            let mut trace: Vec<Request> = commands.iter().map(one).collect();
            trace.sort_by_key(|request| request.issue_time_ns);
            for pacing in [Pacing::Depth(depth), Pacing::IssueTime, Pacing::QueueDepth] {
                let options = Options { pacing, ..Options::default() };
                let outcome = simulate(&model, &trace, &options).unwrap();
                prop_assert_eq!(outcome.requests, trace.len() as u64);
                let counted = [&outcome.read, &outcome.write, &outcome.other].into_iter().flatten().map(|latency| latency.count).sum::<u64>();
                prop_assert_eq!(counted, outcome.requests);
                let again = simulate(&model, trace.iter().map(Command::from), &options).unwrap();
                prop_assert_eq!(outcome, again);
            }
        }
    }
}
