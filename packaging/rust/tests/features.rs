//! What the features `stats` and `profile` add.

#[global_allocator]
static GLOBAL: hakmem::Hakmem = hakmem::Hakmem;

#[cfg(feature = "stats")]
#[test]
fn statistics_count_what_is_alive() {
    let live = || {
        let text = hakmem::stats_json();
        assert!(text.starts_with('{') && text.trim_end().ends_with('}'));
        let at = text.find("\"live_bytes\"").expect("the key");
        let digits = text[at..].split([':', ',', '}']).nth(1).unwrap().trim();
        digits.parse::<u64>().unwrap()
    };
    let before = live();
    let blocks: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 10_000]).collect();
    assert!(live() >= before + 9_000_000);
    drop(blocks);
    assert!(live() < before + 5_000_000);
}

#[cfg(feature = "profile")]
#[test]
fn a_profile_is_written() {
    use std::ffi::CString;
    let file = std::env::temp_dir().join(format!("hakmem-{}.pb.gz", std::process::id()));
    let name = CString::new(file.to_str().unwrap()).unwrap();
    hakmem::profile::start(1).unwrap();
    let blocks: Vec<Box<[u8; 5000]>> = (0..200).map(|_| Box::new([1; 5000])).collect();
    hakmem::profile::write(&name).unwrap();
    hakmem::profile::stop();
    let written = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(written.starts_with(&[0x1f, 0x8b]) && blocks.len() == 200);
    assert_eq!(hakmem::profile::write(c"/no/such/folder/profile.pb"), Err(hakmem::profile::Error(2)));
}
