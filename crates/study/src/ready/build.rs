//! `build`: unpacks a source tree, compiles it file by file, links it and runs the program.
//!
//! The tree is generated from a fixed seed, so that every run builds the same. The program prints a known number, which
//! shows lost or changed files.

use super::{ReadySetup, failed, wrong};
use rand::Rng;
use senesce_core::analysis::Better;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Failure, Measurement};
use std::fs;
use std::time::Instant;

/// Files with code at scale 1, headers of each, and files of a directory.
const UNITS: f64 = 80.0;
const HEADERS: u32 = 12;
const IN_A_DIRECTORY: u32 = 20;

const STEPS: usize = 30;
const COMMENT_LINES: usize = 40;

struct Tree {
    files: Vec<(String, String)>,
    units: u32,
    expected: u32,
}

pub(super) fn run(place: &ReadySetup<'_>) -> Result<Vec<Measurement>, Failure> {
    let tree = draw(place.count(UNITS, 2));
    place.progress.phase("build", u64::from(tree.units), "files");
    let begun = Instant::now();
    unpack(place, &tree)?;
    let unpacked = begun.elapsed().as_secs_f64();
    for unit in 0..tree.units {
        place.check_interrupt()?;
        let source = path_of(unit, "c");
        let object = format!("{source}.o");
        place.program("cc", &["-O0", "-I", ".", "-c", "-o", &object, &source])?;
        place.progress.position(u64::from(unit), "");
    }
    link(place, &tree)?;
    let seconds = begun.elapsed().as_secs_f64();
    let printed = place.program("./program", &[])?;
    if printed.trim() != tree.expected.to_string() {
        let message = format!("the program that was built printed '{}' instead of {}", printed.trim(), tree.expected);
        return Err(wrong(message));
    }
    Ok(vec![
        Measurement::new("build time", "s", Better::Lower, seconds)?,
        Measurement::new("unpack time", "s", Better::Lower, unpacked)?,
    ])
}

fn link(place: &ReadySetup<'_>, tree: &Tree) -> Result<(), Failure> {
    place.program("cc", &["-O0", "-I", ".", "-c", "-o", "main.o", "main.c"])?;
    // Object names go into a file, as in build systems: command lines have a limit.
    let objects: String = (0..tree.units).map(|unit| format!("{}.o\n", path_of(unit, "c"))).collect();
    let list = place.folder.join("objects");
    fs::write(&list, objects).map_err(failed("write", &list))?;
    place.program("cc", &["-o", "program", "main.o", "@objects"]).map(drop)
}

fn unpack(place: &ReadySetup<'_>, tree: &Tree) -> Result<(), Failure> {
    for (name, text) in &tree.files {
        let path = place.folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed("make directory", parent))?;
        }
        fs::write(&path, text).map_err(failed("write", &path))?;
    }
    Ok(())
}

fn path_of(unit: u32, ending: &str) -> String {
    format!("part{:03}/unit{unit:05}.{ending}", unit / IN_A_DIRECTORY)
}

fn draw(units: u32) -> Tree {
    let mut rng = DEFAULT_SEED.stream("study/ready/build");
    let (mut files, mut expected) = (Vec::new(), 0u32);
    let mut main = String::from("#include <stdio.h>\n");
    for unit in 0..units {
        let mut code = format!("#include \"{}\"\n", path_of(unit, "h"));
        files.push((path_of(unit, "h"), format!("unsigned unit{unit}(unsigned x);\n")));
        for header in 0..HEADERS {
            let name = format!("part{:03}/unit{unit:05}-{header}.h", unit / IN_A_DIRECTORY);
            let factor = rng.next_u32() | 1;
            let comment = format!("/* {:016x} {:016x} */\n", rng.next_u64(), rng.next_u64()).repeat(COMMENT_LINES);
            files.push((name.clone(), format!("{comment}#define FACTOR{header} {factor}u\n")));
            code += &format!("#include \"{name}\"\n");
            expected = expected.wrapping_add(factor);
        }
        code += &format!("unsigned unit{unit}(unsigned x)\n{{\n");
        let mut value = 0u32;
        for _ in 0..STEPS {
            let (times, plus) = (rng.next_u32() | 1, rng.next_u32());
            code += &format!("    x = x * {times}u + {plus}u;\n");
            value = value.wrapping_mul(times).wrapping_add(plus);
        }
        let sum: Vec<String> = (0..HEADERS).map(|header| format!("FACTOR{header}")).collect();
        code += &format!("    return x + {};\n}}\n", sum.join(" + "));
        expected = expected.wrapping_add(value);
        files.push((path_of(unit, "c"), code));
        main += &format!("unsigned unit{unit}(unsigned x);\n");
    }
    main += "int main(void)\n{\n    unsigned sum = 0;\n";
    (0..units).for_each(|unit| main += &format!("    sum += unit{unit}(0);\n"));
    main += "    printf(\"%u\\n\", sum);\n    return 0;\n}\n";
    files.push(("main.c".into(), main));
    Tree { files, units, expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Silent;
    use senesce_core::interrupt::Interrupt;

    #[test]
    fn generated_tree_is_reproducible() {
        let (one, other) = (draw(5), draw(5));
        assert_eq!((&one.files, one.expected), (&other.files, other.expected));
        assert_eq!(one.files.len(), 5 * (2 + HEADERS as usize) + 1);
    }

    #[test]
    #[ignore = "needs cc"]
    fn generated_tree_compiles_and_prints_known_number() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new();
        let place = ReadySetup { folder: directory.path(), scale: 0.05, progress: &Silent, interrupt: &interrupt };
        let found = run(&place).unwrap();
        assert!(found[0].value.get() > found[1].value.get(), "{found:?}");
    }
}
