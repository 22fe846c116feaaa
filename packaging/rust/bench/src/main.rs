//! One load for every allocator: THREADS threads keep maps of strings and vectors, renew them, and pass a part on to the
//! next thread, which drops it. usage: allocators THREADS ROUNDS
//! Prints a checksum, which is the same whatever serves it.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::{env, thread};

#[cfg(feature = "hakmem")]
#[global_allocator]
static GLOBAL: hakmem::Hakmem = hakmem::Hakmem;
#[cfg(feature = "mimalloc")]
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[cfg(feature = "jemalloc")]
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
#[cfg(feature = "snmalloc")]
#[global_allocator]
static GLOBAL: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

const KEYS: u64 = 4096;
const STEPS: u64 = 1000;

#[derive(Default)]
struct Held {
    names: HashMap<u64, String>,
    rows: BTreeMap<u64, Vec<u64>>,
}

/// xorshift64*, the same for every allocator.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

fn round(held: &mut Held, state: &mut u64) -> Vec<Vec<u64>> {
    let mut passed = Vec::new();
    for _ in 0..STEPS {
        let (key, dice) = (next(state) % KEYS, next(state));
        match dice % 4 {
            0 => drop(held.names.insert(key, format!("{key:x}/{dice:x}"))),
            1 => drop(held.names.remove(&key)),
            2 => drop(held.rows.insert(key, (0..dice % 200).collect())),
            _ => passed.extend(held.rows.remove(&key)),
        }
    }
    passed
}

fn work(seed: u64, rounds: u64, to: Sender<Vec<Vec<u64>>>, from: Receiver<Vec<Vec<u64>>>) -> u64 {
    let (mut held, mut state, mut sum) = (Held::default(), seed, 0_u64);
    for _ in 0..rounds {
        let passed = round(&mut held, &mut state);
        let _ = to.send(passed); // the last to end has nobody to pass to
        for row in from.recv().into_iter().flatten() {
            sum = sum.wrapping_add(row.iter().sum::<u64>());
        }
    }
    sum.wrapping_add(held.names.values().map(|name| name.len() as u64).sum())
}

fn main() {
    let arguments: Vec<u64> = env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [threads, rounds] = arguments[..] else { panic!("usage: allocators THREADS ROUNDS") };
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    let mut senders: Vec<_> = senders.into_iter().map(Some).collect();
    senders.rotate_left(1);
    let workers: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(i, from)| {
            let to = senders[i].take().expect("one for each thread");
            thread::spawn(move || work(i as u64 * 7919 + 1, rounds, to, from))
        })
        .collect();
    let sum = workers.into_iter().map(|worker| worker.join().expect("a worker")).fold(0, u64::wrapping_add);
    println!("{sum:x}");
}
