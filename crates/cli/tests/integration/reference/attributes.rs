//! Reads serde's attributes and the doc comments.

use syn::{Attribute, Expr, ExprLit, Lit, Meta, Token, punctuated::Punctuated};

#[derive(Default, Debug, Clone)]
pub struct Serde {
    pub rename: Option<String>,
    pub rename_all: Option<String>,
    pub tag: Option<String>,
    pub content: Option<String>,
    pub from: Option<String>,
    /// `Some(None)`: the type's own default.
    pub default: Option<Option<String>>,
    pub is_untagged: bool,
    pub is_flat: bool,
    pub is_skipped: bool,
    pub is_transparent: bool,
}

impl Serde {
    pub fn of(attributes: &[Attribute]) -> Self {
        let mut found = Self::default();
        for attribute in attributes.iter().filter(|one| one.path().is_ident("serde")) {
            let parts = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            parts.unwrap_or_default().iter().for_each(|part| found.take(part));
        }
        found
    }

    fn take(&mut self, part: &Meta) {
        let name = part.path().get_ident().map(ToString::to_string).unwrap_or_default();
        let value = match part {
            Meta::NameValue(pair) => text(&pair.value),
            _ => None,
        };
        match name.as_str() {
            "rename" => self.rename = value,
            "rename_all" => self.rename_all = value,
            "tag" => self.tag = value,
            "content" => self.content = value,
            "from" | "try_from" => self.from = value,
            "default" => self.default = Some(value),
            "untagged" => self.is_untagged = true,
            "flatten" => self.is_flat = true,
            "skip" | "skip_deserializing" => self.is_skipped = true,
            "transparent" => self.is_transparent = true,
            _ => {}
        }
    }

    /// The name in the file of the Rust field `name`.
    pub fn renamed(&self, name: &str, container: &Self) -> String {
        let by_rule = || match container.rename_all.as_deref() {
            Some("kebab-case") => kebab(name),
            Some("snake_case") => kebab(name).replace('-', "_"),
            Some("lowercase") => name.to_lowercase(),
            Some("UPPERCASE") => name.to_uppercase(),
            _ => name.to_owned(),
        };
        self.rename.clone().unwrap_or_else(by_rule)
    }
}

fn kebab(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.extend(letter.to_lowercase());
    }
    out.replace('_', "-")
}

fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// The first paragraph of the documentation, in one line, without the targets of links.
pub fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter(|one| one.path().is_ident("doc")).filter_map(|one| match &one.meta {
        Meta::NameValue(pair) => text(&pair.value),
        _ => None,
    });
    let paragraph: Vec<String> = lines.map(|line| line.trim().to_owned()).take_while(|line| !line.is_empty()).collect();
    without_links(&paragraph.join(" "))
}

/// `[`Type`]` becomes `Type` in code quotes, and `[words](path)` the words.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('[') {
        out.push_str(&rest[..start]);
        let Some(end) = rest[start..].find(']').map(|end| start + end) else { break };
        let (label, after) = (&rest[start + 1..end], &rest[end + 1..]);
        let target = after.strip_prefix('(').and_then(|inside| inside.split_once(')'));
        let is_link = target.is_some() || label.starts_with('`');
        match is_link {
            true => out.push_str(label),
            false => out.push_str(&rest[start..=end]),
        }
        rest = target.map_or(after, |(_, behind)| behind);
    }
    out.push_str(rest);
    out.replace("crate::", "").replace("Self::", "")
}
