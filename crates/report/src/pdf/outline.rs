//! Converts SVG paths to PDF operators; supports only the commands that drawings use.

use pdf_writer::Content;

/// Distance of a Bezier control point from the end of a quarter circle of radius 1 (Goldapp, Approximation of circular arcs by
/// cubic polynomials, CAGD 1991: 4/3 tan(pi/8)).
const QUARTER: f64 = 0.552_284_749_830_793_6;

pub(crate) fn trace(path: &str, content: &mut Content) -> Result<(), String> {
    let mut rest = Tokens(path);
    let (mut x, mut y, mut start, mut command) = (0.0, 0.0, (0.0, 0.0), 'M');
    loop {
        command = match rest.command() {
            Some(letter) => letter,
            None if rest.is_empty() => return Ok(()),
            // Numbers without a command repeat the last one; after a moveto they are lines.
            None if command == 'M' => 'L',
            None => command,
        };
        match command {
            'M' => {
                (x, y) = rest.pair()?;
                start = (x, y);
                content.move_to(x as f32, y as f32);
                continue;
            }
            'z' => {
                content.close_path();
                (x, y) = start;
                continue;
            }
            'a' => {
                let (dx, dy) = rest.half_circle()?;
                half_circle(content, (x, y), dx);
                (x, y) = (x + dx, y + dy);
                continue;
            }
            'L' => (x, y) = rest.pair()?,
            'H' => x = rest.number()?,
            'V' => y = rest.number()?,
            'h' => x += rest.number()?,
            'v' => y += rest.number()?,
            other => return Err(format!("the command '{other}' of the path {path}")),
        }
        content.line_to(x as f32, y as f32);
    }
}

/// Draws a half circle from a point to one at distance `dx`, below when going right and above when going left.
fn half_circle(content: &mut Content, (x, y): (f64, f64), dx: f64) {
    let radius = dx / 2.0;
    let (middle, far, control) = (x + radius, y + radius, radius * QUARTER);
    let mut curve = |x1: f64, y1: f64, x2: f64, y2: f64, x3: f64, y3: f64| {
        content.cubic_to(x1 as f32, y1 as f32, x2 as f32, y2 as f32, x3 as f32, y3 as f32);
    };
    curve(x, y + control, middle - control, far, middle, far);
    curve(middle + control, far, x + dx, y + control, x + dx, y);
}

struct Tokens<'a>(&'a str);

impl Tokens<'_> {
    fn skip(&mut self) {
        self.0 = self.0.trim_start_matches([' ', ',']);
    }

    fn is_empty(&mut self) -> bool {
        self.skip();
        self.0.is_empty()
    }

    fn command(&mut self) -> Option<char> {
        self.skip();
        let letter = self.0.chars().next().filter(char::is_ascii_alphabetic)?;
        self.0 = &self.0[1..];
        Some(letter)
    }

    fn number(&mut self) -> Result<f64, String> {
        self.skip();
        let continues =
            |(at, letter): (usize, char)| letter.is_ascii_digit() || letter == '.' || (at == 0 && letter == '-');
        let length = self.0.char_indices().take_while(|one| continues(*one)).count();
        let (number, rest) = self.0.split_at(length);
        self.0 = rest;
        number.parse().map_err(|_| format!("a number was expected in a path before '{rest}'"))
    }

    fn pair(&mut self) -> Result<(f64, f64), String> {
        Ok((self.number()?, self.number()?))
    }

    fn half_circle(&mut self) -> Result<(f64, f64), String> {
        let (radii, [_, _, sweep]) = (self.pair()?, [self.number()?, self.number()?, self.number()?]);
        let (dx, dy) = self.pair()?;
        // Radius and diameter are rounded separately.
        match dy == 0.0 && sweep == 0.0 && (dx.abs() - 2.0 * radii.0).abs() <= 0.2 && radii.0 == radii.1 {
            true => Ok((dx, dy)),
            false => Err("an arc of a path that is not a half circle".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operators(path: &str) -> Result<String, String> {
        let mut content = Content::new();
        trace(path, &mut content)?;
        Ok(String::from_utf8_lossy(&content.finish()).trim().replace('\n', "; "))
    }

    #[test]
    fn lines_are_absolute_and_relative() {
        assert_eq!(operators("M1 2h3v-1H0V5z").unwrap(), "1 2 m; 4 2 l; 4 1 l; 0 1 l; 0 5 l; h");
        assert_eq!(operators("M1 2L3 4 5 6M-1-2L0.5 0").unwrap(), "1 2 m; 3 4 l; 5 6 l; -1 -2 m; 0.5 0 l");
    }

    #[test]
    fn two_half_circles_are_a_circle() {
        let text = operators("M0 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0z").unwrap();
        let ends: Vec<&str> = text.split("; ").filter(|one| one.ends_with('c')).collect();
        assert!(ends[0].ends_with("2 2 c") && ends[1].ends_with("4 0 c"), "{text}");
        assert!(ends[2].ends_with("2 -2 c") && ends[3].ends_with("0 0 c"), "{text}");
    }

    #[test]
    fn unsupported_commands_are_refused() {
        for path in ["M1", "Q1 2 3 4", "M0 0a1 2 0 1 0 2 0", "M0 0Lx"] {
            assert!(operators(path).is_err(), "{path}");
        }
    }
}
