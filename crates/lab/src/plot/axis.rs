//! Axes: the area of a plot, scales that map values to coordinates, and the lines and names at round values.

use super::drawing::{Align, Drawing};

/// Area of a plot within its drawing, points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Left edge.
    pub left: f64,
    /// Right edge.
    pub right: f64,
    /// Upper edge.
    pub top: f64,
    /// Lower edge.
    pub bottom: f64,
}

impl Area {
    /// Returns the ends of the horizontal axis.
    pub fn across(&self) -> (f64, f64) {
        (self.left, self.right)
    }

    /// Returns the ends of the vertical axis, which begins at the bottom.
    pub fn up(&self) -> (f64, f64) {
        (self.bottom, self.top)
    }

    /// Draws a line across the area, with its name to the left.
    pub fn level(&self, drawing: &mut Drawing, y: f64, name: &str) {
        drawing.line("grid", (self.left, y), (self.right, y));
        drawing.text("axis", (self.left - 8.0, y + 4.0), Align::End, name);
    }

    /// Draws a line from the top to the bottom of the area.
    pub fn upright(&self, drawing: &mut Drawing, class: &str, x: f64) {
        drawing.line(class, (x, self.top), (x, self.bottom));
    }

    /// Writes a name below the area.
    pub fn tick(&self, drawing: &mut Drawing, x: f64, name: &str) {
        drawing.text("axis", (x, self.bottom + 20.0), Align::Middle, name);
    }

    /// Writes the label of the horizontal axis.
    pub fn label_across(&self, drawing: &mut Drawing, label: &str) {
        let middle = (self.left + self.right) / 2.0;
        drawing.text("", (middle, self.bottom + 42.0), Align::Middle, label);
    }

    /// Writes the label of the vertical axis.
    pub fn label_up(&self, drawing: &mut Drawing, label: &str) {
        drawing.vertical_text("", (16.0, (self.top + self.bottom) / 2.0), label);
    }
}

/// Mapping from values to coordinates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    ends: (f64, f64),
}

impl Scale {
    /// Creates a linear scale between two values.
    pub fn linear(low: f64, high: f64, ends: (f64, f64)) -> Scale {
        Scale { low, high, logarithmic: false, ends }
    }

    /// Creates a scale between round numbers around these values; those that have no place on it do not count.
    pub fn around(
        values: impl IntoIterator<Item = f64>,
        logarithmic: bool,
        ends: (f64, f64),
    ) -> Scale {
        let usable = |value: &f64| value.is_finite() && (!logarithmic || *value > 0.0);
        let values = values.into_iter().filter(usable);
        let (mut low, mut high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        if logarithmic {
            (low, high) = (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()));
            if low == high {
                high *= 10.0;
            }
        } else {
            let step = step(high - low.min(0.0));
            (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
            if low == high {
                high += step;
            }
        }
        Scale { low, high, logarithmic, ends }
    }

    /// Returns the coordinate of a value, limited to the ends.
    pub fn place(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.ends.0 + (self.ends.1 - self.ends.0) * share.clamp(0.0, 1.0)
    }

    /// Returns the round values of the tick marks.
    pub fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|power| self.low * 10_f64.powi(power)).collect();
        }
        self.every(step(self.high - self.low))
    }

    /// Returns the values from the low end to the high end of a linear scale, this step apart.
    pub fn every(&self, step: f64) -> Vec<f64> {
        // A quotient that is an integer may be a little less.
        let count = ((self.high - self.low) / step + 1e-9).floor() as u32;
        (0..=count).map(|number| self.low + step * f64::from(number)).collect()
    }
}

/// Returns a round step of which about six fit in a range.
fn step(range: f64) -> f64 {
    let rough = range.max(f64::MIN_POSITIVE) / 6.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let fit = [1.0, 2.0, 5.0].into_iter().find(|part| part * decade >= rough);
    fit.unwrap_or(10.0) * decade
}

/// Formats a number of an axis briefly: `0.05`, `20`, `60 k`, `1 M`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if value == 0.0 => "0".to_owned(),
        _ if size >= 1e6 => format!("{} M", trimmed(value / 1e6)),
        _ if size >= 1e4 => format!("{} k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let decimals = if value.abs() >= 1.0 { 1 } else { 4 };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_placed_to_scale() {
        let logarithmic = Scale::around([2.0, 300.0, 0.0], true, (0.0, 300.0));
        assert_eq!(logarithmic.ticks(), [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!([1.0, 10.0, 1_000.0].map(|value| logarithmic.place(value)), [0.0, 100.0, 300.0]);
        assert_eq!(logarithmic.place(0.0), 0.0);
        let linear = Scale::around([0.0, 57.0], false, (100.0, 0.0));
        assert_eq!(linear.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(linear.place(30.0), 50.0);
        let one = Scale::around([10.0], true, (0.0, 1.0));
        assert_eq!(one.ticks(), [10.0, 100.0]);
        assert_eq!(Scale::linear(0.0, 2.25, (0.0, 1.0)).every(0.5), [0.0, 0.5, 1.0, 1.5, 2.0]);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.05, 2.5, 20.0, 1_537.0, 60_000.0, 1e6].map(number);
        assert_eq!(shown, ["0", "0.05", "2.5", "20", "1537", "60 k", "1 M"]);
    }
}
