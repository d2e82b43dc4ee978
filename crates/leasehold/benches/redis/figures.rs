//! Figures, the aims that they are held against, and how they are shown.

/// A value with the smallest and the largest of its rounds.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    pub middle: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// The median of what the rounds say.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        Self { middle: values[values.len() / 2], least: values[0], most: values[values.len() - 1] }
    }

    /// Each round's ratio.
    pub fn ratio(ours: &[f64], theirs: &[f64]) -> Self {
        Self::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs))
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Aim {
    None,
    AtMost(f64),
    AtLeast(f64),
}

#[derive(Debug)]
pub struct Figure {
    pub case: String,
    pub what: String,
    pub value: Spread,
    pub aim: Aim,
    /// The values behind a ratio.
    pub note: String,
}

impl Figure {
    pub fn new(case: &str, what: &str, value: Spread, aim: Aim, note: String) -> Self {
        Self { case: case.into(), what: what.into(), value, aim, note }
    }

    pub fn header() -> String {
        format!(
            "{:14} {:48} {:>8}  {:17} {:>7}  {:6}  {}",
            "case", "what", "figure", "(min-max)", "aim", "", "in this run"
        )
    }

    pub fn line(&self) -> String {
        let Spread { middle, least, most } = self.value;
        let spread = format!("({least:.2}-{most:.2})");
        let aim = match self.aim {
            Aim::None => String::new(),
            Aim::AtMost(most) => format!("<= {most}"),
            Aim::AtLeast(least) => format!(">= {least}"),
        };
        let verdict = self.met().map_or("", |met| if met { "met" } else { "MISSED" });
        format!("{:14} {:48} {middle:>8.2}  {spread:17} {aim:>7}  {verdict:6}  {}", self.case, self.what, self.note)
    }

    pub fn json(&self) -> String {
        let Spread { middle, least, most } = self.value;
        let met = self.met().map_or("null".into(), |met| met.to_string());
        format!(
            r#"{{"case":"{}","what":"{}","value":{middle:.4},"min":{least:.4},"max":{most:.4},"aim":"{:?}","met":{met},"note":"{}"}}"#,
            self.case, self.what, self.aim, self.note
        )
    }

    fn met(&self) -> Option<bool> {
        match self.aim {
            Aim::None => None,
            Aim::AtMost(most) => Some(self.value.middle <= most),
            Aim::AtLeast(least) => Some(self.value.middle >= least),
        }
    }
}

/// The value below which so many of them are; 0.5 is the median.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values[at.min(values.len() - 1)]
}

pub fn median(values: &[f64]) -> f64 {
    quantile(&mut values.to_vec(), 0.5)
}
