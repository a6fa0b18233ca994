//! Converts `randvar(...)` and `cvar(...)` to a [`RandomVariable`].

use super::random::{Distribution, NumberSource, RandomVariable};
use super::scope::{Bound, Scope};
use crate::wml::Diagnostic;
use crate::wml::diagnostic::{Span, Spanned};
use crate::wml::syntax::{Attributes, Expression, TableEntry};
use senesce_core::parameter::suggest;

/// Default shape of the gamma distribution, times 1000.
const DEFAULT_GAMMA: f64 = 1500.0;

pub(crate) fn random(
    scope: &Scope<'_>,
    name: &str,
    attributes: &Attributes,
    table: &[TableEntry],
) -> Result<RandomVariable, Diagnostic> {
    let number = |attribute: &str| number(scope, attributes, attribute);
    let shape = number("gamma")?.unwrap_or(DEFAULT_GAMMA) / 1000.0;
    let min = number("min")?.unwrap_or(0.0);
    let mean = number("mean")?;
    let kind = word(scope, attributes, "type")?;
    let (distribution, mean) = match kind.as_ref().map(|word| word.value.as_str()) {
        _ if !table.is_empty() => tabulate(scope, table, mean.unwrap_or(0.0))?,
        Some("uniform") => (Distribution::UniformAround, mean.unwrap_or(0.0)),
        None | Some("gamma") => (Distribution::GammaAround(shape), mean.unwrap_or(shape)),
        Some("tabular") => {
            return Err(scope
                .source
                .mistake(attributes.owner, "a tabular random variable needs randtable={{...}, ...}"));
        }
        Some(other) => {
            let span = kind.as_ref().map_or(attributes.owner, |word| word.span);
            let hint = suggest(other, ["uniform", "gamma", "tabular"]);
            return Err(scope
                .source
                .mistake(span, format!("type '{other}'{hint}: expected uniform, gamma or tabular")));
        }
    };
    if shape <= 0.0 {
        return Err(scope.source.mistake(attributes.owner, "gamma must be greater than 0"));
    }
    let seed = number("seed")?.unwrap_or(0.0) as u64;
    let source = match word(scope, attributes, "randsrc")? {
        None => NumberSource::OwnErand48(seed),
        Some(word) if word.value == "rand48" => NumberSource::OwnErand48(seed),
        Some(word) if word.value == "urandom" => NumberSource::Seeded,
        Some(word) => return Err(scope.source.mistake(word.span, "expected rand48 or urandom")),
    };
    let round = number("round")?.unwrap_or(0.0);
    Ok(RandomVariable { name: name.into(), distribution, mean, min, max: f64::MAX, round, source })
}

/// Returns one cell per percent, normalised so that scaling by mean - min and adding min gives the table.
fn tabulate(scope: &Scope<'_>, table: &[TableEntry], mean: f64) -> Result<(Distribution, f64), Diagnostic> {
    let mut cells = Vec::new();
    for entry in table {
        let value = |expression: &Spanned<Expression>| numeric(scope, expression);
        let (percent, from, to) = (value(&entry.percent)?, value(&entry.from)?, value(&entry.to)?);
        if !(0.0..=100.0).contains(&percent) || to < from {
            let span = entry.percent.span.to(entry.to.span);
            return Err(scope.source.mistake(span, "expected {percent from 0 to 100, minimum, maximum}"));
        }
        cells.extend(std::iter::repeat_n((from, to - from), percent as usize));
    }
    if cells.len() != 100 {
        let span = table[0].percent.span.to(table[table.len() - 1].to.span);
        return Err(scope.source.mistake(span, format!("the percentages sum to {}, not to 100", cells.len())));
    }
    let least = table.iter().map(|entry| numeric(scope, &entry.from)).collect::<Result<Vec<_>, _>>()?;
    let least = least.into_iter().fold(f64::INFINITY, f64::min);
    let table_mean = cells.iter().map(|(base, range)| base + range / 2.0).sum::<f64>() / 100.0;
    let mean = if mean == 0.0 { table_mean } else { mean };
    let unit = table_mean - least;
    for (base, range) in &mut cells {
        let scale = |value: f64| if unit == 0.0 { 0.0 } else { value / unit };
        (*base, *range) = (scale(*base - least), scale(*range));
    }
    Ok((Distribution::Table(cells), mean))
}

pub(crate) fn custom(scope: &Scope<'_>, name: &str, attributes: &Attributes) -> Result<RandomVariable, Diagnostic> {
    let Some(kind) = word(scope, attributes, "type")? else {
        return Err(scope.source.mistake(attributes.owner, "a custom variable needs type=cvar-..."));
    };
    let parameters = Parameters::read(scope, attributes, &kind)?;
    let get = |name: &str, default: f64| parameters.get(name).unwrap_or(default);
    let (distribution, mean, source) = match kind.value.as_str() {
        "cvar-uniform" => {
            let (lower, upper) = (get("lower", 0.0), get("upper", 1.0));
            (Distribution::Uniform { lower, upper }, (lower + upper) / 2.0, NumberSource::Seeded)
        }
        "cvar-gamma" => (Distribution::Gamma(get("gamma", 1.5)), get("mean", 4096.0), NumberSource::SharedDrand48),
        "cvar-exponential" => (Distribution::Exponential, get("mean", 1.0), NumberSource::Seeded),
        "cvar-erlang" => (Distribution::Erlang(get("shape", 1.0) as u32), get("rate", 1.0), NumberSource::Seeded),
        "cvar-normal" => (Distribution::Normal(get("sigma", 1.0)), get("mean", 0.0), NumberSource::Seeded),
        "cvar-lognormal" => {
            let (shape, scale) = (get("shape", 1.0), get("scale", 1.0));
            (Distribution::LogNormal { shape, scale }, scale, NumberSource::Seeded)
        }
        "cvar-triangular" => {
            let (lower, upper, mode) = (get("lower", 0.0), get("upper", 1.0), get("mode", 0.5));
            (Distribution::Triangular { lower, upper, mode }, (lower + upper + mode) / 3.0, NumberSource::Seeded)
        }
        _ => {
            let (shape, scale) = (get("shape", 1.0), get("scale", 1.0));
            (Distribution::Weibull { shape, scale }, scale, NumberSource::Seeded)
        }
    };
    check(scope, &kind, &distribution)?;
    let number = |attribute: &str| number(scope, attributes, attribute);
    Ok(RandomVariable {
        name: name.into(),
        distribution,
        mean,
        min: number("min")?.unwrap_or(f64::MIN_POSITIVE),
        max: number("max")?.unwrap_or(f64::MAX),
        round: number("round")?.unwrap_or(0.0),
        source,
    })
}

fn check(scope: &Scope<'_>, kind: &Spanned<String>, distribution: &Distribution) -> Result<(), Diagnostic> {
    let problem = match *distribution {
        Distribution::Uniform { lower, upper } if upper < lower => "upper is below lower",
        Distribution::Gamma(shape) if shape <= 0.0 => "gamma must be greater than 0",
        Distribution::Erlang(0) => "shape must be at least 1",
        Distribution::Normal(sigma) if sigma < 0.0 => "sigma must not be negative",
        Distribution::LogNormal { shape, .. } if shape < 0.0 => "shape must not be negative",
        Distribution::Triangular { lower, upper, mode } if !(lower <= mode && mode <= upper) => {
            "expected lower <= mode <= upper"
        }
        Distribution::Weibull { shape, scale } if shape <= 0.0 || scale <= 0.0 => {
            "shape and scale must be greater than 0"
        }
        _ => return Ok(()),
    };
    Err(scope.source.mistake(kind.span, format!("{}: {problem}", kind.value)))
}

const CUSTOM_KINDS: [(&str, &[&str]); 8] = [
    ("cvar-uniform", &["lower", "upper"]),
    ("cvar-gamma", &["mean", "gamma"]),
    ("cvar-exponential", &["mean"]),
    ("cvar-erlang", &["shape", "rate"]),
    ("cvar-normal", &["mean", "sigma"]),
    ("cvar-lognormal", &["shape", "scale"]),
    ("cvar-triangular", &["lower", "upper", "mode"]),
    ("cvar-weibull", &["shape", "scale"]),
];

/// `parameters=key:value;key:value`.
struct Parameters(Vec<(String, f64)>);

impl Parameters {
    fn read(scope: &Scope<'_>, attributes: &Attributes, kind: &Spanned<String>) -> Result<Self, Diagnostic> {
        let Some((_, known)) = CUSTOM_KINDS.iter().find(|(name, _)| *name == kind.value) else {
            let names: Vec<&str> = CUSTOM_KINDS.iter().map(|(name, _)| *name).collect();
            let hint = suggest(&kind.value, names.iter().copied());
            let message = format!("unknown custom variable '{}'{hint}; choose from {}", kind.value, names.join(", "));
            return Err(scope.source.mistake(kind.span, message));
        };
        let Some(text) = word(scope, attributes, "parameters")? else { return Ok(Self(Vec::new())) };
        let mut list = Vec::new();
        for pair in text.value.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let wrong = |why: String| scope.source.mistake(text.span, why);
            let (key, value) = pair.split_once(':').ok_or_else(|| wrong(format!("'{pair}': expected name:number")))?;
            if !known.contains(&key) {
                return Err(wrong(format!("{} has no parameter '{key}'; it has: {}", kind.value, known.join(", "))));
            }
            let value = match super::scope::outside_value(value) {
                Bound::Integer(number) => number as f64,
                Bound::Real(number) => number,
                _ => return Err(wrong(format!("'{value}' is not a number"))),
            };
            list.push((key.to_string(), value));
        }
        Ok(Self(list))
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }
}

fn numeric(scope: &Scope<'_>, expression: &Spanned<Expression>) -> Result<f64, Diagnostic> {
    match scope.evaluate(expression)? {
        Bound::Integer(number) => Ok(number as f64),
        Bound::Real(number) => Ok(number),
        other => Err(scope.source.mistake(expression.span, format!("expected a number, found {}", other.describe()))),
    }
}

fn number(scope: &Scope<'_>, attributes: &Attributes, name: &str) -> Result<Option<f64>, Diagnostic> {
    let value = attributes.get(name).and_then(|attribute| attribute.value.as_ref());
    value.map(|expression| numeric(scope, expression)).transpose()
}

fn word(scope: &Scope<'_>, attributes: &Attributes, name: &str) -> Result<Option<Spanned<String>>, Diagnostic> {
    let Some(expression) = attributes.get(name).and_then(|attribute| attribute.value.as_ref()) else { return Ok(None) };
    let span: Span = expression.span;
    Ok(Some(Spanned { value: scope.evaluate(expression)?.describe(), span }))
}
