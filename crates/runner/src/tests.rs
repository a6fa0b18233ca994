//! Tests of the runner with a run that only counts: its record after kills, failures and changes of the machine.

use super::*;
use senesce_core::analysis::Better;
use senesce_core::interrupt::Interrupt;
use senesce_core::resume::{continue_with, same_command};
use senesce_core::{Progress, Record, RunDirectory};
use serde::Deserialize;
use std::path::Path;
use std::sync::Mutex;

/// Steps that the run asks for at a time.
const BATCH: usize = 3;

/// Measures the number of each of its steps, twice.
struct Count;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct UpTo {
    steps: u32,
    /// If this file exists, the run cannot end.
    stuck: std::path::PathBuf,
}

impl Run for Count {
    const KIND: &'static str = "count";
    type Spec = UpTo;
    type Event = NoEvent;
    type Step = u32;

    fn steps(spec: &UpTo, _seed: Seed) -> Result<Vec<Planned<u32>>, Failure> {
        Ok((0..spec.steps).map(|step| Planned::new(step, "count", "-")).collect())
    }

    fn next(spec: &UpTo, recorded: &Recorded<Self>) -> Result<Vec<Planned<u32>>, Failure> {
        let steps = Self::steps(spec, recorded.seed)?.into_iter();
        Ok(steps.filter(|planned| !recorded.is_done(&planned.step)).take(BATCH).collect())
    }

    fn begin(spec: &UpTo, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        std::fs::copy(context.path().join("env.json"), spec.stuck.with_file_name("env.json")).unwrap();
        Ok(Self)
    }

    fn step(&mut self, _spec: &UpTo, step: &u32, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        context.caveat("counted aloud: Permission denied\nhint: root may be needed");
        for _ in 0..2 {
            context.measure(Measurement::new("number", "", Better::Neither, f64::from(*step))?);
        }
        Ok(())
    }

    fn end(self, spec: &UpTo, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let lines = |recorded: &Recorded<Self>| recorded.lines().map(|(line, _)| line).collect::<Vec<_>>();
        let read = Recorded::of(&Record::open(context.path())?)?;
        assert_eq!(lines(context.recorded()), lines(&read), "a running run knows the lines of its events");
        match spec.stuck.exists() {
            true => Err(Failure::new(ExitCode::RunFailed, "it is stuck")),
            false => Ok(()),
        }
    }

    fn analyse(_spec: &UpTo, _recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(Analysis { result: serde_json::json!({}), ..Analysis::default() })
    }
}

fn spec(directory: &Path) -> UpTo {
    UpTo { steps: 3, stuck: directory.join("stuck") }
}

fn play(directory: &Path) -> Result<Outcome, Failure> {
    conduct::<Count>(&spec(directory), Seed(1), &Conduct::quietly(&directory.join("run")))
}

fn numbers(run: &Path) -> Vec<f64> {
    Recorded::<Count>::of(&Record::open(run).unwrap()).unwrap().measurements().map(|one| one.value.get()).collect()
}

#[test]
fn killed_run_measures_every_step_once() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    play(directory.path()).unwrap();
    let all = numbers(&run);
    assert_eq!(all, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
    let whole = std::fs::read_to_string(run.join("events.jsonl")).unwrap();
    // The last identity states that the environment was replaced: before it, the one of the beginning is valid.
    let replaced = whole.rfind("\"kind\":\"identity\"").unwrap();
    let environment = std::fs::read(directory.path().join("env.json")).unwrap();
    for cut in (0..replaced).step_by(7) {
        std::fs::remove_file(run.join("summary.json")).unwrap();
        std::fs::write(run.join("events.jsonl"), &whole[..cut]).unwrap();
        std::fs::write(run.join("env.json"), &environment).unwrap();
        assert_eq!(numbers(&run).len() % 2, 0, "half of a step after a kill at {cut}");
        play(directory.path()).unwrap();
        assert_eq!(numbers(&run), all, "killed at {cut}");
    }
}

#[test]
fn caveats_are_listed_once_without_hints() {
    let directory = tempfile::tempdir().unwrap();
    let caveats = play(directory.path()).unwrap().analysis.caveats;
    assert_eq!(
        caveats.iter().filter(|message| message.starts_with("counted")).collect::<Vec<_>>(),
        ["counted aloud: Permission denied"]
    );
}

#[test]
fn run_continued_elsewhere_gives_a_caveat() {
    let temporary = tempfile::tempdir().unwrap();
    let run = temporary.path().join("run");
    play(temporary.path()).unwrap();
    std::fs::remove_file(run.join("summary.json")).unwrap();
    let elsewhere = |kernel: &str| {
        let mut directory = RunDirectory::resume(&run).unwrap();
        let mut facts = senesce_core::Environment::default();
        facts.put("kernel.release", kernel);
        directory.add_environment(&facts).unwrap();
    };
    elsewhere("2.4");
    let caveats = play(temporary.path()).unwrap().analysis.caveats;
    assert!(caveats.iter().any(|message| message.contains("kernel.release was \"2.4\"")), "{caveats:?}");
}

#[test]
fn recovered_failure_outside_of_steps_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let stuck = directory.path().join("stuck");
    std::fs::write(&stuck, "").unwrap();
    let failed = play(directory.path()).unwrap_err();
    assert_eq!(failed.to_string(), "it is stuck");
    let kept = |analysis: &Analysis| analysis.caveats.iter().any(|message| message.contains("it is stuck"));
    let record = Record::open(&directory.path().join("run")).unwrap();
    assert!(kept(&analyse::<Count>(&record).unwrap()));
    std::fs::remove_file(&stuck).unwrap();
    assert!(!kept(&play(directory.path()).unwrap().analysis));
}

/// Keeps the number of each step, and the number of all.
#[derive(Default)]
struct StepNumbers(Mutex<Vec<(usize, usize)>>);

impl Progress for StepNumbers {
    fn step(&self, number: usize, count: usize, _text: &str, _seconds_left: f64) {
        self.0.lock().unwrap().push((number, count));
    }
}

#[test]
fn progress_continues_its_numbers_in_the_next_batch() {
    let directory = tempfile::tempdir().unwrap();
    let numbers = StepNumbers::default();
    let how = Conduct { progress: &numbers, ..Conduct::quietly(&directory.path().join("run")) };
    let outcome = conduct::<Count>(&UpTo { steps: 5, ..spec(directory.path()) }, Seed(1), &how).unwrap();
    assert!(outcome.reasons_shown);
    assert_eq!(*numbers.0.lock().unwrap(), [(1, 3), (2, 3), (3, 3), (4, 5), (5, 5)]);
}

/// Interrupts during the step with this number, from 1.
struct EndedAt<'a>(usize, &'a Interrupt);

impl Progress for EndedAt<'_> {
    fn step(&self, number: usize, _count: usize, _text: &str, _seconds_left: f64) {
        if number == self.0 {
            self.1.request();
        }
    }
}

#[test]
fn only_run_with_a_finished_step_is_continued() {
    let directory = tempfile::tempdir().unwrap();
    let ended_after = |steps: usize| {
        let (interrupt, run) = (Interrupt::new(), directory.path().join(format!("run{steps}")));
        if steps == 0 {
            interrupt.request();
        }
        let progress = EndedAt(steps, &interrupt);
        let how = Conduct { progress: &progress, interrupt: &interrupt, ..Conduct::quietly(&run) };
        let outcome = conduct::<Count>(&spec(directory.path()), Seed(1), &how).unwrap();
        assert_eq!(outcome.state, State::Interrupted);
        let words = outcome.interrupted_words();
        assert!(words.ends_with(&format!("\nhint: {}", continue_with(&same_command(None)))), "{words}");
        outcome.starts_over
    };
    assert!(ended_after(0));
    assert!(!ended_after(1));
}

#[test]
fn command_that_continues_names_the_default_directory() {
    let directory = tempfile::tempdir().unwrap();
    let quiet = Conduct::quietly(directory.path());
    let how = Conduct { out: None, runs: directory.path().into(), ..quiet };
    let outcome = conduct::<Count>(&spec(directory.path()), Seed(1), &how).unwrap();
    assert_eq!(outcome.continued_by, same_command(Some(&outcome.path)));
    assert!(outcome.continued_by.contains(" --out "));
}

#[test]
fn complete_run_of_a_user_gives_root_no_result() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    play(directory.path()).unwrap();
    let files = std::fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path());
    let mut all = files.chain([run.clone()]);
    let is_root = senesce_core::environment::is_root();
    if !is_root || all.any(|path| std::os::unix::fs::lchown(path, Some(65534), None).is_err()) {
        return eprintln!("files cannot be given away here");
    }
    assert_eq!(play(directory.path()).unwrap_err().exit_code(), ExitCode::Refused);
}

#[test]
fn run_is_repeated_only_in_a_directory_without_a_complete_run() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let again = || {
        let how = Conduct { again: true, ..Conduct::quietly(&run) };
        conduct::<Count>(&spec(directory.path()), Seed(1), &how)
    };
    assert_eq!(again().unwrap().state, State::Done);
    let before = Record::open(&run).unwrap().events.len();
    assert_eq!(again().unwrap_err().exit_code(), ExitCode::Usage);
    assert_eq!(Record::open(&run).unwrap().events.len(), before);
    assert_eq!(play(directory.path()).unwrap().state, State::WasDone);
}

/// Measures before each step whether a sudden end would announce a start from the beginning.
struct Announced;

impl Run for Announced {
    const KIND: &'static str = "announced";
    type Spec = UpTo;
    type Event = NoEvent;
    type Step = u32;

    fn steps(spec: &UpTo, _seed: Seed) -> Result<Vec<Planned<u32>>, Failure> {
        Ok((0..spec.steps).map(|step| Planned::new(step, "announce", "-")).collect())
    }

    fn begin(_spec: &UpTo, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, _spec: &UpTo, _step: &u32, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let starts_over = context.last_words == Some(true);
        context.measure(Measurement::new("starts over", "", Better::Neither, f64::from(u8::from(starts_over)))?);
        Ok(())
    }

    fn analyse(_spec: &UpTo, _recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(Analysis::default())
    }
}

#[test]
fn sudden_end_after_a_finished_step_announces_no_start_from_the_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    conduct::<Announced>(&spec(directory.path()), Seed(1), &Conduct::quietly(&run)).unwrap();
    let recorded = Recorded::<Announced>::of(&Record::open(&run).unwrap()).unwrap();
    let values: Vec<f64> = recorded.measurements().map(|one| one.value.get()).collect();
    assert_eq!(values, [1.0, 0.0, 0.0]);
}

/// Has a step that no machine can do.
struct Lacking;

impl Run for Lacking {
    const KIND: &'static str = "lacking";
    const SPECIAL: Special<Self> =
        Special { step_needs: lacking, left_out: |_| Some("a drive".into()), ..Special::NONE };
    type Spec = ();
    type Event = NoEvent;
    type Step = u32;

    fn needs(_spec: &()) -> Needs {
        Needs::default().and_memory(Bytes(u64::MAX - 1))
    }

    fn steps(_spec: &(), _seed: Seed) -> Result<Vec<Planned<u32>>, Failure> {
        Ok((0..3).map(|step| Planned::new(step, "count", "-")).collect())
    }

    fn begin(_spec: &(), _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, _spec: &(), _step: &u32, _context: &mut Context<'_, Self>) -> Result<(), Failure> {
        Ok(())
    }

    fn analyse(_spec: &(), _recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(Analysis::default())
    }
}

fn lacking(_spec: &(), step: &u32) -> Option<(Needs, &'static str)> {
    (*step > 0).then(|| (Needs::default().and_program("mkfs.none", "none-progs"), "counted to 1"))
}

#[test]
fn plan_names_each_part_that_is_left_out_once() {
    let notes: Vec<String> = kind::left_out::<Lacking>(&(), Seed(1)).unwrap().into_iter().collect();
    assert_eq!((notes.len(), notes[0].as_str(), notes[1].as_str()), (3, "a drive", "counted to 1"));
    assert!(notes[2].contains("memory"), "{notes:?}");
}

/// Makes an image, prepares, and is refused, perhaps after work.
struct RefusedPlan;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Progressed {
    Prepared,
    Worked,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WithImage {
    image: std::path::PathBuf,
    works: bool,
}

impl Run for RefusedPlan {
    const KIND: &'static str = "refused";
    const SPECIAL: Special<Self> = Special { prepares: |event| matches!(event, Progressed::Prepared), ..Special::NONE };
    type Spec = WithImage;
    type Event = Progressed;
    type Step = ();

    fn steps(_spec: &WithImage, _seed: Seed) -> Result<Vec<Planned<()>>, Failure> {
        Ok(vec![Planned::new((), "refuse", "-")])
    }

    fn begin(spec: &WithImage, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        context.may_erase(Some(&spec.image), |_, _| true)?;
        Ok(Self)
    }

    fn step(&mut self, spec: &WithImage, _step: &(), context: &mut Context<'_, Self>) -> Result<(), Failure> {
        context.record_now(Progressed::Prepared)?;
        if spec.works {
            context.record_now(Progressed::Worked)?;
        }
        Err(Failure::usage("the image is too small for the plan"))
    }

    fn analyse(_spec: &WithImage, _recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(Analysis::default())
    }
}

#[test]
fn plan_refused_before_its_work_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let [run, new, old] = ["run", "new", "old"].map(|name| directory.path().join(name));
    let refused = |image: &Path, works| {
        let spec = WithImage { image: image.into(), works };
        let failure = conduct::<RefusedPlan>(&spec, Seed(1), &Conduct::quietly(&run)).unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::Usage);
    };
    std::fs::write(&old, "of the user").unwrap();
    for image in [&new, &old] {
        refused(image, false);
        assert!(!run.exists());
    }
    assert!(!new.exists() && old.exists(), "only its own image is removed");
    refused(&new, true);
    assert_eq!(Record::open(&run).unwrap().events.len(), 4, "the image, both events and the failure");
    assert!(new.exists());
}

#[test]
fn refusal_keeps_an_image_of_an_earlier_process() {
    let directory = tempfile::tempdir().unwrap();
    let [run, image] = ["run", "image"].map(|name| directory.path().join(name));
    let spec = WithImage { image: image.clone(), works: false };
    let plan = crate::new_plan::<RefusedPlan>(&spec, Seed(1)).unwrap();
    let mut record = RunDirectory::open(&run, &plan, &senesce_core::Environment::default()).unwrap();
    std::fs::write(&image, "").unwrap();
    let known = crate::context::identity(&image).unwrap();
    record.append_named(&[crate::recorded::Common::OwnImage(known)]).unwrap();
    drop(record);
    // The process was killed; then the user wrote into the same file.
    std::fs::write(&image, "of the user").unwrap();
    conduct::<RefusedPlan>(&spec, Seed(1), &Conduct::quietly(&run)).unwrap_err();
    assert_eq!(std::fs::read(&image).unwrap(), b"of the user");
}
