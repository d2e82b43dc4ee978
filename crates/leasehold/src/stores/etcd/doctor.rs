//! What an operator should know about the cluster.
use super::Core;
use crate::error::Result;
use crate::finding::Finding;
impl Core {
    pub(super) async fn diagnose(&self) -> Result<Vec<Finding>> {
        Ok(vec![Finding::fine("cluster", self.options.shown.clone())])
    }
}
