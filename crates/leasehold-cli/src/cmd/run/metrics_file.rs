//! `--metrics-file`: what was counted, for a collector that reads files.

use std::path::Path;

use super::report_file::replace;
use crate::args::RunArgs;
use crate::exit::Failure;
use crate::metering::Metering;
use crate::output::tell;

/// Where the metrics of a run go when it has ended, if anywhere.
pub struct MetricsFile<'a> {
    path: Option<&'a Path>,
    metering: Metering,
}

impl<'a> MetricsFile<'a> {
    /// That of this command line. Counts from here on, if there is one.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn of(args: &'a RunArgs) -> Result<Self, Failure> {
        let path = args.metrics_file.as_deref();
        // Not the lock of a key: of these there may be any number.
        let metering = if path.is_some() { Metering::of_one(args.name.as_str())? } else { Metering::default() };
        Ok(Self { path, metering })
    }

    /// What counts.
    pub fn metering(&self) -> Metering {
        self.metering.clone()
    }

    /// Writes what was counted. If it can't be written, the job has still had its run.
    pub fn write(&self) {
        let (Some(path), Some(text)) = (self.path, self.metering.text()) else { return };
        if let Err(error) = replace(path, &text) {
            tell(&format!("--metrics-file {}: {error}", path.display()));
        }
    }
}
