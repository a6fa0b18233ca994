//! The font of the PDF files: a TrueType font whose codes are its glyphs.

use super::compress;
use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Filter, Finish, Name, Pdf, Rect, Ref, Str};
use std::collections::BTreeMap;
use ttf_parser::{Face, GlyphId};

const DATA: &[u8] = include_bytes!("../../fonts/DejaVuSansCondensed-subset.ttf");
const NAME: Name<'_> = Name(b"DejaVuSansCondensed");
const SYSTEM: SystemInfo<'_> = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };

pub(crate) struct Font {
    face: Face<'static>,
    used: BTreeMap<u16, char>,
}

impl Font {
    pub(crate) fn new() -> Result<Self, String> {
        let face = Face::parse(DATA, 0).map_err(|error| format!("read the font: {error}"))?;
        Ok(Self { face, used: BTreeMap::new() })
    }

    /// Returns the glyphs of a text; missing characters have glyph 0, an empty box.
    pub(crate) fn glyphs(&mut self, text: &str) -> Vec<u16> {
        let glyph = |character: char| {
            let glyph = self.face.glyph_index(character).unwrap_or(GlyphId(0)).0;
            self.used.entry(glyph).or_insert(character);
            glyph
        };
        text.chars().map(glyph).collect()
    }

    /// Returns the width of glyphs in the unit of `size`.
    pub(crate) fn width(&self, glyphs: &[u16], size: f64) -> f64 {
        let units: f64 = glyphs.iter().map(|glyph| self.advance(*glyph)).sum();
        units * size / f64::from(self.face.units_per_em())
    }

    fn advance(&self, glyph: u16) -> f64 {
        f64::from(self.face.glyph_hor_advance(GlyphId(glyph)).unwrap_or(0))
    }

    fn thousandths(&self, units: f64) -> f32 {
        (units * 1000.0 / f64::from(self.face.units_per_em())) as f32
    }

    /// Writes the font as object `first` and the next four.
    pub(crate) fn write(&self, pdf: &mut Pdf, first: Ref) {
        let [font, cid, descriptor, unicode, data] = [0, 1, 2, 3, 4].map(|offset| Ref::new(first.get() + offset));
        pdf.type0_font(font)
            .base_font(NAME)
            .encoding_predefined(Name(b"Identity-H"))
            .descendant_font(cid)
            .to_unicode(unicode);
        let mut cid_font = pdf.cid_font(cid);
        cid_font.subtype(CidFontType::Type2).base_font(NAME).system_info(SYSTEM).font_descriptor(descriptor);
        cid_font.default_width(0.0).cid_to_gid_map_predefined(Name(b"Identity"));
        let mut widths = cid_font.widths();
        for glyph in self.used.keys() {
            widths.consecutive(*glyph, [self.thousandths(self.advance(*glyph))]);
        }
        widths.finish();
        cid_font.finish();
        self.describe(pdf, descriptor, data);
        let mut map = UnicodeCmap::new(Name(b"Unicode"), SYSTEM);
        self.used.iter().for_each(|(glyph, character)| map.pair(*glyph, *character));
        pdf.cmap(unicode, &map.finish());
        let length = i32::try_from(DATA.len()).unwrap_or(i32::MAX);
        let compressed = compress(DATA);
        let mut stream = pdf.stream(data, &compressed);
        stream.filter(Filter::FlateDecode).pair(Name(b"Length1"), length);
    }

    fn describe(&self, pdf: &mut Pdf, descriptor: Ref, data: Ref) {
        let units = |value: i16| self.thousandths(f64::from(value));
        let bounds = self.face.global_bounding_box();
        pdf.font_descriptor(descriptor)
            .name(NAME)
            .flags(FontFlags::SYMBOLIC)
            .bbox(Rect::new(units(bounds.x_min), units(bounds.y_min), units(bounds.x_max), units(bounds.y_max)))
            .italic_angle(0.0)
            .ascent(units(self.face.ascender()))
            .descent(units(self.face.descender()))
            .cap_height(units(self.face.capital_height().unwrap_or(self.face.ascender())))
            .stem_v(80.0)
            .font_file2(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_width_is_the_sum_of_glyph_widths() {
        let mut font = Font::new().unwrap();
        let (one, two) = (font.glyphs("m"), font.glyphs("mm"));
        assert_eq!(font.width(&two, 10.0), 2.0 * font.width(&one, 10.0));
        assert!(font.width(&one, 10.0) > 5.0 && font.width(&one, 10.0) < 12.0);
        assert_eq!(font.glyphs("\u{10ffff}"), [0]);
    }
}
