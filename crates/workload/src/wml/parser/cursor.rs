//! Token cursor.

use super::{Parsed, Parser, Span, Spanned, Token};

impl Parser<'_> {
    pub(super) fn peek(&self) -> &Token {
        &self.tokens[self.position].value
    }

    pub(super) fn span(&self) -> Span {
        self.tokens[self.position].span
    }

    pub(super) fn advance(&mut self) -> Spanned<Token> {
        let token = self.tokens[self.position].clone();
        self.position = (self.position + 1).min(self.tokens.len() - 1);
        token
    }

    pub(super) fn is(&self, punctuation: char) -> bool {
        self.peek() == &Token::Punctuation(punctuation)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found == word)
    }

    pub(super) fn accept(&mut self, punctuation: char) -> bool {
        let found = self.is(punctuation);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expected<T>(&self, what: &str) -> Parsed<T> {
        Err(self.source.mistake(self.span(), format!("expected {what}, found {}", self.peek().describe())))
    }

    pub(super) fn require(&mut self, punctuation: char, place: &str) -> Parsed<Span> {
        if !self.is(punctuation) {
            return self.expected(&format!("'{punctuation}' {place}"));
        }
        Ok(self.advance().span)
    }

    pub(super) fn word(&mut self, what: &str) -> Parsed<Spanned<String>> {
        let Token::Word(word) = self.peek() else { return self.expected(what) };
        let value = word.clone();
        Ok(Spanned { value, span: self.advance().span })
    }
}
