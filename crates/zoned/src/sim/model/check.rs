//! Validates models.

use super::*;

impl Model {
    /// Checks that times and shares are not negative, and small enough for sums in nanoseconds to fit in 64 bits.
    pub(super) fn check_numbers(&self) -> Result<(), ZonedError> {
        let value = toml::Value::try_from(self).map_err(|error| ZonedError::Usage(format!("model: {error}")))?;
        let mut rest = vec![(String::new(), &value)];
        while let Some((key, value)) = rest.pop() {
            match value {
                toml::Value::Table(table) => rest.extend(table.iter().map(|(key, value)| (key.clone(), value))),
                toml::Value::Array(list) => rest.extend(list.iter().map(|value| (key.clone(), value))),
                toml::Value::Float(number) => {
                    let most = if key.ends_with("_per_kib") { 1e6 } else { 1e9 };
                    if !(0.0..=most).contains(number) {
                        let words = format!("model {}: {key} must be from 0 to {most}, not {number}", self.name);
                        return Err(ZonedError::Usage(words));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), ZonedError> {
        let wrong = |what: &str| Err(ZonedError::Usage(format!("model {}: {what}", self.name)));
        self.check_numbers()?;
        let (geometry, flash) = (&self.geometry, &self.flash);
        if geometry.zones == 0 || geometry.zone_capacity_mib == 0 || geometry.transfer_limit_kib == 0 {
            return wrong("zones, zone_capacity_mib and transfer_limit_kib must be at least 1");
        }
        if geometry.zone_capacity_mib > geometry.zone_size_mib || geometry.zone_size_mib > 1 << 20 {
            return wrong("zone_capacity_mib must not exceed zone_size_mib, nor zone_size_mib 1048576 (1 TiB)");
        }
        if geometry.conventional_zones > 0 && (self.zones.is_none() || geometry.conventional_zones >= geometry.zones) {
            return wrong("conventional_zones require a zoned drive, and must leave at least one sequential zone");
        }
        let largest = geometry.transfer_limit_kib.max(geometry.append_limit_kib);
        if geometry.zones > 1 << 20 || geometry.max_open > 1 << 20 || largest > 1 << 20 {
            return wrong("at most 1048576 zones, 1048576 open zones, and 1 GiB per transfer or append");
        }
        if geometry.formats.is_empty() || geometry.formats.iter().any(|bytes| !(512..=65536).contains(bytes)) {
            return wrong("formats needs block sizes from 512 to 65536");
        }
        if geometry.formats.iter().any(|bytes| !bytes.is_power_of_two()) {
            return wrong("block sizes must be powers of two");
        }
        if geometry.max_active > 0 && geometry.max_open > geometry.max_active {
            return wrong("max_open must not exceed max_active");
        }
        if flash.dies <= flash.parity_dies || flash.dies > 1024 || !(1..=1024).contains(&flash.channels) {
            return wrong("flash needs more dies than parity dies and a channel, at most 1024 of each");
        }
        if !(1..=1 << 20).contains(&flash.unit_kib) {
            return wrong("unit_kib must be from 1 to 1048576");
        }
        let parts = flash.unit_kib.checked_div(flash.release_kib).unwrap_or(0);
        if parts * flash.release_kib != flash.unit_kib || parts > 1024 {
            return wrong("release_kib must divide unit_kib into at most 1024 parts");
        }
        if [flash.first_segment_us, flash.segment_us, flash.program_us].iter().any(|time| !(0.001..1e6).contains(time))
        {
            return wrong("first_segment_us, segment_us and program_us must be from 0.001 us to 1 s");
        }
        if self.write.small_block_slow_share > 0.9 || !(1.0..=100.0).contains(&self.write.small_block_slow) {
            return wrong("small_block_slow must be from 1 to 100, its share from 0 to 0.9");
        }
        if flash.segment_spread > 0.9 || flash.program_spread > 0.9 {
            return wrong("segment_spread and program_spread must be from 0 to 0.9");
        }
        if self.zones.as_ref().is_some_and(|zones| zones.spread > 1.0) {
            return wrong("zones spread must be from 0 to 1, otherwise times would be negative");
        }
        if flash.redo_us >= flash.segment_us * (1.0 - flash.segment_spread) {
            return wrong("redo_us must be less than the shortest segment, otherwise programs never end under reads");
        }
        let garbage = self.garbage.iter().flat_map(|g| [g.fresh_free_mib, g.start_below_mib, g.stop_above_mib]);
        if garbage.into_iter().any(|mib| mib > 1 << 30) {
            return wrong("garbage levels must not exceed 1 PiB");
        }
        if u64::from(flash.buffer_kib) < u64::from(geometry.max_active.max(1)) * u64::from(flash.unit_kib) {
            return wrong("buffer_kib must hold one unit_kib per active zone, otherwise writes would wait forever");
        }
        Ok(())
    }
}
