//! Verdicts on the papers' claims, from the values of a report.
//!
//! The claims and the rules that decide them are data ([`claims`]); the file explains the rules. A verdict holds for
//! the values of one report: a claim whose values were not measured in it cannot be told.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::page::{number, show_figure};
use super::published;
use super::section::{Block, Estimate, Figure, Section};
use earmark_lab::plot::escape;

/// Claims and rules, as a file for other programs too.
const TEXT: &str = include_str!("../../data/claims.toml");

/// A paper, and its claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Name for files.
    pub name: String,
    /// Authors and title.
    pub title: String,
    /// Name of the figure that stands for the paper.
    pub headline: String,
    /// Claims, in the order of the paper.
    pub claim: Vec<Claim>,
}

/// A claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Section of the paper.
    pub section: String,
    /// The claim in one sentence.
    pub text: String,
    /// Rules, all of which have to hold.
    #[serde(default)]
    pub rule: Vec<Rule>,
    /// Reason why no value of a report can decide the claim.
    pub untold: Option<String>,
}

/// Comparison of a quotient of measured values with bounds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The quotient in words.
    pub what: String,
    /// Keys of the values that are added up.
    pub over: Vec<String>,
    /// Keys of the values that are subtracted from the sum.
    #[serde(default)]
    pub over_less: Vec<String>,
    /// Keys of the values that are added up to the divisor; none: the divisor is 1.
    #[serde(default)]
    pub under: Vec<String>,
    /// Keys of the values that are subtracted from the divisor.
    #[serde(default)]
    pub under_less: Vec<String>,
    /// Least quotient for which the claim holds.
    pub least: Option<f64>,
    /// Greatest quotient for which the claim holds.
    pub most: Option<f64>,
}

/// Outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The whole interval is within the bounds.
    Holds,
    /// The whole interval is outside.
    DoesNotHold,
    /// The interval reaches across a bound, or a value is missing.
    CannotBeTold,
}

/// Verdict on a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Name of the paper.
    pub paper: String,
    /// Section of the paper.
    pub section: String,
    /// The claim.
    pub claim: String,
    /// Outcome.
    pub verdict: Outcome,
    /// Values and bounds, or the reason why it cannot be told.
    pub why: String,
}

/// Values of a report by key, and reasons of missing ones.
pub struct Values {
    values: BTreeMap<String, Vec<Estimate>>,
    left_out: Vec<(String, String)>,
}

/// Returns the papers.
pub fn papers() -> &'static [Paper] {
    #[derive(Deserialize)]
    struct File {
        paper: Vec<Paper>,
    }
    static PAPERS: LazyLock<Vec<Paper>> = LazyLock::new(|| {
        let file: File = toml::from_str(TEXT).expect("the file is part of the program, and tested");
        file.paper
    });
    &PAPERS
}

/// Returns the verdicts on all claims by these sections.
pub fn verdicts<'a>(sections: impl IntoIterator<Item = &'a Section>) -> Vec<Verdict> {
    let values = Values::of(sections);
    let of_paper = |paper: &'static Paper| {
        let verdict = |claim: &Claim| {
            let (verdict, why) = claim.decide(&values);
            let (section, claim) = (claim.section.clone(), claim.text.clone());
            Verdict { paper: paper.name.clone(), section, claim, verdict, why }
        };
        paper.claim.iter().map(verdict).collect::<Vec<_>>()
    };
    papers().iter().flat_map(of_paper).collect()
}

impl Outcome {
    /// Returns the outcome in words.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::DoesNotHold => "does not hold",
            Outcome::CannotBeTold => "cannot be told",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::DoesNotHold => "does_not_hold",
            Outcome::CannotBeTold => "cannot_be_told",
        }
    }
}

impl Values {
    fn of<'a>(sections: impl IntoIterator<Item = &'a Section>) -> Values {
        let (mut values, mut left_out) = (BTreeMap::new(), Vec::new());
        for section in sections {
            left_out.extend(section.left_out.iter().cloned());
            for entry in section.entries.iter().chain(&section.measures) {
                values.insert(entry.key.clone(), entry.values.clone());
            }
        }
        Values { values, left_out }
    }

    /// Returns the value of a key; a number at its end selects a value of a list.
    ///
    /// # Errors
    /// The reason why there is none.
    fn get(&self, key: &str) -> Result<&Estimate, String> {
        if let Some(value) = self.values.get(key).and_then(|values| values.first()) {
            return Ok(value);
        }
        let of_list = key
            .rsplit_once('.')
            .and_then(|(list, place)| self.values.get(list)?.get(place.parse::<usize>().ok()?));
        of_list.ok_or_else(|| {
            let reason = self.left_out.iter().find(|(above, _)| published::is_under(key, above));
            let reason = reason.map_or("it was not measured in this run", |(_, reason)| reason);
            format!("{key}: {reason}")
        })
    }

    /// Returns the sum of some values less others, as an interval: low end, value, high end.
    fn sum<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k String>,
        less: impl IntoIterator<Item = &'k String>,
    ) -> Result<[f64; 3], String> {
        let mut sum = [0.0; 3];
        for key in keys {
            let &Estimate { median, low, high, .. } = self.get(key)?;
            sum.iter_mut().zip([low, median, high]).for_each(|(sum, end)| *sum += end);
        }
        for key in less {
            let &Estimate { median, low, high, .. } = self.get(key)?;
            sum.iter_mut().zip([high, median, low]).for_each(|(sum, end)| *sum -= end);
        }
        Ok(sum)
    }
}

impl Claim {
    fn decide(&self, values: &Values) -> (Outcome, String) {
        if let Some(reason) = &self.untold {
            return (Outcome::CannotBeTold, reason.clone());
        }
        let decided: Vec<(Outcome, String)> =
            self.rule.iter().map(|rule| rule.decide(values)).collect();
        let any = |outcome| decided.iter().any(|(other, _)| *other == outcome);
        let outcome = match () {
            () if any(Outcome::DoesNotHold) => Outcome::DoesNotHold,
            () if any(Outcome::CannotBeTold) => Outcome::CannotBeTold,
            () => Outcome::Holds,
        };
        let why: Vec<String> = decided.into_iter().map(|(_, why)| why).collect();
        (outcome, why.join("; "))
    }
}

impl Rule {
    fn decide(&self, values: &Values) -> (Outcome, String) {
        match self.quotient(values) {
            Ok(quotient) => self.compare(quotient),
            Err(reason) => (Outcome::CannotBeTold, format!("{}: no value, {reason}", self.what)),
        }
    }

    /// Returns the quotient: low end, value, high end. A value that is in the dividend and in the divisor has the same end
    /// of its interval in both.
    fn quotient(&self, values: &Values) -> Result<[f64; 3], String> {
        let over = values.sum(&self.over, &self.over_less)?;
        if self.under.is_empty() {
            return Ok(over);
        }
        let is_in_over = |key: &&String| self.over.contains(key) || self.over_less.contains(key);
        let (same, other): (Vec<&String>, Vec<&String>) = self.under.iter().partition(is_in_over);
        let (same_less, less): (Vec<&String>, Vec<&String>) =
            self.under_less.iter().partition(is_in_over);
        let same = values.sum(same, same_less)?;
        let [low, median, high] = values.sum(other, less)?;
        let divisors = [same[0] + high, same[1] + median, same[2] + low];
        if divisors.iter().any(|divisor| *divisor <= 0.0) {
            return Err("the interval of the divisor reaches zero".to_owned());
        }
        let negative = if over[0] < 0.0 { same[0] + low } else { divisors[0] };
        Ok([over[0] / negative, over[1] / divisors[1], over[2] / divisors[2]])
    }

    fn compare(&self, [low, value, high]: [f64; 3]) -> (Outcome, String) {
        let least = self.least.unwrap_or(f64::NEG_INFINITY);
        let most = self.most.unwrap_or(f64::INFINITY);
        let outcome = match () {
            () if least <= low && high <= most => Outcome::Holds,
            () if high < least || most < low => Outcome::DoesNotHold,
            () => Outcome::CannotBeTold,
        };
        let bounds = match (self.least, self.most) {
            (Some(least), Some(most)) => format!("{} to {}", number(least), number(most)),
            (Some(least), None) => format!("{} or more", number(least)),
            (None, Some(most)) => format!("{} or less", number(most)),
            (None, None) => "anything".to_owned(),
        };
        let mut value = number(value);
        if low < high {
            let _ = write!(value, " ({} to {})", number(low), number(high));
        }
        let reaches = match outcome {
            Outcome::CannotBeTold => " (the interval reaches across)",
            Outcome::Holds | Outcome::DoesNotHold => "",
        };
        (outcome, format!("{}: {value}, rule: {bounds}{reaches}", self.what))
    }
}

/// Returns the opening of the page: a figure for each paper, and the verdicts on its claims.
pub fn opening(verdicts: &[Verdict], sections: &[&Section]) -> String {
    let figures = || {
        sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Figure(figure) => Some(figure),
            Block::Heading(_) | Block::Text(_) | Block::Table(_) => None,
        })
    };
    let mut out = String::from("<h2 id=\"verdicts\">Verdicts on the papers' claims</h2>");
    let count = |outcome| verdicts.iter().filter(|verdict| verdict.verdict == outcome).count();
    let _ = write!(
        out,
        "<p>Of {} claims {} hold here, {} do not, and {} cannot be told from this run. A claim is decided by values of this run and a rule \
         that was fixed beforehand: it holds if the whole 95 % interval is within the bounds of the rule, does not hold if the whole \
         interval is outside, and cannot be told otherwise. \"About\" is read as within a quarter of the number. A claim that does not hold here \
         may have held for the programs and machines of its time. The claims with their rules are in the source of this program \
         (claims.toml), the verdicts in verdicts.csv and results.json.</p>",
        verdicts.len(),
        count(Outcome::Holds),
        count(Outcome::DoesNotHold),
        count(Outcome::CannotBeTold)
    );
    for paper in papers() {
        let _ = write!(out, "<h3>{}</h3>", escape(&paper.title));
        let headline = figures().find(|figure: &&Figure| figure.name == paper.headline);
        match headline {
            Some(figure) => show_figure(&mut out, figure),
            None => out.push_str(
                "<p class=\"faint\">The figure of this paper was not measured in this run.</p>",
            ),
        }
        out.push_str(
            "<table class=\"t1 claims\"><caption>Claims</caption><thead><tr><th>claim<th>section<th>verdict<th>why</tr></thead><tbody>",
        );
        for verdict in verdicts.iter().filter(|verdict| verdict.paper == paper.name) {
            let Verdict { section, claim, verdict, why, .. } = verdict;
            let cells = [
                ("claim", "", escape(claim)),
                ("section", "", escape(section)),
                ("verdict", verdict.class(), format!("<b>{}</b>", verdict.name())),
                ("why", "", escape(why)),
            ];
            out.push_str("<tr>");
            for (label, class, text) in cells {
                let _ = write!(
                    out,
                    "<td class=\"words\" data-label=\"{label}\"><span class=\"{class}\">{text}</span>"
                );
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table>");
    }
    out
}

/// Returns the verdicts as CSV.
///
/// # Errors
/// None in practice: the table is written into memory.
pub fn csv(verdicts: &[Verdict]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    verdicts.iter().try_for_each(|verdict| writer.serialize(verdict))?;
    let octets = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::section::Basis;
    use super::*;

    fn section(values: &[(&str, [f64; 3])]) -> Section {
        let mut section = Section::default();
        for (key, [low, median, high]) in values {
            let value = Estimate::between(*low, *median, *high, 9);
            section.measure(Basis::Measured, *key, "us", value);
        }
        section
    }

    fn rule(text: &str) -> Claim {
        toml::from_str(&format!("section = '1'\ntext = 'a'\nrule = [{text}]")).unwrap()
    }

    fn decide(claim: &Claim, values: &[(&str, [f64; 3])]) -> (Outcome, String) {
        claim.decide(&Values::of([&section(values)]))
    }

    /// Each paper has its claims, and each claim rules with bounds, or a reason; the verdict is never in the file.
    #[test]
    fn claims_have_rules_or_reasons() {
        assert_eq!(papers().len(), 5);
        for paper in papers() {
            assert!((8..=20).contains(&paper.claim.len()), "{}: {}", paper.name, paper.claim.len());
            for claim in &paper.claim {
                assert_ne!(claim.rule.is_empty(), claim.untold.is_none(), "{}", claim.text);
                for rule in &claim.rule {
                    assert!(rule.least.is_some() || rule.most.is_some(), "{}", rule.what);
                    assert!(!rule.over.is_empty(), "{}", rule.what);
                }
            }
        }
    }

    /// Without values no claim holds, and each says what is missing.
    #[test]
    fn nothing_holds_without_values() {
        let mut nothing = Section::default();
        nothing.leave_out("gist", "no root");
        for Verdict { claim, verdict, why, .. } in verdicts([&nothing]) {
            assert_eq!(verdict, Outcome::CannotBeTold, "{claim}");
            assert!(!why.is_empty(), "{claim}");
        }
        let gist = verdicts([&nothing]).into_iter().find(|one| one.claim.contains("2.4 kB"));
        assert!(gist.unwrap().why.contains("no root"));
    }

    #[test]
    fn whole_interval_decides() {
        let about_32 = rule("{ what = 'x', over = ['a'], under = ['b'], least = 24, most = 40 }");
        let quotient = |ends: [f64; 3]| decide(&about_32, &[("a", ends), ("b", [2.0; 3])]);
        let (outcome, why) = quotient([60.0, 64.0, 70.0]);
        assert_eq!(outcome, Outcome::Holds);
        assert_eq!(why, "x: 32 (30 to 35), rule: 24 to 40");
        assert_eq!(quotient([2.0, 2.5, 3.0]).0, Outcome::DoesNotHold);
        assert_eq!(quotient([81.0, 90.0, 99.0]).0, Outcome::DoesNotHold);
        assert_eq!(quotient([40.0, 60.0, 70.0]).0, Outcome::CannotBeTold, "20 to 35");
        let missing = decide(&about_32, &[("a", [1.0; 3])]);
        assert_eq!(missing.0, Outcome::CannotBeTold);
        assert!(missing.1.contains("b: it was not measured"), "{missing:?}");
        let zero = decide(&about_32, &[("a", [1.0; 3]), ("b", [-1.0, 0.0, 1.0])]);
        assert_eq!(zero.0, Outcome::CannotBeTold);
    }

    /// The share of a part is not more uncertain than its parts are.
    #[test]
    fn value_in_dividend_and_divisor_has_one_end() {
        let share = rule("{ what = 'x', over = ['a'], under = ['a', 'b'], least = 0.5 }");
        let [a, b] = [("a", [6.0, 7.0, 8.0]), ("b", [2.0, 3.0, 4.0])];
        let Claim { rule: rules, .. } = &share;
        let quotient = rules[0].quotient(&Values::of([&section(&[a, b])])).unwrap();
        assert_eq!(quotient, [0.6, 0.7, 0.8], "6 of 10, 7 of 10, 8 of 10");
        assert_eq!(decide(&share, &[a, b]).0, Outcome::Holds);
    }

    #[test]
    fn all_rules_have_to_hold() {
        let both = rule(
            "{ what = 'x', over = ['a'], least = 1 }, { what = 'y', over = ['b'], over_less = ['a'], most = 1 }",
        );
        let of = |a: f64, b: f64| decide(&both, &[("a", [a; 3]), ("b", [b; 3])]).0;
        assert_eq!(of(2.0, 3.0), Outcome::Holds);
        assert_eq!(of(2.0, 9.0), Outcome::DoesNotHold);
        assert_eq!(decide(&both, &[("a", [2.0; 3])]).0, Outcome::CannotBeTold);
    }

    /// Every key that a rule names is one that a part gives: a published one, or one of a part's own.
    #[test]
    fn keys_of_rules_exist() {
        const OWN: [&str; 8] = [
            "messages.",
            "receivers.",
            "loads.",
            "sessions.",
            "yessir.",
            "architecture.",
            "gist.processor.",
            "pan.high_load.",
        ];
        let rules = papers().iter().flat_map(|paper| &paper.claim).flat_map(|claim| &claim.rule);
        for rule in rules {
            for key in
                rule.over.iter().chain(&rule.over_less).chain(&rule.under).chain(&rule.under_less)
            {
                let list = key.rsplit_once('.').map_or("", |(list, _)| list);
                let is_published =
                    [key.as_str(), list].iter().any(|key| published::figure(key).is_some());
                assert!(is_published || OWN.iter().any(|own| key.starts_with(own)), "{key}");
            }
        }
    }

    #[test]
    fn verdicts_are_shown_first_and_written() {
        let section = section(&[("gist.memory", [1.0; 3])]);
        let verdicts = verdicts([&section]);
        let html = opening(&verdicts, &[&section]);
        assert!(html.contains("id=\"verdicts\"") && html.matches("<table").count() == 5);
        assert!(html.contains("cannot be told"));
        let text = csv(&verdicts).unwrap();
        assert!(text.starts_with("paper,section,claim,verdict,why\n"), "{text}");
        assert_eq!(csv::Reader::from_reader(text.as_bytes()).records().count(), verdicts.len());
    }
}
