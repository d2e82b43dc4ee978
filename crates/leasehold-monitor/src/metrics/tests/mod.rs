//! Metrics as a scrape finds them.

mod documents;
mod groups;
mod lives;
mod scrape;
mod whole;
