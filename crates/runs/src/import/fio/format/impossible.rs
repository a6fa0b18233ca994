//! Numbers that no run can have given.

use super::RawLatency;

/// Refuses what is less than nothing.
pub fn not_negative(field: &str, value: f64) -> Result<(), String> {
    let fits = value.is_finite() && value >= 0.0;
    if fits { Ok(()) } else { Err(format!("{field} is {value}, which cannot be; measure again")) }
}

/// Percent and nanoseconds, rising.
pub fn percentiles(name: &str, latency: &RawLatency) -> Result<Vec<(f64, f64)>, String> {
    let mut all = Vec::new();
    for (percent, value) in &latency.percentile {
        let known = percent.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
        all.push((known.ok_or_else(|| format!("{name}: '{percent}' is no percentile"))?, *value));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(all)
}

/// Refuses what no clock can have measured.
pub fn check_latency(name: &str, latency: &RawLatency) -> Result<(), String> {
    for (field, value) in [("min", latency.min), ("max", latency.max), ("mean", Some(latency.mean))] {
        value.map_or(Ok(()), |value| not_negative(&format!("{name}.{field}"), value))?;
    }
    let percentiles = percentiles(&format!("{name}.percentile"), latency)?;
    for (percent, value) in &percentiles {
        not_negative(&format!("{name}.percentile {percent}"), *value)?;
    }
    if let Some(two) = percentiles.windows(2).find(|two| two[0].1 > two[1].1) {
        return Err(format!(
            "{name}: percentile {} is {}, above percentile {} with {}",
            two[0].0, two[0].1, two[1].0, two[1].1
        ));
    }
    // Without samples the extremes say nothing.
    let Some(max) = latency.max.filter(|_| latency.samples != Some(0.0)) else { return Ok(()) };
    if let Some(min) = latency.min.filter(|min| *min > max) {
        return Err(format!("{name}: min {min} is above max {max}"));
    }
    let mean = latency.mean;
    // The mean is a sum of rounded numbers.
    if mean > max * 1.001 || latency.min.is_some_and(|min| mean < min * 0.999) {
        return Err(format!("{name}: mean {mean} is not between min {} and max {max}", latency.min.unwrap_or(0.0)));
    }
    // A percentile is the middle of one of 64 bins between two powers of two (fio, stat.c, plat_idx_to_val), so the maximum
    // may lie half a bin below it.
    match percentiles.iter().find(|(_, value)| *value > max * (1.0 + 1.0 / 128.0)) {
        Some((percent, value)) => Err(format!("{name}: percentile {percent} is {value}, above max {max}")),
        None => Ok(()),
    }
}
