//! Identifies an operation in the 64 bits that the kernel returns with its completion.

use crate::driver::Fd;

/// Bits of a generation: after 2^24 reuses of a descriptor's number, a late completion could be mistaken for a new one.
/// Completions are never that late.
const GENERATION_BITS: u32 = 24;
pub(super) const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Accept,
    Recv,
    /// Space to send is available.
    Room,
    /// The peer's end or a broken connection.
    Hangup,
    /// A waker is readable.
    Wake,
    /// A collected send; the field for the descriptor contains its index.
    Send,
    Cancel,
}

const OPS: [Op; 7] = [
    Op::Accept,
    Op::Recv,
    Op::Room,
    Op::Hangup,
    Op::Wake,
    Op::Send,
    Op::Cancel,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub op: Op,
    /// Generation of the descriptor when the operation was started.
    pub generation: u32,
    pub fd: Fd,
}

impl Ticket {
    pub fn to_u64(self) -> u64 {
        let high = (self.op as u32) << GENERATION_BITS | (self.generation & GENERATION_MASK);
        u64::from(high) << 32 | u64::from(self.fd.cast_unsigned())
    }

    pub fn from_u64(number: u64) -> Ticket {
        let high = (number >> 32) as u32;
        Ticket {
            op: OPS
                .get((high >> GENERATION_BITS) as usize)
                .copied()
                .unwrap_or(Op::Cancel),
            generation: high & GENERATION_MASK,
            fd: (number as u32).cast_signed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_come_back_as_they_were() {
        for (number, &op) in OPS.iter().enumerate() {
            assert_eq!(op as usize, number);
            for generation in [0, 1, GENERATION_MASK] {
                for fd in [0, 7, Fd::MAX] {
                    let ticket = Ticket { op, generation, fd };
                    assert_eq!(Ticket::from_u64(ticket.to_u64()), ticket);
                }
            }
        }
    }
}
