use super::*;
use senesce_core::heartbeat::Cause;

fn read_of(bytes: u64) -> ColdRead {
    ColdRead { bytes_read: bytes, allocated_bytes: bytes, ..ColdRead::default() }
}

fn account(device: Option<u64>, extents: Option<u64>) -> ColdAccount {
    let (device_requests, content_bytes) = (None, extents);
    let (extent_bytes, in_memory, image_cached_bytes, lost) = (extents, false, None, None);
    ColdAccount {
        device_bytes: device,
        device_requests,
        extent_bytes,
        content_bytes,
        in_memory,
        image_cached_bytes,
        device_busy_ms: None,
        counted_ms: None,
        lost,
    }
}

#[test]
fn too_few_device_reads_show_a_warm_read() {
    let judge = |device, extents| account(device, extents).judge(&read_of(1000));
    assert_eq!(judge(Some(1000), Some(1000)), Ok(None));
    assert_eq!(judge(Some(5000), Some(1000)), Ok(None), "metadata");
    assert!(judge(Some(2 << 20), Some(1000)).unwrap().is_some_and(|message| message.contains("delivered more")));
    assert!(matches!(judge(Some(980), Some(1000)), Err(NotCold::Cached { .. })));
    assert!(matches!(judge(Some(0), Some(1000)), Err(NotCold::Cached { .. })));
    assert!(matches!(judge(Some(4096), Some(400)), Err(NotCold::Nothing { .. })), "holes, metadata alone");
    let inline = |device| ColdAccount { content_bytes: Some(1000), ..account(Some(device), Some(0)) };
    assert_eq!(inline(4096).judge(&read_of(1000)), Ok(None), "data in inodes");
    assert!(matches!(inline(0).judge(&read_of(1000)), Err(NotCold::Cached { .. })));
    assert!(matches!(judge(Some(400), None), Err(NotCold::Cached { .. })));
    assert!(judge(Some(600), None).unwrap().is_some_and(|message| message.contains("extents")));
    assert!(judge(None, Some(1000)).unwrap().is_some_and(|message| message.contains("without a cross-check")));
    assert_eq!(account(Some(0), Some(0)).judge(&read_of(0)), Err(NotCold::Empty));
    let memory = ColdAccount { in_memory: true, ..account(Some(1000), Some(1000)) };
    assert_eq!(memory.judge(&read_of(1000)), Err(NotCold::InMemory));
    let image = |bytes| ColdAccount { image_cached_bytes: Some(bytes), ..account(Some(1000), Some(1000)) };
    assert_eq!(image(10).judge(&read_of(1000)), Ok(None));
    assert_eq!(image(11).judge(&read_of(1000)), Err(NotCold::ImageCached { cached: Bytes(11) }));
    let lost = LostTime { cause: Cause::Stopped, lost_us: 1000, length_us: 2000 };
    let stopped = ColdAccount { lost: Some(lost), ..account(Some(1000), Some(1000)) };
    assert_eq!(stopped.judge(&read_of(1000)), Err(NotCold::Lost(lost)));
}

#[test]
fn device_busy_for_longer_than_the_clock_shows_is_invalid() {
    let read = ColdRead { seconds: 0.9, ..read_of(1000) };
    let judge = |busy, counted| {
        let (device_busy_ms, counted_ms) = (Some(busy), Some(counted));
        ColdAccount { device_busy_ms, counted_ms, ..account(Some(1000), Some(1000)) }.judge(&read)
    };
    assert_eq!(judge(1030, 1000), Ok(None), "two ticks and 1 %");
    assert_eq!(judge(1, 1000), Ok(None), "a read that the processor limits");
    assert_eq!(judge(1031, 1000), Err(NotCold::Clocks { busy_ms: 1031, counted_ms: 1000, read_ms: 900 }));
    assert!(matches!(judge(500, 899), Err(NotCold::Clocks { .. })), "a read longer than its window");
}

#[test]
fn metadata_has_an_allowance_for_every_file_and_directory() {
    let read = ColdRead { files: 10, directories: 2, ..read_of(1 << 20) };
    let beyond = |device| account(Some(device), Some(1 << 20)).beyond_metadata(&read);
    assert_eq!(beyond((2 << 20) + 12 * 4096), Some(Bytes(0)));
    assert_eq!(beyond((2 << 20) + 13 * 4096), Some(Bytes(4096)));
    assert_eq!(account(Some(1), None).beyond_metadata(&read), None, "no extents, no bound");
}

#[test]
fn holes_and_data_without_blocks_need_no_delivery() {
    let plain = Extent::plain(4096, 1 << 20, 8192);
    let of = |extent: Extent, file_bytes| {
        let found = content_of(&extent, file_bytes);
        (found.bytes, found.delivered)
    };
    assert_eq!(of(plain, 1 << 20), (8192, 8192));
    assert_eq!(of(plain, 5000), (904, 904), "to the end of the file");
    assert_eq!(of(plain, 100), (0, 0), "preallocated beyond it");
    assert_eq!(of(plain.marked(ExtentKind::UNWRITTEN), 1 << 20), (0, 0));
    assert_eq!(of(plain.marked(ExtentKind::INLINE), 1 << 20), (8192, 0));
    assert_eq!(of(plain.marked(ExtentKind::ENCODED), 1 << 20), (8192, 4096));
    assert_eq!(of(plain.marked(ExtentKind::SHARED), 1 << 20), (8192, 8192), "each file is cached by itself");
}
