//! Channels over all workers: order, presence, slow subscribers, external publishers, and crashed
//! workers.

mod burst;
mod channels;
mod crash;
mod history_file;
mod many;
mod presence;
mod publisher;
mod slow;
