use super::*;

const SIZE: u64 = 1 << 20;

fn drive(latency: Duration) -> (SlowDrive, UnixStream) {
    let content = tempfile::tempfile().unwrap();
    content.set_len(SIZE).unwrap();
    let drive = SlowDrive::serve(content, Bytes(SIZE), latency).unwrap();
    let mut socket = drive.socket.try_clone().unwrap();
    let expect = |socket: &mut UnixStream, wanted: &[u8]| {
        let mut found = vec![0; wanted.len()];
        socket.read_exact(&mut found).unwrap();
        assert_eq!(found, wanted);
    };
    expect(&mut socket, b"NBDMAGICIHAVEOPT\0\x03");
    socket.write_all(&3_u32.to_be_bytes()).unwrap();
    let option = |number: u32, content: &[u8]| {
        [b"IHAVEOPT", &number.to_be_bytes()[..], &(content.len() as u32).to_be_bytes(), content].concat()
    };
    // Structured replies, which are not supported.
    socket.write_all(&option(8, &[])).unwrap();
    expect(&mut socket, &option_reply(8, UNSUPPORTED, &[]));
    socket.write_all(&option(GO, &[0, 0, 0, 0, 0, 0])).unwrap();
    let export = [&[0, 0][..], &SIZE.to_be_bytes(), &TRANSMISSION_FLAGS.to_be_bytes()].concat();
    expect(&mut socket, &[option_reply(GO, INFORMATION, &export), option_reply(GO, ACKNOWLEDGED, &[])].concat());
    (drive, socket)
}

fn ask(socket: &mut UnixStream, kind: u16, handle: u64, offset: u64, length: u32, content: &[u8]) {
    let head = [&REQUEST.to_be_bytes()[..], &[0, 0], &kind.to_be_bytes(), &handle.to_be_bytes()].concat();
    socket.write_all(&[&head[..], &offset.to_be_bytes(), &length.to_be_bytes(), content].concat()).unwrap();
}

/// Reads the handle and error of the next reply, and `length` bytes after it.
fn answered(socket: &mut UnixStream, length: usize) -> (u64, u32, Vec<u8>) {
    assert_eq!(u32::from_be_bytes(take(socket).unwrap()), REPLY);
    let (error, handle) = (u32::from_be_bytes(take(socket).unwrap()), u64::from_be_bytes(take(socket).unwrap()));
    let mut content = vec![0; length];
    socket.read_exact(&mut content).unwrap();
    (handle, error, content)
}

#[test]
fn written_data_is_read_back_and_zeroed() {
    let (_drive, mut socket) = drive(Duration::ZERO);
    ask(&mut socket, WRITE, 1, 8192, 4096, &[7; 4096]);
    ask(&mut socket, FLUSH, 2, 0, 0, &[]);
    ask(&mut socket, READ, 3, 8190, 4, &[]);
    ask(&mut socket, WRITE_ZEROES, 4, 8192, 4096, &[]);
    ask(&mut socket, READ, 5, 8192, 4096, &[]);
    assert_eq!(answered(&mut socket, 0), (1, 0, vec![]));
    assert_eq!(answered(&mut socket, 0), (2, 0, vec![]));
    assert_eq!(answered(&mut socket, 4), (3, 0, vec![0, 0, 7, 7]));
    assert_eq!(answered(&mut socket, 0), (4, 0, vec![]));
    assert_eq!(answered(&mut socket, 4096), (5, 0, vec![0; 4096]));
}

#[test]
fn request_beyond_the_drive_is_refused_and_the_next_one_served() {
    let (_drive, mut socket) = drive(Duration::ZERO);
    ask(&mut socket, READ, 1, SIZE - 4, 8, &[]);
    ask(&mut socket, WRITE, 2, u64::MAX, 8, &[1; 8]);
    ask(&mut socket, TRIM, 3, SIZE, 1, &[]);
    ask(&mut socket, 99, 4, 0, 0, &[]);
    ask(&mut socket, READ, 5, SIZE - 4, 4, &[]);
    for handle in 1..=4 {
        assert_eq!(answered(&mut socket, 0), (handle, EINVAL, vec![]));
    }
    assert_eq!(answered(&mut socket, 4), (5, 0, vec![0; 4]));
}

#[test]
fn no_reply_comes_before_its_time() {
    let latency = Duration::from_millis(20);
    let (_drive, mut socket) = drive(latency);
    let begin = Instant::now();
    (0..100).for_each(|handle| ask(&mut socket, READ, handle, handle * 512, 512, &[]));
    assert!((0..100).all(|handle| answered(&mut socket, 512) == (handle, 0, vec![0; 512])));
    assert!(begin.elapsed() >= latency);
}

#[test]
fn unknown_request_ends_the_service() {
    let (_drive, mut socket) = drive(Duration::ZERO);
    socket.write_all(&[0; 4]).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
}
