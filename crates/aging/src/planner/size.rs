//! Sizes of files.

use super::random::mix;
use crate::plan::Class;

#[derive(Debug, Clone)]
pub(super) struct SizeDraw {
    key: u64,
    classes: Vec<SizeClass>,
}

#[derive(Debug, Clone, Copy)]
struct SizeClass {
    size: u64,
    allocated: u64,
    allocated_most: u64,
    low: f64,
    ratio: f64,
}

impl SizeDraw {
    pub(crate) fn new(key: u64, classes: &[Class]) -> Self {
        let class = |class: &Class| SizeClass {
            size: class.high as u64,
            allocated: class.allocated as u64,
            allocated_most: (class.high as u64).next_multiple_of(crate::plan::BLOCK),
            low: class.low,
            ratio: if class.low == class.high { 1.0 } else { class.high / class.low },
        };
        Self { key, classes: classes.iter().map(class).collect() }
    }

    pub(crate) fn size(&self, class: usize, birth: u64) -> u64 {
        let class = &self.classes[class];
        if class.ratio == 1.0 {
            return class.size;
        }
        let unit = mix(self.key ^ birth.wrapping_mul(0x9e37_79b9_7f4a_7c15)) as f64 / 2f64.powi(64);
        ((class.low * libm::pow(class.ratio, unit)).ceil() as u64).min(class.size)
    }

    pub(crate) fn allocated(&self, class: usize, size: u64) -> u64 {
        let class = &self.classes[class];
        if class.ratio == 1.0 { class.allocated } else { size.next_multiple_of(crate::plan::BLOCK) }
    }

    pub(crate) fn allocated_most(&self, class: usize) -> u64 {
        self.classes[class].allocated_most
    }
}
