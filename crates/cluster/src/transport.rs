//! Message transport between ranks.

/// Messages between the ranks `0..size`. Messages from one rank to another arrive whole and in order. No call waits for another
/// rank.
pub trait Transport {
    fn rank(&self) -> u32;

    fn size(&self) -> u32;

    /// Sends bytes to a rank, without waiting for the receiver.
    fn send(&mut self, to: u32, bytes: Vec<u8>);

    fn poll(&mut self) -> Option<(u32, Vec<u8>)>;

    /// Leaves cleanly; all ranks do so at about the same time.
    fn finish(self: Box<Self>);

    /// Aborts all ranks at once with this exit code.
    fn abort(&mut self, code: i32);
}
