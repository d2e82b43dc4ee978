//! `--metrics-file`: what was counted, for a collector that reads files.

use std::io;
use std::path::Path;

use super::report_file::ReportFile;
use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::metering::Metering;
use crate::output::tell;

/// Where the metrics of a run go when it has ended, if anywhere.
pub struct MetricsFile {
    file: Option<ReportFile>,
    metering: Metering,
}

impl MetricsFile {
    /// That of this command line. Counts from here on, if there is one.
    ///
    /// # Errors
    /// 64 where it can't be written; the system has no thread for it.
    pub fn of(args: &RunArgs) -> Result<Self, Failure> {
        let Some(path) = args.metrics_file.as_deref() else {
            return Ok(Self { file: None, metering: Metering::default() });
        };
        let file =
            ReportFile::open(path).map_err(|error| Failure::new(exit::USAGE, cannot_be_written(path, &error)))?;
        // Not the lock of a key: of these there may be any number.
        Ok(Self { file: Some(file), metering: Metering::of_one(args.name.as_str())? })
    }

    /// What counts.
    pub fn metering(&self) -> Metering {
        self.metering.clone()
    }

    /// Writes what was counted. If it can't be written, the job has still had its run.
    pub fn write(&mut self) {
        let (Some(file), Some(text)) = (&mut self.file, self.metering.text()) else { return };
        if let Err(error) = file.end(&text) {
            tell(&cannot_be_written(file.path(), &error));
        }
    }
}

fn cannot_be_written(path: &Path, error: &io::Error) -> String {
    format!("--metrics-file {}: {error}", path.display())
}
