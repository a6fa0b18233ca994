//! Recursive descent parser; one function per production.

mod cursor;

use super::attributes::{self, COMMANDS, Entity, UNSUPPORTED_COMMANDS};
use super::diagnostic::{Diagnostic, Source, Span, Spanned};
use super::lexer::{TextPart, Token, tokenize};
use super::syntax::*;
use senesce_core::parameter::suggest;

pub(crate) fn parse(source: &Source) -> Result<Vec<Command>, Diagnostic> {
    let tokens = tokenize(source)?;
    let mut parser = Parser { source, tokens, position: 0 };
    let mut commands = Vec::new();
    while parser.peek() != &Token::End {
        commands.push(parser.command()?);
    }
    Ok(commands)
}

struct Parser<'a> {
    source: &'a Source,
    tokens: Vec<Spanned<Token>>,
    position: usize,
}

type Parsed<T> = Result<T, Diagnostic>;

impl Parser<'_> {
    fn command(&mut self) -> Parsed<Command> {
        let word = self.word("a command")?;
        match word.value.as_str() {
            "set" => self.set(),
            "define" => self.define(),
            "create" => self.create(),
            "shutdown" => {
                self.word("'process' or 'fileset'")?;
                Ok(Command::Shutdown)
            }
            "run" => Ok(Command::Run(self.seconds())),
            "psrun" => self.periodic_run(),
            "sleep" => match self.seconds() {
                Some(time) => Ok(Command::Sleep(time)),
                None => self.expected("the seconds to sleep"),
            },
            "eventgen" => Ok(Command::EventGenerator(self.attributes(&attributes::EVENT_GENERATOR, word.span)?.0)),
            "echo" => Ok(Command::Echo(self.text()?)),
            "usage" => Ok(Command::Usage(self.text()?)),
            "system" => Ok(Command::System(self.text()?)),
            "stats" => self.stats(),
            "enable" => self.enable(),
            "debug" => match self.advance().value {
                Token::Integer(_) => Ok(Command::Informative("debug")),
                _ => self.expected("the debug level"),
            },
            "list" => {
                self.word("'fileset' or 'flowop'")?;
                Ok(Command::Informative("list"))
            }
            "version" => Ok(Command::Informative("version")),
            "quit" | "exit" => Ok(Command::Quit),
            other => self.unknown_command(other, word.span),
        }
    }

    fn unknown_command(&self, word: &str, span: Span) -> Parsed<Command> {
        if let Some((_, why)) = UNSUPPORTED_COMMANDS.iter().find(|(name, _)| *name == word) {
            return Err(self.source.unsupported(span, format!("command '{word}': {why}")));
        }
        let hint = suggest(word, COMMANDS.iter().copied());
        Err(self.source.mistake(span, format!("unknown command '{word}'{hint}; choose from {}", COMMANDS.join(", "))))
    }

    /// Parses the number or variable after `run` and `sleep`.
    fn seconds(&mut self) -> Option<Spanned<Expression>> {
        match self.peek() {
            Token::Integer(_) | Token::Variable(_) => self.expression().ok(),
            _ => None,
        }
    }

    fn periodic_run(&mut self) -> Parsed<Command> {
        let mut numbers = [None, None];
        for number in &mut numbers {
            let Token::Integer(value) = *self.peek() else { break };
            self.advance();
            *number = Some(value);
        }
        Ok(Command::PeriodicRun(numbers[0], numbers[1]))
    }

    fn stats(&mut self) -> Parsed<Command> {
        let word = self.word("'clear' or 'snap'")?;
        match word.value.as_str() {
            "clear" => Ok(Command::Stats(StatsAction::Clear)),
            "snap" => Ok(Command::Stats(StatsAction::Snap)),
            "directory" | "dump" | "xmldump" | "multidump" | "command" => Err(self.source.unsupported(
                word.span,
                format!(
                    "'stats {}' was removed from the language in 1.5; results are kept in the run directory",
                    word.value
                ),
            )),
            _ => Err(self.source.mistake(word.span, "expected 'stats clear' or 'stats snap'")),
        }
    }

    fn enable(&mut self) -> Parsed<Command> {
        let word = self.word("'lathist' or 'multi'")?;
        match word.value.as_str() {
            "lathist" => Ok(Command::Informative("enable lathist")),
            "multi" => {
                Err(self.source.unsupported(word.span, "'enable multi': runs over several clients are not supported"))
            }
            _ => Err(self.source.mistake(word.span, "expected 'enable lathist'")),
        }
    }

    fn create(&mut self) -> Parsed<Command> {
        let word = self.word("'files' or 'processes'")?;
        match word.value.as_str() {
            "file" | "files" | "fileset" | "filesets" => Ok(Command::CreateFiles),
            "process" | "processes" => Ok(Command::CreateProcesses),
            _ => Err(self.source.mistake(word.span, "expected 'create files' or 'create processes'")),
        }
    }

    fn text(&mut self) -> Parsed<Vec<TextPart>> {
        let Token::Text(parts) = self.peek() else { return self.expected("a quoted text") };
        let parts = parts.clone();
        self.advance();
        Ok(parts)
    }

    fn set(&mut self) -> Parsed<Command> {
        if self.is_word("mode") {
            self.advance();
            return self.set_mode();
        }
        let Token::Variable(name) = self.peek() else {
            return self.expected("a variable ($name) or 'mode' after 'set'");
        };
        let name = Spanned { value: name.clone(), span: self.span() };
        if name.value.ends_with(['}', ')']) {
            return Err(self.source.mistake(name.span, "internal and environment variables cannot be set"));
        }
        self.advance();
        self.require('=', "after the variable")?;
        let value = if self.is_word("randvar") || self.is_word("cvar") {
            self.random()?
        } else {
            Assigned::Plain(self.expression()?)
        };
        Ok(Command::Set { name, value })
    }

    fn set_mode(&mut self) -> Parsed<Command> {
        let word = self.word("'quit' or 'nousestats'")?;
        if word.value == "nousestats" || (word.value == "cpu" && self.is_word("nousestats")) {
            if word.value == "cpu" {
                self.advance();
            }
            return Ok(Command::Informative("set mode nousestats"));
        }
        if word.value != "quit" {
            return Err(self.source.mistake(word.span, "expected 'set mode quit ...' or 'set mode nousestats'"));
        }
        let mode = self.word("'timeout', 'alldone' or 'firstdone'")?;
        match mode.value.as_str() {
            "timeout" => Ok(Command::SetQuitMode(QuitMode::Timeout)),
            "alldone" => Ok(Command::SetQuitMode(QuitMode::AllDone)),
            "firstdone" => Ok(Command::SetQuitMode(QuitMode::FirstDone)),
            _ => Err(self.source.mistake(mode.span, "expected 'timeout', 'alldone' or 'firstdone'")),
        }
    }

    fn random(&mut self) -> Parsed<Assigned> {
        let keyword = self.advance();
        let custom = keyword.value == Token::Word("cvar".into());
        self.require('(', "before the attributes")?;
        let value = if custom {
            Assigned::Custom(self.attributes(&attributes::CUSTOM, keyword.span)?.0)
        } else {
            let (attributes, table) = self.random_attributes(keyword.span)?;
            Assigned::Random { attributes, table }
        };
        self.require(')', "after the attributes")?;
        Ok(value)
    }

    fn random_attributes(&mut self, owner: Span) -> Parsed<(Attributes, Vec<TableEntry>)> {
        let mut list = Vec::new();
        let mut table = Vec::new();
        loop {
            if self.is_word("randtable") {
                self.advance();
                self.require('=', "after 'randtable'")?;
                table = self.table()?;
            } else {
                list.push(self.attribute(&attributes::RANDOM)?);
            }
            if !self.accept(',') {
                return Ok((Attributes { list, owner }, table));
            }
        }
    }

    fn table(&mut self) -> Parsed<Vec<TableEntry>> {
        self.require('{', "before the table")?;
        let mut entries = Vec::new();
        loop {
            self.require('{', "before {percent, from, to}")?;
            let percent = self.expression()?;
            self.require(',', "after the percentage")?;
            let from = self.expression()?;
            self.require(',', "after the minimum")?;
            let to = self.expression()?;
            self.require('}', "after the maximum")?;
            entries.push(TableEntry { percent, from, to });
            if !self.accept(',') {
                self.require('}', "after the table")?;
                return Ok(entries);
            }
        }
    }

    fn define(&mut self) -> Parsed<Command> {
        let word = self.word("what to define")?;
        match word.value.as_str() {
            "fileset" | "filesets" => Ok(Command::DefineFileset {
                attributes: self.attributes(&attributes::FILESET, word.span)?.0,
                single: false,
            }),
            "file" | "files" => Ok(Command::DefineFileset {
                attributes: self.attributes(&attributes::FILE, word.span)?.0,
                single: true,
            }),
            "process" | "processes" => self.define_process(word.span),
            "flowop" => self.define_flowop(word.span),
            "randvar" => self.define_random(word.span),
            "posset" => Err(self.source.unsupported(word.span, "position sets were removed from the language in 1.5")),
            _ => Err(self.source.mistake(
                word.span,
                format!(
                    "'{}' cannot be defined; choose from fileset, file, process, flowop{}",
                    word.value,
                    suggest(&word.value, ["fileset", "file", "process", "flowop"])
                ),
            )),
        }
    }

    /// Parses the older form `define randvar name=$x, ...` of `set $x=randvar(...)`.
    fn define_random(&mut self, owner: Span) -> Parsed<Command> {
        let (attributes, table) = self.random_attributes(owner)?;
        match attributes.get("name").and_then(|name| name.value.clone()) {
            Some(Spanned { value: Expression::Variable(value), span }) => {
                Ok(Command::Set { name: Spanned { value, span }, value: Assigned::Random { attributes, table } })
            }
            _ => Err(self.source.mistake(owner, "a random variable needs name=$variable")),
        }
    }

    fn define_process(&mut self, owner: Span) -> Parsed<Command> {
        let attributes = self.attributes(&attributes::PROCESS, owner)?.0;
        self.require('{', "before the threads of the process")?;
        let mut threads = Vec::new();
        while !self.is('}') {
            let word = self.word("'thread' or '}'")?;
            if word.value != "thread" {
                return Err(self.source.mistake(word.span, "expected 'thread' or '}' inside a process"));
            }
            let attributes = self.attributes(&attributes::THREAD, word.span)?.0;
            self.require('{', "before the flowops of the thread")?;
            threads.push(Thread { attributes, flowops: self.flowops(word.span)? });
        }
        self.advance();
        if threads.is_empty() {
            return Err(self.source.mistake(owner, "this process has no threads"));
        }
        Ok(Command::DefineProcess { attributes, threads })
    }

    fn define_flowop(&mut self, owner: Span) -> Parsed<Command> {
        let (attributes, locals) = self.attributes(&attributes::COMPOSITE, owner)?;
        self.require('{', "before the flowops of the composite flowop")?;
        Ok(Command::DefineFlowop { attributes, locals, flowops: self.flowops(owner)? })
    }

    fn flowops(&mut self, owner: Span) -> Parsed<Vec<Flowop>> {
        let mut flowops = Vec::new();
        while !self.is('}') {
            let word = self.word("'flowop' or '}'")?;
            if word.value != "flowop" {
                return Err(self.source.mistake(word.span, "expected 'flowop' or '}'"));
            }
            let kind = self.word("the kind of flowop")?;
            let (attributes, locals) = self.attributes(&attributes::FLOWOP, kind.span)?;
            flowops.push(Flowop { kind, attributes, locals });
        }
        self.advance();
        if flowops.is_empty() {
            return Err(self.source.mistake(owner, "the braces contain no flowops"));
        }
        Ok(flowops)
    }

    fn attributes(&mut self, entity: &Entity, owner: Span) -> Parsed<(Attributes, Vec<LocalVariable>)> {
        let mut list = Vec::new();
        let mut locals = Vec::new();
        let with_locals = entity.name.contains("flowop");
        loop {
            match self.peek() {
                Token::Variable(_) if with_locals => locals.push(self.local()?),
                _ => list.push(self.attribute(entity)?),
            }
            if !self.accept(',') {
                return Ok((Attributes { list, owner }, locals));
            }
        }
    }

    fn local(&mut self) -> Parsed<LocalVariable> {
        let token = self.advance();
        let Token::Variable(value) = token.value else { return self.expected("a variable") };
        let name = Spanned { value, span: token.span };
        let value = if self.accept('=') { Some(self.expression()?) } else { None };
        Ok(LocalVariable { name, value })
    }

    fn attribute(&mut self, entity: &Entity) -> Parsed<Attribute> {
        let word = self.word(&format!("an attribute of the {}", entity.name))?;
        let name = entity.attribute(&word.value).map_err(|(message, unsupported)| {
            if unsupported {
                self.source.unsupported(word.span, message)
            } else {
                self.source.mistake(word.span, message)
            }
        })?;
        let value = if self.accept('=') { Some(self.expression()?) } else { None };
        Ok(Attribute { name: Spanned { value: name, span: word.span }, value })
    }

    fn expression(&mut self) -> Parsed<Spanned<Expression>> {
        let value = match self.peek().clone() {
            Token::Integer(number) => Expression::Integer(number),
            Token::Real(number) => Expression::Real(number),
            Token::Word(word) if word == "true" => Expression::Boolean(true),
            Token::Word(word) if word == "false" => Expression::Boolean(false),
            Token::Word(word) => Expression::Word(word),
            Token::Text(parts) => Expression::Text(parts),
            Token::Variable(name) => Expression::Variable(name),
            _ => return self.expected("a value"),
        };
        Ok(Spanned { value, span: self.advance().span })
    }
}
