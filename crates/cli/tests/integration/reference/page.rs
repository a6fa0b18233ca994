//! A page of tables, one for each type in a file or record.

use super::attributes::{Serde, documentation};
use super::defaults;
use super::types::{ItemSource, Source, Types, arguments, last_name};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::rc::Rc;
use syn::{Field, Fields, Item, Type, Variant};

/// A growing page; a type of several sections is described once.
pub struct Page {
    out: String,
    /// Whether users write the described file, so that defaults matter.
    is_written: bool,
    stated: BTreeSet<(String, String)>,
}

impl Page {
    pub fn new(title: &str, about: &str, is_written: bool) -> Self {
        let made = "Made from the types in the sources; a test keeps it so.";
        Self { out: format!("# {title}\n\n{about} {made}\n"), is_written, stated: BTreeSet::new() }
    }

    pub fn text(&self) -> String {
        self.out.clone()
    }

    pub fn section(&mut self, types: &Types, title: &str, purpose: &str, root: &ItemSource) {
        self.announce(types, title, purpose, root, None);
    }

    /// A section for the events of a kind of run, which a record distinguishes by `kind`.
    pub fn events(&mut self, types: &Types, title: &str, root: &ItemSource) {
        self.announce(types, title, "", root, Some("kind"));
    }

    fn announce(&mut self, types: &Types, title: &str, purpose: &str, root: &ItemSource, tag: Option<&str>) {
        let _ = write!(self.out, "\n## {title}\n");
        if !purpose.is_empty() {
            let _ = write!(self.out, "\n{purpose}\n");
        }
        let mut waiting = vec![root];
        let mut is_first = true;
        while !waiting.is_empty() {
            let found = waiting.remove(0);
            let name = name_of(&found.item);
            if self.stated.insert((format!("{:p}", Rc::as_ptr(&found.source)), name.clone())) {
                if !is_first {
                    let _ = write!(self.out, "\n### {name}\n\n{}\n", documentation(attributes(&found.item)));
                }
                waiting.extend(self.body(types, found, tag.filter(|_| is_first)));
            } else if is_first {
                let _ = write!(self.out, "\nAs `{name}` above.\n");
            }
            is_first = false;
        }
    }

    /// The table of a type; returns the types that its rows name.
    fn body<'a>(&mut self, types: &'a Types, found: &'a ItemSource, tag: Option<&str>) -> Vec<&'a ItemSource> {
        let mut named = Vec::new();
        let mut container = Container::of(&found.item);
        container.serde.tag = container.serde.tag.or(tag.map(String::from));
        match &found.item {
            Item::Struct(one) => {
                let rows = rows(types, &found.source, &one.fields, &container, &mut named);
                self.table("key", &rows);
            }
            Item::Enum(one) => {
                let rows: Vec<_> = one
                    .variants
                    .iter()
                    .filter_map(|variant| choice(types, &found.source, variant, &container, &mut named))
                    .collect();
                self.table(
                    if container.serde.tag.is_some() { "value of the tag, and its keys" } else { "value" },
                    &rows,
                );
            }
            _ => {}
        }
        named
    }

    fn table(&mut self, head: &str, rows: &[Row]) {
        if rows.is_empty() {
            return;
        }
        // Words have no default, and files not written by hand need none.
        let has_missing = self.is_written && rows.iter().any(|row| !row.missing.is_empty());
        let (title, line) = if has_missing { (" when missing |", "---|") } else { ("", "") };
        let _ = write!(self.out, "\n| {head} | type |{title} meaning |\n|---|---|{line}---|\n");
        for row in rows {
            let missing = if has_missing { format!(" {} |", row.missing) } else { String::new() };
            let _ = writeln!(self.out, "| {} | {} |{missing} {} |", row.name, row.of, row.meaning.replace('|', "\\|"));
        }
    }
}

struct Container {
    name: String,
    serde: Serde,
}

impl Container {
    fn of(item: &Item) -> Self {
        Self { name: name_of(item), serde: Serde::of(attributes(item)) }
    }
}

struct Row {
    name: String,
    of: String,
    missing: String,
    meaning: String,
}

/// Rows for the fields; flattened ones are inlined.
fn rows<'a>(
    types: &'a Types,
    source: &Source,
    fields: &Fields,
    container: &Container,
    named: &mut Vec<&'a ItemSource>,
) -> Vec<Row> {
    let mut out = Vec::new();
    for field in fields {
        let serde = Serde::of(&field.attrs);
        let inner = last_name(&field.ty).and_then(|name| types.get(source, &name));
        match inner.map(|found| (found, &found.item)) {
            _ if serde.is_skipped => {}
            Some((found, Item::Struct(one))) if serde.is_flat => {
                out.extend(rows(types, &found.source, &one.fields, &Container::of(&found.item), named));
            }
            _ => out.push(row(types, source, field, &serde, container, named)),
        }
    }
    out
}

fn row<'a>(
    types: &'a Types,
    source: &Source,
    field: &Field,
    serde: &Serde,
    container: &Container,
    named: &mut Vec<&'a ItemSource>,
) -> Row {
    let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let missing = missing(types, source, field, serde, container);
    let name = serde.renamed(name.trim_start_matches("r#"), &container.serde);
    let name = if serde.is_flat { "(its keys)".into() } else { format!("`{name}`") };
    Row { name, of: description(types, source, &field.ty, named), missing, meaning: documentation(&field.attrs) }
}

fn missing(types: &Types, source: &Source, field: &Field, serde: &Serde, container: &Container) -> String {
    let is_optional = last_name(&field.ty).is_some_and(|of| of == "Option");
    let found = match (&serde.default, &container.serde.default) {
        (Some(Some(path)), _) => types.defaults.of_function(&source.package, path),
        (Some(None), _) => defaults::of_type(&field.ty).or_else(|| default_word(types, source, &field.ty)),
        (None, Some(_)) => {
            let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            types.defaults.of_field(&source.package, &container.name, &name)
        }
        (None, None) if is_optional => Some("nothing".into()),
        (None, None) => Some("must be given".into()),
    };
    found.unwrap_or_else(|| "its default".into())
}

fn default_word(types: &Types, source: &Source, of: &Type) -> Option<String> {
    let found = types.get(source, &last_name(of)?)?;
    let Item::Enum(one) = &found.item else { return None };
    let variant = one.variants.iter().find(|variant| variant.attrs.iter().any(|one| one.path().is_ident("default")))?;
    let name = Serde::of(&variant.attrs).renamed(&variant.ident.to_string(), &Serde::of(&one.attrs));
    Some(format!("`\"{name}\"`"))
}

fn choice<'a>(
    types: &'a Types,
    source: &Source,
    variant: &Variant,
    container: &Container,
    named: &mut Vec<&'a ItemSource>,
) -> Option<Row> {
    let serde = Serde::of(&variant.attrs);
    if serde.is_skipped {
        return None;
    }
    let name = format!("`{}`", serde.renamed(&variant.ident.to_string(), &container.serde));
    let of = match &variant.fields {
        Fields::Unit => "word".into(),
        Fields::Unnamed(one) => {
            let inner: Vec<_> = one.unnamed.iter().map(|field| description(types, source, &field.ty, named)).collect();
            inner.join(", ")
        }
        Fields::Named(_) => {
            let own = Serde { rename_all: None, ..container.serde.clone() };
            let own = Container { name: container.name.clone(), serde: own };
            let inner = rows(types, source, &variant.fields, &own, named);
            let parts: Vec<_> = inner
                .iter()
                .map(|row| match row.meaning.trim_end_matches('.') {
                    "" => format!("{}: {}", row.name, row.of),
                    meaning => format!("{}: {} ({meaning})", row.name, row.of),
                })
                .collect();
            parts.join("; ").replace('|', "\\|")
        }
    };
    let name = match (&container.serde.tag, container.serde.is_untagged) {
        (Some(tag), _) => format!("`{tag}` = {name}"),
        (None, true) => "(by its form)".into(),
        (None, false) => name,
    };
    Some(Row { name, of, missing: String::new(), meaning: documentation(&variant.attrs) })
}

/// A type in words; workspace types with a table are added to `named`.
fn description<'a>(types: &'a Types, source: &Source, of: &Type, named: &mut Vec<&'a ItemSource>) -> String {
    let inner = |named: &mut Vec<&'a ItemSource>| {
        arguments(of).into_iter().map(|one| description(types, source, one, named)).collect::<Vec<_>>()
    };
    if let Type::Tuple(tuple) = of {
        let parts: Vec<_> = tuple.elems.iter().map(|one| description(types, source, one, named)).collect();
        return format!("list of {}", parts.join(" and "));
    }
    if let Type::Array(array) = of {
        return format!("list of {}", description(types, source, &array.elem, named));
    }
    let Some(name) = last_name(of) else { return "value".into() };
    match name.as_str() {
        "Option" | "Box" | "Arc" | "Cow" => inner(named).pop().unwrap_or_default(),
        "Vec" | "BTreeSet" | "HashSet" | "VecDeque" => format!("list of {}", inner(named).join(", ")),
        "BTreeMap" | "HashMap" | "IndexMap" => format!("table of {}", inner(named).pop().unwrap_or_default()),
        "String" | "PathBuf" | "str" | "Path" | "OsString" => "text".into(),
        // Of serde_json.
        "Value" => "JSON".into(),
        "bool" => "true or false".into(),
        "Bytes" => "bytes, such as `\"64k\"`".into(),
        "Duration" => "time, such as `\"90s\"`".into(),
        "f64" | "f32" => "number".into(),
        "u8" | "u16" | "u32" | "u64" | "usize" | "NonZeroU32" | "NonZeroU64" | "NonZeroUsize" => "whole number".into(),
        "i8" | "i16" | "i32" | "i64" | "u128" => "whole number".into(),
        _ => other(types, source, &name, named),
    }
}

fn other<'a>(types: &'a Types, source: &Source, name: &str, named: &mut Vec<&'a ItemSource>) -> String {
    let Some(found) = types.get(source, name) else { return format!("`{name}`") };
    let serde = Serde::of(attributes(&found.item));
    if let Some(from) = serde.from.as_deref().filter(|_| !types.is_by_hand(found, name)) {
        let from: Type = syn::parse_str(from).unwrap();
        let about = documentation(attributes(&found.item));
        return match last_name(&from).as_deref() {
            Some("String") => format!("text: {}", about.trim_end_matches('.')),
            _ => description(types, &found.source, &from, named),
        };
    }
    match &found.item {
        Item::Type(alias) => description(types, &found.source, &alias.ty, named),
        Item::Struct(one) if !types.is_by_hand(found, name) => match &one.fields {
            Fields::Named(_) => link(name, found, named),
            Fields::Unnamed(inner) if inner.unnamed.len() == 1 => {
                description(types, &found.source, &inner.unnamed[0].ty, named)
            }
            _ => format!("`{name}`"),
        },
        Item::Enum(_) if !types.is_by_hand(found, name) => link(name, found, named),
        item => format!("text or number: {}", documentation(attributes(item)).trim_end_matches('.')),
    }
}

fn link<'a>(name: &str, found: &'a ItemSource, named: &mut Vec<&'a ItemSource>) -> String {
    named.push(found);
    format!("`{name}`")
}

fn attributes(item: &Item) -> &[syn::Attribute] {
    match item {
        Item::Struct(one) => &one.attrs,
        Item::Enum(one) => &one.attrs,
        Item::Type(one) => &one.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> String {
    match item {
        Item::Struct(one) => one.ident.to_string(),
        Item::Enum(one) => one.ident.to_string(),
        Item::Type(one) => one.ident.to_string(),
        _ => String::new(),
    }
}
