//! What `INFO` says.

use std::collections::HashMap;

/// Its fields. One that is missing is an empty text, or nought.
#[derive(Debug, Default)]
pub(super) struct Info {
    fields: HashMap<String, String>,
}

impl Info {
    pub fn read(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Self { fields: fields.map(|(field, value)| (field.to_owned(), value.trim().to_owned())).collect() }
    }

    pub fn get(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }

    pub fn number(&self, field: &str) -> u64 {
        self.get(field).parse().unwrap_or(0)
    }

    /// What it says of each replica: the parts of `slave0:ip=…,port=…,state=online,offset=…,lag=0`.
    pub fn replicas(&self) -> Vec<HashMap<&str, &str>> {
        let line = |nth| self.fields.get(&format!("slave{nth}"));
        let lines = (0..self.number("connected_slaves")).filter_map(line);
        lines.map(|line| line.split(',').filter_map(|part| part.split_once('=')).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_read_part_by_part() {
        let info = Info::read("connected_slaves:1\r\nslave0:ip=h,port=7,state=online,offset=1,lag=3\r\n");
        assert_eq!(info.replicas()[0]["lag"], "3");
        assert_eq!((info.replicas().len(), info.get("nothing"), info.number("nothing")), (1, "", 0));
    }
}
