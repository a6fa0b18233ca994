//! Reads the default of a missing key from the sources.

use super::types::last_name;
use std::collections::BTreeMap;
use syn::{Expr, ExprLit, ImplItem, Item, ItemImpl, Lit, Stmt, Type, UnOp};

/// Functions that return defaults, and the fields of `impl Default`.
#[derive(Default)]
pub struct Defaults {
    functions: BTreeMap<(String, String), Expr>,
    fields: BTreeMap<(String, String, String), Expr>,
}

impl Defaults {
    /// Registers a function whose body is one expression.
    pub fn note(&mut self, package: &str, item: &Item) {
        if let Item::Fn(one) = item
            && one.sig.inputs.is_empty()
            && let [Stmt::Expr(expression, None)] = &one.block.stmts[..]
        {
            self.functions.insert((package.into(), one.sig.ident.to_string()), expression.clone());
        }
    }

    /// Registers the fields of an `impl Default` that is one expression.
    pub fn note_implementation(&mut self, package: &str, block: &ItemImpl) {
        let Some(name) = last_name(&block.self_ty) else { return };
        let bodies = block.items.iter().filter_map(|item| match item {
            ImplItem::Fn(one) => one.block.stmts.last(),
            _ => None,
        });
        for body in bodies {
            let Stmt::Expr(Expr::Struct(made), None) = body else { continue };
            for field in &made.fields {
                if let syn::Member::Named(of) = &field.member {
                    self.fields.insert((package.into(), name.clone(), of.to_string()), field.expr.clone());
                }
            }
        }
    }

    /// The result of the function in `#[serde(default = "path")]`.
    pub fn of_function(&self, package: &str, path: &str) -> Option<String> {
        let name = path.rsplit("::").next().unwrap_or(path);
        value(self.functions.get(&(package.to_string(), name.to_string()))?)
    }

    /// The value of a field in a type's `impl Default`.
    pub fn of_field(&self, package: &str, name: &str, field: &str) -> Option<String> {
        value(self.fields.get(&(package.to_string(), name.to_string(), field.to_string()))?)
    }
}

/// The `Default` of a standard library type.
pub fn of_type(of: &Type) -> Option<String> {
    Some(match last_name(of)?.as_str() {
        "bool" => "`false`".into(),
        "String" | "PathBuf" | "Vec" | "BTreeMap" | "BTreeSet" | "HashMap" | "IndexMap" => "empty".into(),
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" | "f64" | "Bytes" => "`0`".into(),
        "Option" => "nothing".into(),
        _ => return None,
    })
}

/// A literal, a size or a word in the notation of a file; `None` if only the program can compute it.
fn value(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(ExprLit { lit, .. }) => Some(match lit {
            Lit::Str(text) if text.value().is_empty() => "empty".into(),
            Lit::Str(text) => format!("`\"{}\"`", text.value()),
            Lit::Bool(one) => format!("`{}`", one.value),
            Lit::Int(one) => format!("`{}`", one.base10_digits()),
            Lit::Float(one) => format!("`{}`", one.base10_digits()),
            _ => return None,
        }),
        Expr::Unary(one) if matches!(one.op, UnOp::Neg(_)) => Some(value(&one.expr)?.replacen('`', "`-", 1)),
        Expr::MethodCall(call) if ["into", "to_string", "to_owned"].contains(&call.method.to_string().as_str()) => {
            value(&call.receiver)
        }
        Expr::Call(call) => called(&call.func, call.args.first()),
        Expr::Macro(one) if one.mac.path.is_ident("vec") && one.mac.tokens.is_empty() => Some("empty".into()),
        Expr::Path(path) if path.path.is_ident("None") => Some("nothing".into()),
        _ => None,
    }
}

/// `Some(1)`, `Bytes::gib(2)`, `String::new()`.
fn called(function: &Expr, argument: Option<&Expr>) -> Option<String> {
    let Expr::Path(path) = function else { return None };
    let names: Vec<String> = path.path.segments.iter().map(|one| one.ident.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match (&names[..], argument) {
        (["Some"], Some(inner)) => value(inner),
        (["Bytes", unit @ ("kib" | "mib" | "gib")], Some(number)) => {
            Some(format!("`\"{}{}\"`", value(number)?.trim_matches('`'), &unit[..1]))
        }
        (["Vec" | "String" | "BTreeMap", "new"], None) => Some("empty".into()),
        _ => None,
    }
}
