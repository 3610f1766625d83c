//! Mutated inputs for parsers: a short form of cargo-fuzz for `cargo test`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::Random;

/// Number of inputs per target.
const RUNS: usize = 10_000;
/// Maximum length of an input in bytes. Repeated mutations are truncated to it.
const INPUT_BYTES_MAX: usize = 2000;

/// Runs `body` on the seeds and on mutations of them, into which `pieces` are inserted. Prints the input of a
/// failure.
pub fn run_mutations(name: &str, pieces: &[&[u8]], seeds: &[&[u8]], body: fn(&[u8])) {
    let mut random = Random::from_environment();
    let mut inputs: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    for round in 0..RUNS {
        let input = match inputs.get(round) {
            Some(input) => input.clone(),
            None => {
                let mutated = mutate(&mut random, &inputs, pieces);
                // Some mutated inputs become seeds, so that changes accumulate.
                if random.within(0..8) == 0 {
                    inputs.push(mutated.clone());
                }
                mutated
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&input))) {
            eprintln!(
                "{name} fails at input {:?}",
                input.escape_ascii().to_string()
            );
            resume_unwind(panic);
        }
    }
}

fn mutate(random: &mut Random, inputs: &[Vec<u8>], pieces: &[&[u8]]) -> Vec<u8> {
    let mut input = random.choose(inputs).clone();
    for _ in 0..random.within(1..5) {
        let at = random.within(0..input.len() + 1);
        match random.within(0..6) {
            0 if at < input.len() => input[at] = random.bits() as u8,
            1 if at < input.len() => input[at] ^= 1 << random.within(0..8),
            2 => {
                let end = (at + random.within(0..8)).min(input.len());
                input.drain(at..end);
            }
            3 => {
                let other = random.choose(inputs);
                let from = random.within(0..other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            4 => {
                let end = (at + random.within(0..40)).min(input.len());
                let copy = input[at..end].to_vec();
                input.splice(at..at, copy);
            }
            _ => {
                let piece = random.choose(pieces);
                input.splice(at..at, piece.iter().copied());
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}
