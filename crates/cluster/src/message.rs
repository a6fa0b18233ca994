//! Messages between ranks.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MessageKind {
    /// To rank 0: every operation below `number` is done here.
    Reached = 1,
    /// From rank 0: every operation below `number` is done everywhere.
    Floor = 2,
    Value = 3,
    /// To rank 0: a signal asks this rank to stop, or the run requests it.
    WantStop = 4,
    /// From rank 0: no operation that ends above `number` may start.
    StopAt = 5,
    /// To rank 0, the answer to `StopAt`.
    Present = 6,
    /// To rank 0: this rank failed. From rank 0: the run has failed. The body is an [`Ending`](crate::state::Ending).
    End = 7,
    /// To rank 0: this rank is done. From rank 0: all are.
    Goodbye = 8,
    Beat = 9,
}

impl MessageKind {
    const ALL: [Self; 9] = [
        Self::Reached,
        Self::Floor,
        Self::Value,
        Self::WantStop,
        Self::StopAt,
        Self::Present,
        Self::End,
        Self::Goodbye,
        Self::Beat,
    ];
}

/// Kind (one byte), number (little endian), body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub kind: MessageKind,
    pub number: u64,
    pub body: Vec<u8>,
}

impl Message {
    pub(crate) fn new(kind: MessageKind, number: u64) -> Self {
        Self { kind, number, body: Vec::new() }
    }

    pub(crate) fn with(kind: MessageKind, number: u64, body: Vec<u8>) -> Self {
        Self { kind, number, body }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(9 + self.body.len());
        bytes.push(self.kind as u8);
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(&self.body);
        bytes
    }

    /// Decodes a message; `None` for invalid ones.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (number, body) = rest.split_first_chunk::<8>()?;
        let kind = *MessageKind::ALL.iter().find(|known| **known as u8 == *kind)?;
        Some(Self { kind, number: u64::from_le_bytes(*number), body: body.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_invalid_ones_are_refused() {
        for kind in MessageKind::ALL {
            let message = Message::with(kind, u64::MAX - 5, b"words".to_vec());
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        for bytes in [&b""[..], b"\x01", b"\x00\0\0\0\0\0\0\0\0", b"\xff\0\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0\0\0"] {
            assert_eq!(Message::decode(bytes), None);
        }
    }
}
