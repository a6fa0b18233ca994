//! Scales a drive model down to an image, so that the image fills it.

use super::parameters::{Flash, PAGE};
use crate::error::ModelError;

impl Flash {
    /// Returns the same drive with a capacity of at least `bytes` and at most a few blocks more. It has fewer blocks,
    /// and smaller ones if the spare area could not hold the blocks kept ready. Dies, channels, page sizes and times
    /// are unchanged; an SLC cache shrinks with the capacity.
    pub fn sized(&self, bytes: u64, name: &str) -> Result<Self, ModelError> {
        if bytes > self.capacity_bytes {
            let problem = format!("{bytes} bytes exceed its {} bytes", self.capacity_bytes);
            return Err(ModelError::Options { device: name.into(), problem });
        }
        let step = self.geometry.pages_per_program * self.timing.read_us.len() as u32;
        let mut pages_per_block = self.geometry.pages_per_block;
        loop {
            let cut = self.cut(bytes, pages_per_block);
            match cut.check(name) {
                Ok(()) => return Ok(cut),
                Err(problem) if pages_per_block <= step => return Err(problem),
                Err(_) => pages_per_block = (pages_per_block / 2).next_multiple_of(step).min(pages_per_block - step),
            }
        }
    }

    fn cut(&self, bytes: u64, pages_per_block: u32) -> Self {
        let mut cut = self.clone();
        cut.geometry.pages_per_block = pages_per_block;
        let block = pages_per_block as u64
            * self.geometry.page_bytes
            * u64::from(self.geometry.planes_per_die)
            * u64::from(self.geometry.dies());
        let wanted = (bytes as f64 * (1.0 + self.spare_share)).ceil() as u64;
        // One more, because the capacity is rounded down to mapped pages.
        let blocks = (wanted.div_ceil(block.max(1)) + 1).min(u64::from(u32::MAX)) as u32;
        cut.geometry.blocks_per_plane = blocks;
        let physical = u64::from(blocks) * block;
        cut.capacity_bytes = (physical as f64 / (1.0 + self.spare_share)) as u64 / PAGE * PAGE;
        if let Some(cache) = &mut cut.slc_cache {
            cache.bytes = (cache.bytes as f64 * cut.capacity_bytes as f64 / self.capacity_bytes as f64) as u64;
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{DeviceModel, Parameters};

    #[test]
    fn flash_drives_can_be_scaled_to_an_image() {
        for name in DeviceModel::builtin_names() {
            let Parameters::FlashSsd(flash) = DeviceModel::builtin(name).unwrap().parameters else { continue };
            for mib in [600u64, 4096] {
                let cut = flash.sized(mib << 20, name).unwrap();
                assert!(cut.capacity_bytes >= mib << 20, "{name} {mib}: {}", cut.capacity_bytes);
                assert!(cut.capacity_bytes < (mib << 20) * 5 / 4, "{name} {mib}: {}", cut.capacity_bytes);
                assert_eq!((cut.geometry.dies(), &cut.timing), (flash.geometry.dies(), &flash.timing));
            }
            assert!(flash.sized(u64::MAX, name).unwrap_err().to_string().contains("exceed"), "{name}");
        }
    }
}
