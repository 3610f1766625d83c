//! Which connections are interchangeable, and whom a certificate has to be for.

use std::rc::Rc;

use crate::client::request::without_port;
use crate::client::source::Source;
use crate::routes::Target;

/// Which connections are interchangeable: target, and who its certificate has to be for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    generation: u32,
    rule: usize,
    target: usize,
    name: Option<Rc<str>>,
}

impl Place {
    /// One like any other.
    #[cfg(test)]
    pub(crate) fn any() -> Self {
        Self {
            generation: 0,
            rule: 0,
            target: 0,
            name: None,
        }
    }

    /// Where a connection for this request may serve again.
    pub(crate) fn of(source: &Source) -> Self {
        let target = source.target();
        Self {
            generation: source.table.generation,
            rule: source.rule,
            target: source.target,
            name: target
                .filter(|target| target.is_tls && !target.trust_connect_host)
                .map(|target| Rc::from(certified_name(source, target))),
        }
    }
}

/// The name that the route or the target gives to a target.
pub(crate) fn own_name<'a>(source: &'a Source, target: &'a Target) -> Option<&'a str> {
    let rule = source.rule();
    let of_rule = || rule.and_then(|it| it.as_host.as_deref());
    target.host.as_deref().or_else(of_rule)
}

/// The name that a target's certificate has to be for: the host that the target sees.
pub(crate) fn certified_name(source: &Source, target: &Target) -> String {
    let name = match own_name(source, target) {
        Some(host) => without_port(host).to_owned(),
        None => source.request.host_name(),
    };
    // An address has brackets in a URI alone.
    name.trim_matches(['[', ']']).to_owned()
}
