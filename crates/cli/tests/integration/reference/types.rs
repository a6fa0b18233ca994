//! All types of the workspace, read from the sources.

use super::defaults::Defaults;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use syn::{Attribute, GenericArgument, ImplItem, Item, PathArguments, Type, TypePath, UseTree};

/// A source file: its location, and the modules of its names.
#[derive(Debug)]
pub struct Source {
    pub package: String,
    path: PathBuf,
    uses: BTreeMap<String, Vec<String>>,
}

pub struct ItemSource {
    pub source: Rc<Source>,
    pub item: Item,
}

/// `impl Run for ..` or `impl ImportedRun for ..`: the word in `plan.toml` (the implementing type's name if there are several),
/// and its types.
pub struct RunTypes {
    pub kind: String,
    pub source: Rc<Source>,
    pub spec: Option<String>,
    pub event: Option<String>,
}

#[derive(Default)]
pub struct Types {
    by_name: BTreeMap<String, Vec<ItemSource>>,
    runs: Vec<RunTypes>,
    by_hand: BTreeSet<(String, String)>,
    pub defaults: Defaults,
}

impl Types {
    pub fn read(root: &Path) -> Self {
        let mut types = Self::default();
        for package in sorted(&root.join("crates")) {
            let name = package.file_name().unwrap().to_string_lossy().into_owned();
            types.folder(&name, &package.join("src"));
        }
        types.runs.sort_by(|a, b| a.kind.cmp(&b.kind));
        types
    }

    fn folder(&mut self, package: &str, folder: &Path) {
        for path in sorted(folder) {
            if path.is_dir() {
                self.folder(package, &path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let mut uses = BTreeMap::new();
                for item in &file.items {
                    if let Item::Use(one) = item {
                        note_uses(&one.tree, &mut Vec::new(), &mut uses);
                    }
                }
                self.items(&Rc::new(Source { package: package.to_owned(), path, uses }), file.items);
            }
        }
    }

    fn items(&mut self, source: &Rc<Source>, items: Vec<Item>) {
        for item in items {
            self.defaults.note(&source.package, &item);
            let name = match &item {
                Item::Struct(one) => one.ident.to_string(),
                Item::Enum(one) => one.ident.to_string(),
                Item::Type(one) => one.ident.to_string(),
                Item::Mod(module) if !is_test(&module.attrs) => {
                    self.items(source, module.content.clone().map(|(_, inner)| inner).unwrap_or_default());
                    continue;
                }
                Item::Impl(block) => {
                    self.implementation(source, block);
                    continue;
                }
                _ => continue,
            };
            self.by_name.entry(name).or_default().push(ItemSource { source: source.clone(), item });
        }
    }

    fn implementation(&mut self, source: &Rc<Source>, block: &syn::ItemImpl) {
        let Some((path, _)) = &block.trait_ else { return };
        let (Some(of), Some(target)) =
            (path.segments.last().map(|last| last.ident.to_string()), last_name(&block.self_ty))
        else {
            return;
        };
        match of.as_str() {
            "Default" => self.defaults.note_implementation(&source.package, block),
            // A blanket implementation belongs to no type.
            "Run" if block.generics.type_params().any(|one| one.ident == target) => {}
            "Run" | "ImportedRun" => self.runs.push(run_types(source, block, target)),
            "Deserialize" | "Serialize" => drop(self.by_hand.insert((source.package.clone(), target))),
            _ => {}
        }
    }

    pub fn runs(&self) -> &[RunTypes] {
        &self.runs
    }

    /// Whether the type has a hand-written serialization, so that its fields do not describe it.
    pub fn is_by_hand(&self, found: &ItemSource, name: &str) -> bool {
        self.by_hand.contains(&(found.source.package.clone(), name.to_owned()))
    }

    /// The type that `name` means in a file: its own, an imported one, one of its crate, or the only one with that name.
    pub fn get(&self, source: &Source, name: &str) -> Option<&ItemSource> {
        let all = self.by_name.get(name)?;
        let used = source.uses.get(name);
        let nearness = |one: &ItemSource| {
            let is_used = used.map_or(0, |path| path.iter().filter(|part| one.source.has_part(part)).count());
            let shared = one.source.path.iter().zip(source.path.iter()).take_while(|(a, b)| a == b).count();
            (one.source.path == source.path, is_used, one.source.package == source.package, shared)
        };
        let best = all.iter().max_by_key(|one| nearness(one))?;
        (all.len() == 1 || used.is_some() || best.source.package == source.package).then_some(best)
    }

    pub fn find(&self, package: &str, name: &str) -> &ItemSource {
        let all = self.by_name.get(name).into_iter().flatten();
        let mut of_package = all.filter(|one| one.source.package == package);
        of_package.next().unwrap_or_else(|| panic!("crate {package} has no type {name}"))
    }
}

impl Source {
    /// Whether a component of a path (`senesce_core`, `event`) names the crate or a module of this file.
    fn has_part(&self, part: &str) -> bool {
        let crate_name = part.strip_prefix("senesce_").unwrap_or(part).replace('_', "-");
        crate_name == self.package || self.path.with_extension("").iter().any(|folder| folder == part)
    }
}

fn run_types(source: &Rc<Source>, block: &syn::ItemImpl, target: String) -> RunTypes {
    let named = |wanted: &str| {
        block.items.iter().find_map(|item| match item {
            // `S::Spec` is generic: each concrete type has its own.
            ImplItem::Type(one) if one.ident == wanted && segments(&one.ty) == 1 => last_name(&one.ty),
            _ => None,
        })
    };
    let kind = block.items.iter().find_map(|item| match item {
        ImplItem::Const(one) if one.ident == "KIND" => match &one.expr {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    RunTypes { kind: kind.unwrap_or(target), source: source.clone(), spec: named("Spec"), event: named("Event") }
}

fn note_uses(tree: &UseTree, before: &mut Vec<String>, uses: &mut BTreeMap<String, Vec<String>>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            note_uses(&path.tree, before, uses);
            before.pop();
        }
        UseTree::Name(name) => drop(uses.insert(name.ident.to_string(), before.clone())),
        UseTree::Group(group) => group.items.iter().for_each(|one| note_uses(one, before, uses)),
        UseTree::Rename(_) | UseTree::Glob(_) => {}
    }
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|one| one.path().is_ident("cfg") && one.parse_args::<syn::Ident>().is_ok_and(|word| word == "test"))
}

fn segments(of: &Type) -> usize {
    match of {
        Type::Path(TypePath { path, .. }) => path.segments.len(),
        _ => 0,
    }
}

pub fn last_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(TypePath { path, .. }) => path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Reference(reference) => last_name(&reference.elem),
        _ => None,
    }
}

pub fn arguments(of: &Type) -> Vec<&Type> {
    let Type::Path(TypePath { path, .. }) = of else { return Vec::new() };
    let Some(PathArguments::AngleBracketed(inner)) = path.segments.last().map(|segment| &segment.arguments) else {
        return Vec::new();
    };
    fn of_type(argument: &GenericArgument) -> Option<&Type> {
        match argument {
            GenericArgument::Type(inner) => Some(inner),
            _ => None,
        }
    }
    inner.args.iter().filter_map(of_type).collect()
}
