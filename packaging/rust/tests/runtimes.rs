//! Programs on tokio and rayon: tasks and jobs that pass what they allocated to other threads.

use rayon::prelude::*;
use std::collections::HashMap;

#[global_allocator]
static GLOBAL: hakmem::Hakmem = hakmem::Hakmem;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_of_tokio_pass_blocks_on() {
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<Vec<u8>>(64);
    for task in 0..64_usize {
        let sender = sender.clone();
        tokio::spawn(async move {
            for i in 0..100 {
                sender.send(vec![task as u8; 1 + (task * 31 + i * 997) % 20_000]).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    drop(sender);
    let mut seen = HashMap::<u8, usize>::new();
    while let Some(bytes) = receiver.recv().await {
        assert!(bytes.iter().all(|&byte| byte == bytes[0]));
        *seen.entry(bytes[0]).or_default() += 1;
    }
    assert_eq!(seen.len(), 64);
    assert!(seen.values().all(|&count| count == 100));
}

#[test]
fn jobs_of_rayon_pass_blocks_on() {
    let words: Vec<String> = (0..50_000_u32).into_par_iter().map(|i| format!("{:x}", i.wrapping_mul(2_654_435_761))).collect();
    let by_length = words.par_iter().fold(HashMap::<usize, Vec<&str>>::new, |mut map, word| {
        map.entry(word.len()).or_default().push(word);
        map
    });
    let total = by_length.map(|map| map.values().map(Vec::len).sum::<usize>()).sum::<usize>();
    assert_eq!(total, words.len());
    let mut sorted = words.clone();
    sorted.par_sort();
    assert!(sorted.windows(2).all(|pair| pair[0] <= pair[1]));
}
