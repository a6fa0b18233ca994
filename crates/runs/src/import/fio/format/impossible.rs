//! Numbers that no run can have given.

use super::RawLatency;

/// A percentile is the middle of one of 64 bins between two powers of two (fio, stat.c, `plat_idx_to_val`), so that an extreme
/// may lie half a bin beside it.
const HALF_A_BIN: f64 = 1.0 / 128.0;

/// Refuses what is less than nothing.
pub fn not_negative(field: &str, value: f64) -> Result<(), String> {
    let fits = value.is_finite() && value >= 0.0;
    if fits { Ok(()) } else { Err(format!("{field} is {value}, which cannot be; measure again")) }
}

/// The value of a counter or rate, refused beyond what fio's counters of 64 bits hold.
pub fn countable(field: &str, value: f64) -> Result<f64, String> {
    not_negative(field, value)?;
    let fits = value < 2f64.powi(64);
    if fits { Ok(value) } else { Err(format!("{field} is {value}, more than fio can count; measure again")) }
}

/// Refuses counts (of operations, of bytes) and rates that contradict one another. fio writes the count over the runtime as
/// rate (stat.c, `add_ddir_status_json`), and 0 where that is below a millisecond.
pub fn check_rates(runtime_ms: f64, [operations, iops]: [f64; 2], [bytes, bandwidth]: [f64; 2]) -> Result<(), String> {
    // Operations that did not complete have no bytes.
    if bytes > 0.0 && bytes < operations {
        return Err(format!("io_bytes is {bytes}, which {operations} operations (total_ios) cannot have moved"));
    }
    let rates = [("iops", iops, "total_ios", operations, 0.001), ("bw_bytes", bandwidth, "io_bytes", bytes, 1.0)];
    for (name, rate, counted, count, rounded) in rates {
        let wanted = if runtime_ms > 0.0 { count / runtime_ms * 1000.0 } else { 0.0 };
        let slack = if runtime_ms > 0.0 { 0.01 + 1.0 / runtime_ms } else { 0.0 };
        if (rate - wanted).abs() > slack * wanted.max(rate) + rounded {
            return Err(format!("{name} is {rate}, but {counted} {count} in {runtime_ms} ms give {wanted:.3}"));
        }
    }
    Ok(())
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
    match percentiles.iter().find(|(_, value)| *value > max * (1.0 + HALF_A_BIN)) {
        Some((percent, value)) => Err(format!("{name}: percentile {percent} is {value}, above max {max}")),
        None => Ok(()),
    }
}

/// Refuses bins (rising) that are not those of the latencies beside them.
pub fn check_bins(name: &str, latency: &RawLatency, bins: &[(u64, u64)]) -> Result<(), String> {
    let filled = || bins.iter().filter(|bin| bin.1 > 0).map(|bin| bin.0 as f64);
    let (Some(least), Some(largest)) = (filled().next(), filled().next_back()) else { return Ok(()) };
    if let Some(max) = latency.max.filter(|max| largest > max * (1.0 + HALF_A_BIN)) {
        return Err(format!("{name}.bins: {largest} is above max {max}"));
    }
    if let Some(min) = latency.min.filter(|min| least < min * (1.0 - HALF_A_BIN)) {
        return Err(format!("{name}.bins: {least} is below min {min}"));
    }
    let held: f64 = bins.iter().map(|bin| bin.1 as f64).sum();
    match latency.samples.filter(|samples| (held - samples).abs() > 0.01 * samples) {
        Some(samples) => Err(format!("{name}.bins hold {held} latencies, of {samples} that were measured (N)")),
        None => Ok(()),
    }
}
