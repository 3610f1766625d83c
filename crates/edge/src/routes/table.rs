//! All rules, and the selection of a request's rule.

use std::collections::HashMap;
use std::io;

use super::lex::sections;
use super::path::normalised;
use super::rule::{Domain, Proto, Rule};
use super::target::{CheckFile, Target};
use super::{Cause, Effect, Problem};

/// Maximum number of ZHTTP targets.
pub(super) const ZHTTP_TARGETS_MAX: usize = 100;

/// Properties by which a rule is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Host without port.
    pub host: &'a str,
    /// Path as the client encoded it.
    pub path: &'a [u8],
    /// Protocol of the client.
    pub proto: Proto,
    /// The client uses TLS.
    pub is_tls: bool,
}

/// The rules of a file.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    rules: Vec<Rule>,
    /// Rules by host in lower case, in the order of the file.
    hosts: HashMap<String, Vec<usize>>,
    /// Rules for hosts without rules of their own.
    any: Vec<usize>,
    /// Rules by id; `None` if two rules have the same id.
    ids: HashMap<String, Option<usize>>,
    zhttp_targets: usize,
    has_over_http: bool,
}

impl Routes {
    /// Parses a routes file. `check` checks that a file of a property can be read.
    pub fn read(text: &str, mut check: impl FnMut(&str) -> io::Result<()>) -> (Self, Vec<Problem>) {
        let (mut routes, mut problems) = (Self::default(), Vec::new());
        for (at, line) in text.lines().enumerate() {
            let line_number = at + 1;
            if let Err(cause) = routes.add(line_number, line, &mut problems, &mut check) {
                problems.push(Problem {
                    line: line_number,
                    effect: Effect::LineIgnored,
                    cause,
                });
            }
        }
        (routes, problems)
    }

    /// Returns the rules in the order of the file.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns true if a target of any rule uses WebSocket-over-HTTP.
    pub fn has_over_http(&self) -> bool {
        self.has_over_http
    }

    /// Returns the rule for a request. Compares the normalised path, and the host without case and final dot.
    ///
    /// A host with rules of its own does not fall back to those of `*`. Among the matching rules, the first one is selected, unless
    /// a later rule is more specific: it names a protocol, has a longer path, or names TLS, and the first one does not.
    pub fn find(&self, request: &Request<'_>) -> Option<&Rule> {
        let path = normalised(request.path);
        let request = &Request {
            path: &path,
            ..*request
        };
        let list = if self.hosts.is_empty() {
            &self.any
        } else {
            let host = request.host.strip_suffix('.').unwrap_or(request.host);
            let host = host.to_ascii_lowercase();
            self.hosts.get(&host).unwrap_or(&self.any)
        };
        let rules = list.iter().filter_map(|&at| self.rules.get(at));
        rules
            .filter(|rule| matches(rule, request))
            .reduce(|best, rule| if is_better(rule, best) { rule } else { best })
    }

    /// Returns the rule with this id, if the path matches it.
    pub fn find_id(&self, id: &str, path: &[u8]) -> Option<&Rule> {
        let rule = self.rules.get((*self.ids.get(id)?)?)?;
        normalised(path)
            .starts_with(rule.path_beg.as_bytes())
            .then_some(rule)
    }

    fn add(
        &mut self,
        line: usize,
        text: &str,
        problems: &mut Vec<Problem>,
        check: &mut CheckFile<'_>,
    ) -> Result<(), Cause> {
        let sections = sections(text)?;
        let (condition, targets) = match &sections[..] {
            [] => return Ok(()),
            [_] => return Err(Cause::Sections),
            [condition, targets @ ..] => (condition, targets),
        };
        let mut unknown = Vec::new();
        let mut rule = Rule::read(line, condition, &mut unknown)?;
        let of_condition = unknown.len();
        for section in targets {
            rule.targets
                .push(Target::read(section, &mut unknown, check)?);
        }
        let zhttp = rule
            .targets
            .iter()
            .filter(|target| target.is_zhttp())
            .count();
        if self.zhttp_targets + zhttp > ZHTTP_TARGETS_MAX {
            return Err(Cause::ZhttpTargets);
        }
        if let Some(earlier) = self.duplicate(&rule) {
            return Err(Cause::Duplicate(earlier));
        }
        let mut report = |cause| {
            problems.push(Problem {
                line,
                effect: Effect::PartIgnored,
                cause,
            })
        };
        for (at, name) in unknown.into_iter().enumerate() {
            let of = if at < of_condition { "route" } else { "target" };
            report(Cause::Property(name, of));
        }
        self.zhttp_targets += zhttp;
        self.has_over_http |= rule.is_over_http();
        let at = self.rules.len();
        if let Some(id) = &rule.id {
            let earlier = self
                .rules
                .iter()
                .find(|other| other.id.as_ref() == Some(id));
            if let Some(earlier) = earlier {
                report(Cause::Id(earlier.line));
            }
            let place = earlier.is_none().then_some(at);
            self.ids.insert(id.clone(), place);
        }
        match &rule.domain {
            Domain::Any => self.any.push(at),
            Domain::Host(host) => self.hosts.entry(host.clone()).or_default().push(at),
            Domain::Unnamed => {}
        }
        self.rules.push(rule);
        Ok(())
    }

    /// Returns the line of an earlier rule that matches every request that this rule matches.
    fn duplicate(&self, rule: &Rule) -> Option<usize> {
        let is_same = |other: &&Rule| {
            other.domain == rule.domain
                && (&other.proto, &other.is_tls, &other.path_beg)
                    == (&rule.proto, &rule.is_tls, &rule.path_beg)
        };
        match rule.domain {
            Domain::Unnamed => None,
            _ => self.rules.iter().find(is_same).map(|other| other.line),
        }
    }
}

fn matches(rule: &Rule, request: &Request<'_>) -> bool {
    rule.proto.is_none_or(|proto| proto == request.proto)
        && rule.is_tls.is_none_or(|is_tls| is_tls == request.is_tls)
        && request.path.starts_with(rule.path_beg.as_bytes())
}

fn is_better(rule: &Rule, best: &Rule) -> bool {
    match (best.proto, rule.proto) {
        (None, Some(_)) => true,
        (Some(_), None) => false,
        _ => {
            rule.path_beg.len() > best.path_beg.len()
                || (best.is_tls.is_none() && rule.is_tls.is_some())
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
