//! Zones on machines that know few or none of them.

use std::path::Path;
use std::process::Command;

use leasehold_schedule::Schedule;

/// Says in which process the second half of the test runs.
const INSIDE: &str = "LEASEHOLD_SCHEDULE_INSIDE";

#[test]
fn a_zone_is_the_systems_and_where_it_has_none_the_built_in_one() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    // A system that knows one zone, and that one wrongly: so it can be told from what is built in.
    let system = tempfile::tempdir().unwrap();
    write_zone(&system.path().join("Asia/Tokyo"), "<+05>-5");
    let name = "a_zone_is_the_systems_and_where_it_has_none_the_built_in_one";
    let mut test = Command::new(std::env::current_exe().unwrap());
    let output = test.args(["--exact", name]).env("TZDIR", system.path()).env(INSIDE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn inside() {
    let midnight = |zone| {
        let daily = Schedule::parse("@daily", Some(zone)).unwrap();
        daily.next_after("2025-07-01T12:00:00Z".parse().unwrap()).unwrap().to_string()
    };
    assert_eq!(midnight("Asia/Tokyo"), "2025-07-01T19:00:00Z", "as the system says");
    assert_eq!(midnight("America/New_York"), "2025-07-02T04:00:00Z", "built in");
    assert_eq!(midnight("UTC"), "2025-07-02T00:00:00Z");
    assert!(Schedule::parse("@daily", Some("Mars")).is_err());
}

/// A file of a zone that has one offset for ever (RFC 9636, version 2).
fn write_zone(path: &Path, rule: &str) {
    let mut block = b"TZif2".to_vec();
    block.extend([0; 15]);
    for count in [0_u32, 0, 0, 0, 1, 4] {
        block.extend(count.to_be_bytes());
    }
    block.extend((5 * 3600_i32).to_be_bytes());
    block.extend([0, 0]);
    block.extend(b"+05\0");
    let file = [&block[..], &block, format!("\n{rule}\n").as_bytes()].concat();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, file).unwrap();
}
