//! leasehold

fn main() {}
