//! Channels over all workers: order, presence, slow subscribers, publishers outside, and workers that die.

mod burst;
mod channels;
mod crash;
mod history_file;
mod many;
mod presence;
mod publisher;
mod slow;
