//! Splits text into tokens. Line breaks are white space; `#` starts a comment.

use super::diagnostic::{Diagnostic, Source, Span, Spanned};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Word(String),
    /// A whole number, with the suffixes `k`, `m`, `g` applied (binary).
    Integer(i64),
    Real(f64),
    /// `$name`, `${internal}` or `$(ENVIRONMENT)`, without the dollar sign.
    Variable(String),
    Text(Vec<TextPart>),
    Punctuation(char),
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TextPart {
    Literal(String),
    Variable(String),
}

impl Token {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Word(word) => format!("'{word}'"),
            Self::Integer(number) => format!("number {number}"),
            Self::Real(number) => format!("number {number}"),
            Self::Variable(name) => format!("variable ${name}"),
            Self::Text(_) => "a quoted text".into(),
            Self::Punctuation(c) => format!("'{c}'"),
            Self::End => "the end of the file".into(),
        }
    }
}

/// Splits a text into tokens; the last is always [`Token::End`].
pub(crate) fn tokenize(source: &Source) -> Result<Vec<Spanned<Token>>, Diagnostic> {
    let mut lexer = Lexer { source, text: &source.text, position: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let done = token.value == Token::End;
        tokens.push(token);
        if done {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    source: &'a Source,
    text: &'a str,
    position: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> String {
        let rest = self.rest();
        let length = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        let taken = rest[..length].to_string();
        self.position += length;
        taken
    }

    fn skip_blank(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest().starts_with('#') {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn next(&mut self) -> Result<Spanned<Token>, Diagnostic> {
        self.skip_blank();
        let start = self.position;
        let value = self.token(start)?;
        Ok(Spanned { value, span: Span { start, end: self.position } })
    }

    fn token(&mut self, start: usize) -> Result<Token, Diagnostic> {
        let mut characters = self.rest().chars();
        let (Some(first), second) = (characters.next(), characters.next()) else { return Ok(Token::End) };
        match first {
            '{' | '}' | '(' | ')' | '=' | ',' => {
                self.position += 1;
                Ok(Token::Punctuation(first))
            }
            '"' => self.quoted(start),
            '$' => self.variable(start).map(Token::Variable),
            '0'..='9' => self.number(start),
            '-' if second.is_some_and(|c| c.is_ascii_digit()) => self.number(start),
            c if is_word_start(c) => Ok(Token::Word(self.take_while(is_word))),
            c => {
                let span = Span { start, end: start + c.len_utf8() };
                if matches!(c, '*' | '+' | '-') {
                    let why =
                        "arithmetic was removed from the language in 1.5; write the result, or give it with --set";
                    return Err(self.source.unsupported(span, format!("'{c}': {why}")));
                }
                Err(self.source.mistake(span, format!("illegal character {c:?}")))
            }
        }
    }

    fn number(&mut self, start: usize) -> Result<Token, Diagnostic> {
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
        let span = Span { start, end: self.position };
        let wrong = |why: &str| self.source.mistake(span, format!("'{word}' is not a number: {why}"));
        if word.contains('.') {
            return word.parse().map(Token::Real).map_err(|_| wrong("expected digits around one decimal point"));
        }
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match &word[digits.len()..] {
            "" => 0,
            "k" | "K" => 10,
            "m" | "M" => 20,
            "g" | "G" => 30,
            _ => return Err(wrong("the suffixes are k, m and g (binary)")),
        };
        let number: i64 = digits.parse().map_err(|_| wrong("it does not fit in 64 bits"))?;
        number.checked_mul(1 << shift).map(Token::Integer).ok_or_else(|| wrong("it does not fit in 64 bits"))
    }

    fn variable(&mut self, start: usize) -> Result<String, Diagnostic> {
        self.position += 1;
        let close = match self.rest().chars().next() {
            Some('{') => Some('}'),
            Some('(') => Some(')'),
            _ => None,
        };
        let Some(close) = close else {
            let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            let span = Span { start, end: self.position };
            return match name.chars().next() {
                Some(c) if c.is_ascii_alphabetic() || c == '_' => Ok(name),
                _ => Err(self.source.mistake(span, "a variable's name starts with a letter, for example $nfiles")),
            };
        };
        self.position += 1;
        let inner = self.take_while(|c| c != close && c != '\n');
        if !self.rest().starts_with(close) {
            let span = Span { start, end: self.position };
            return Err(self.source.mistake(span, format!("'{close}' is missing after the variable's name")));
        }
        self.position += 1;
        Ok(format!("{inner}{close}"))
    }

    fn quoted(&mut self, start: usize) -> Result<Token, Diagnostic> {
        self.position += 1;
        let mut parts = Vec::new();
        loop {
            let literal = self.take_while(|c| !matches!(c, '"' | '$' | '\\'));
            push_literal(&mut parts, &literal);
            match self.rest().chars().next() {
                Some('"') => {
                    self.position += 1;
                    return Ok(Token::Text(parts));
                }
                Some('$') => {
                    let at = self.position;
                    parts.push(TextPart::Variable(self.variable(at)?));
                }
                Some(_) => {
                    self.position += 1;
                    let escaped = self.rest().chars().next().unwrap_or('\\');
                    self.position += if self.rest().is_empty() { 0 } else { escaped.len_utf8() };
                    push_literal(&mut parts, &if escaped == 'n' { "\n".to_string() } else { escaped.to_string() });
                }
                None => {
                    let span = Span { start, end: start + 1 };
                    return Err(self.source.mistake(span, "this quoted text is not closed by '\"'"));
                }
            }
        }
    }
}

fn push_literal(parts: &mut Vec<TextPart>, literal: &str) {
    match parts.last_mut() {
        _ if literal.is_empty() => {}
        Some(TextPart::Literal(text)) => text.push_str(literal),
        _ => parts.push(TextPart::Literal(literal.to_string())),
    }
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '/' | '-' | '_' | '.')
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | ':' | ';' | '-' | '+' | '@' | '%' | '~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token> {
        tokenize(&Source::new("test.f", text)).unwrap().into_iter().map(|token| token.value).collect()
    }

    #[test]
    fn numbers_variables_and_words() {
        let found = tokens("set $n=16k # comment\nrun -3 mean:131072;gamma:1.5 1.5 ${date} $(HOME)");
        let word = |text: &str| Token::Word(text.into());
        let variable = |text: &str| Token::Variable(text.into());
        assert_eq!(
            found,
            vec![
                word("set"),
                variable("n"),
                Token::Punctuation('='),
                Token::Integer(16384),
                word("run"),
                Token::Integer(-3),
                word("mean:131072;gamma:1.5"),
                Token::Real(1.5),
                variable("date}"),
                variable("HOME)"),
                Token::End
            ]
        );
    }

    #[test]
    fn quoted_text_holds_variables_and_escapes() {
        let found = tokens(r#"echo "files: $nfiles, cost \$5\n""#);
        let expected = vec![
            TextPart::Literal("files: ".into()),
            TextPart::Variable("nfiles".into()),
            TextPart::Literal(", cost $5\n".into()),
        ];
        assert_eq!(found[1], Token::Text(expected));
    }

    #[test]
    fn errors_carry_line_column_and_caret() {
        let error = tokenize(&Source::new("bad.f", "set $a=1\nset $b=12q\n")).unwrap_err();
        assert_eq!((error.line, error.column, error.width), (2, 8, 3));
        let text = error.to_string();
        assert!(text.starts_with("bad.f:2:8: error: '12q' is not a number"), "{text}");
        assert!(text.ends_with("\n   |        ^^^"), "{text}");
    }
}
