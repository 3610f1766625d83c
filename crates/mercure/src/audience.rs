//! Selects the subscribers of an update.
//!
//! Subscribers with the same topics and the same rights receive the same updates, so they share one *view*, which is a number.
//! The exact topics of views are in a map, and an update looks its topics up in it. Each distinct template of all views is
//! compared with each topic of the update. So an update costs its topics times the distinct templates, plus the selected views.
//! It does not depend on the number of other subscribers.
//!
//! The number of distinct templates is bounded, including those in rights. A template in rights is compared once for all views
//! that have it.
//!
//! A view is in use while a subscriber holds its number (an `Rc`). An update first removes ended views from the templates that
//! it would compare. If there is no room for a new template, a search removes ended views, too.
//!
//! The templates per client address are also bounded, so that one address cannot use up the total.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::{Rc, Weak};

use crate::TEMPLATE_BYTES;
use crate::selector::{Selector, SelectorError, Syntax};
use crate::topic::Topic;

/// Number of views above which ended views are removed. After a removal, the next one follows when the number has doubled.
const KEPT_MIN: usize = 1024;

/// Maximum number of views that one search for ended views visits. When there is no room, each refused subscriber causes a
/// search.
const SEARCHED_MAX: usize = 1024;

/// Number of addresses above which those without subscribers are removed. After a removal, the next one follows when the
/// number has doubled.
const ADDRESSES_MIN: usize = 1024;

/// Reason why a subscriber gets no view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AudienceError {
    /// A selector of the subscriber is invalid.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The total number of templates is at its limit.
    #[error(
        "subscribers of this worker have as many different templates and patterns as mercure.templates_max allows, where \
         each counts once for each {TEMPLATE_BYTES} bytes that it is compiled to; use fewer or simpler ones, or raise it"
    )]
    Full,
    /// The number of templates of the subscriber's address is at its limit.
    #[error(
        "subscribers of this address have as many templates and patterns as mercure.templates_per_address_max allows, where \
         each counts once for each {TEMPLATE_BYTES} bytes that it is compiled to; use fewer or simpler ones, or raise it"
    )]
    AddressFull,
}

/// Selectors that all subscribers with the same view share.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Rule {
    topics: Box<[Box<str>]>,
    private: Box<[Box<str>]>,
}

struct View {
    number: Weak<u64>,
    rule: Rc<Rule>,
    topics: Selectors,
    private: Selectors,
}

/// A list of selectors, at least one of which has to match.
struct Selectors {
    has_any: bool,
    /// Exact topics, sorted.
    exact: Box<[Rc<Selector>]>,
    templates: Box<[Rc<Selector>]>,
}

impl View {
    /// Returns the number of the view's templates, weighted by size.
    fn templates(&self) -> usize {
        let both = self.topics.templates.iter().chain(&self.private.templates);
        both.map(|selector| selector.templates()).sum()
    }
}

impl Selectors {
    fn new(selectors: &[Rc<Selector>]) -> Selectors {
        let has_any = |it: &Rc<Selector>| matches!(**it, Selector::Any);
        let (mut exact, mut templates) = (Vec::new(), Vec::new());
        for selector in selectors {
            match **selector {
                Selector::Any => {}
                Selector::Exact(_) => exact.push(Rc::clone(selector)),
                Selector::Template(_) | Selector::Pattern { .. } => {
                    templates.push(Rc::clone(selector));
                }
            }
        }
        exact.sort_unstable_by(|one, other| one.text().cmp(other.text()));
        Selectors {
            has_any: selectors.iter().any(has_any),
            exact: exact.into(),
            templates: templates.into(),
        }
    }

    fn is_empty(&self) -> bool {
        !self.has_any && self.exact.is_empty() && self.templates.is_empty()
    }

    /// Returns true if a selector matches one of the topics. `matches` tests a template.
    fn select(&self, topics: &[Topic], matches: impl FnMut(&Rc<Selector>) -> bool) -> bool {
        let is_exact = |topic: &Topic| {
            let found = self
                .exact
                .binary_search_by(|it| it.text().cmp(topic.text()));
            found.is_ok()
        };
        self.has_any && !topics.is_empty()
            || topics.iter().any(is_exact)
            || self.templates.iter().any(matches)
    }
}

/// Selectors of topics, and of rights.
type Compiled = (Box<[Rc<Selector>]>, Box<[Rc<Selector>]>);

struct Template {
    selector: Rc<Selector>,
    views: Vec<Listed>,
    /// True if one of the views has rights to private updates.
    has_rights: bool,
}

/// A view that has a template.
struct Listed {
    number: u64,
    view: Weak<u64>,
}

impl Listed {
    fn has_ended(&self) -> bool {
        self.view.strong_count() == 0
    }
}

/// Views that the subscribers at one address use, each once, with its number of templates.
type OfAddress = Vec<(Weak<u64>, usize)>;

/// The views of one worker.
pub struct Audience {
    /// Maximum number of distinct templates per client address, weighted by size.
    templates_per_address_max: usize,
    /// Views by address.
    addresses: HashMap<IpAddr, OfAddress>,
    /// Number of addresses after those without subscribers were last removed.
    kept_addresses: usize,
    /// Maximum number of distinct templates, weighted by size.
    templates_max: usize,
    /// Syntax of selectors.
    syntax: Syntax,
    /// Number of distinct templates in all selectors, weighted by size.
    templates_len: usize,
    views: HashMap<u64, View>,
    by_rule: HashMap<Rc<Rule>, u64>,
    /// All views, in the order in which [`Audience::make_room`] visits them. May contain removed views.
    order: VecDeque<u64>,
    /// Compiled selectors of all views.
    selectors: HashMap<Box<str>, Rc<Selector>>,
    any: Vec<u64>,
    exact: HashMap<Box<str>, Vec<u64>>,
    templates: HashMap<Box<str>, Template>,
    newest: u64,
    /// Number of views after all ended ones were last removed.
    kept: usize,
}

impl Audience {
    /// Creates an audience without subscribers, with a limit on distinct templates in topics and rights, and a syntax.
    pub fn new(templates_max: usize, syntax: Syntax) -> Audience {
        Audience {
            templates_per_address_max: templates_max,
            addresses: HashMap::new(),
            kept_addresses: 0,
            order: VecDeque::new(),
            templates_max,
            syntax,
            templates_len: 0,
            views: HashMap::new(),
            by_rule: HashMap::new(),
            selectors: HashMap::new(),
            any: Vec::new(),
            exact: HashMap::new(),
            templates: HashMap::new(),
            newest: 0,
            kept: 0,
        }
    }

    /// Sets the limit on distinct templates per client address.
    #[must_use]
    pub fn with_templates_per_address(mut self, max: usize) -> Audience {
        self.templates_per_address_max = max;
        self
    }

    /// Returns the view of a subscriber at this address with these selectors of topics and rights.
    ///
    /// # Errors
    /// [`AudienceError`]: the subscriber gets no view.
    pub fn view_for(
        &mut self,
        address: Option<IpAddr>,
        topics: &[String],
        private: &[String],
    ) -> Result<Rc<u64>, AudienceError> {
        let view = self.view(topics, private)?;
        let templates = self.views.get(&view).map_or(0, View::templates);
        // Only templates are limited per address, because exact topics cost an update nothing.
        let (Some(address), 1..) = (address, templates) else {
            return Ok(view);
        };
        let own = self.addresses.entry(address).or_default();
        own.retain(|(view, _)| view.strong_count() > 0);
        let number = Rc::downgrade(&view);
        // Another subscriber of this address has the same view, so its templates are already counted.
        if own.iter().any(|(known, _)| known.ptr_eq(&number)) {
            return Ok(view);
        }
        let sum: usize = own.iter().map(|(_, templates)| templates).sum();
        if sum + templates > self.templates_per_address_max {
            self.give_back(view);
            return Err(AudienceError::AddressFull);
        }
        own.push((number, templates));
        if self.addresses.len() > (2 * self.kept_addresses).max(ADDRESSES_MIN) {
            self.addresses.retain(|_, own| {
                own.retain(|(view, _)| view.strong_count() > 0);
                !own.is_empty()
            });
            self.kept_addresses = self.addresses.len();
        }
        Ok(view)
    }

    /// Releases the number of a subscriber that has left. Removes the view if this was its last subscriber.
    pub fn give_back(&mut self, view: Rc<u64>) {
        let number = *view;
        drop(view);
        if self.has_ended(number) {
            self.forget_view(number);
        }
    }

    /// Returns the view of subscribers with these selectors of topics and rights.
    ///
    /// # Errors
    /// [`AudienceError`]: no view is created.
    pub fn view(
        &mut self,
        topics: &[String],
        private: &[String],
    ) -> Result<Rc<u64>, AudienceError> {
        let rule = Rc::new(Rule {
            topics: in_order(topics),
            private: in_order(private),
        });
        let known = self
            .by_rule
            .get(&rule)
            .and_then(|number| self.views.get(number));
        if let Some(number) = known.and_then(|view| view.number.upgrade()) {
            return Ok(number);
        }
        if self.views.len() >= (2 * self.kept).max(KEPT_MIN) {
            self.let_go();
        }
        let compiled = self.compile_rule(&rule);
        let (topics, private) = match compiled {
            Ok(compiled) => compiled,
            Err(error) => {
                // Remove the selectors that were compiled before the failure.
                for text in rule.topics.iter().chain(&rule.private) {
                    self.forget(text);
                }
                return Err(error);
            }
        };
        self.newest += 1;
        let number = Rc::new(self.newest);
        for selector in &topics {
            self.list(selector, &number, !private.is_empty());
        }
        let view = View {
            number: Rc::downgrade(&number),
            rule: Rc::clone(&rule),
            topics: Selectors::new(&topics),
            private: Selectors::new(&private),
        };
        self.views.insert(*number, view);
        // The former view with these selectors has ended. Otherwise it was returned above.
        if let Some(ended) = self.by_rule.insert(rule, *number) {
            self.forget_view(ended);
        }
        self.order.push_back(*number);
        Ok(number)
    }

    /// Appends the views that receive an update, each once.
    pub fn select(&mut self, topics: &[Topic], is_private: bool, out: &mut Vec<u64>) {
        self.forget_ended();
        let start = out.len();
        let mut limit = KEPT_MIN;
        // Several topics and templates may select the same views. Remove duplicates before they accumulate.
        let mut limit_views = |out: &mut Vec<u64>| {
            if out.len() - start > limit {
                sort_from(start, out);
                limit = (2 * (out.len() - start)).max(KEPT_MIN);
            }
        };
        out.extend_from_slice(&self.any);
        limit_views(out);
        for topic in topics {
            if let Some(views) = self.exact.get(topic.text()) {
                out.extend_from_slice(views);
                limit_views(out);
            }
        }
        for template in self.templates.values() {
            // Clients without rights receive no private updates, so skip templates that only such clients have. Private updates
            // are frequent, because each subscription is announced by one.
            if (template.has_rights || !is_private) && any_matches(&template.selector, topics) {
                out.extend(template.views.iter().map(|it| it.number));
                limit_views(out);
            }
        }
        sort_from(start, out);
        // Many views have the same templates in their rights, so remember the results.
        let mut known: HashMap<*const Selector, bool> = HashMap::new();
        let mut matches = |selector: &Rc<Selector>| {
            let known = known.entry(Rc::as_ptr(selector));
            *known.or_insert_with(|| any_matches(selector, topics))
        };
        let mut kept = start;
        for at in start..out.len() {
            let number = out[at];
            if self.may(number, topics, is_private, &mut matches) {
                out[kept] = number;
                kept += 1;
            }
        }
        out.truncate(kept);
    }

    /// Returns true if a view receives an update.
    pub fn selects(&self, number: u64, topics: &[Topic], is_private: bool) -> bool {
        let matches = |selector: &Rc<Selector>| any_matches(selector, topics);
        let view = self.views.get(&number);
        view.is_some_and(|view| view.topics.select(topics, matches))
            && self.may(number, topics, is_private, matches)
    }

    /// Returns the number of views, including ended views that are not removed yet.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Returns true if there are no views.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Returns true if a view is in use and may read the update.
    fn may(
        &self,
        number: u64,
        topics: &[Topic],
        is_private: bool,
        matches: impl FnMut(&Rc<Selector>) -> bool,
    ) -> bool {
        self.views.get(&number).is_some_and(|view| {
            view.number.strong_count() > 0 && (!is_private || view.private.select(topics, matches))
        })
    }

    fn compile_rule(&mut self, rule: &Rule) -> Result<Compiled, AudienceError> {
        Ok((self.compile(&rule.topics)?, self.compile(&rule.private)?))
    }

    /// Removes a selector that no view has.
    fn forget(&mut self, text: &str) {
        if let Some(selector) = self.selectors.get(text)
            && Rc::strong_count(selector) == 1
        {
            self.templates_len -= selector.templates();
            self.selectors.remove(text);
        }
    }

    fn compile(&mut self, texts: &[Box<str>]) -> Result<Box<[Rc<Selector>]>, AudienceError> {
        let mut compiled = Vec::with_capacity(texts.len());
        for text in texts {
            let selector = match self.selectors.get(text) {
                Some(known) => Rc::clone(known),
                None => {
                    let selector = Rc::new(Selector::parse_as(&self.syntax, text)?);
                    self.templates_len += selector.templates();
                    self.selectors.insert(text.clone(), Rc::clone(&selector));
                    // If there is no room, `view` removes this selector again.
                    if selector.templates() > 0 && self.templates_len > self.templates_max {
                        self.make_room()?;
                    }
                    selector
                }
            };
            compiled.push(selector);
        }
        Ok(compiled.into())
    }

    fn list(&mut self, selector: &Rc<Selector>, number: &Rc<u64>, has_rights: bool) {
        match &**selector {
            Selector::Any => self.any.push(**number),
            Selector::Exact(text) => self.exact.entry(text.clone()).or_default().push(**number),
            Selector::Template(_) | Selector::Pattern { .. } => {
                let entry = self.templates.entry(selector.text().into());
                let template = entry.or_insert_with(|| Template {
                    selector: Rc::clone(selector),
                    views: Vec::new(),
                    has_rights: false,
                });
                template.views.push(Listed {
                    number: **number,
                    view: Rc::downgrade(number),
                });
                template.has_rights |= has_rights;
            }
        }
    }

    /// Removes ended views to make room for templates.
    fn make_room(&mut self) -> Result<(), AudienceError> {
        // Each refused subscriber may cause a search, so bound its cost.
        for _ in 0..SEARCHED_MAX.min(self.order.len()) {
            let Some(number) = self.order.pop_front() else {
                break;
            };
            #[cfg(test)]
            crate::counted::add(&crate::counted::SEARCHES);
            if self.has_ended(number) {
                self.forget_view(number);
                if self.templates_len <= self.templates_max {
                    return Ok(());
                }
            } else if self.views.contains_key(&number) {
                self.order.push_back(number);
            }
        }
        Err(AudienceError::Full)
    }

    fn has_ended(&self, number: u64) -> bool {
        let view = self.views.get(&number);
        view.is_some_and(|view| view.number.strong_count() == 0)
    }

    /// Removes the ended views that have a template, because each template would be tried with each update.
    fn forget_ended(&mut self) {
        let mut ended = Vec::new();
        for template in self.templates.values() {
            // If the first view is in use, the template is needed, whatever the other views are. They are skipped when an
            // update selects them.
            if template.views.first().is_some_and(Listed::has_ended) {
                let of_this = template.views.iter().filter(|it| it.has_ended());
                ended.extend(of_this.map(|it| it.number));
            }
        }
        for number in ended {
            self.forget_view(number);
        }
    }

    /// Removes an ended view and everything that only this view used.
    fn forget_view(&mut self, number: u64) {
        let Some(view) = self.views.remove(&number) else {
            // The view was already removed, because several templates may report the same view.
            return;
        };
        let View {
            rule,
            topics,
            private,
            ..
        } = view;
        // A newer view may have the same selectors.
        if self.by_rule.get(&rule) == Some(&number) {
            self.by_rule.remove(&rule);
        }
        if topics.has_any {
            self.any.retain(|it| *it != number);
        }
        for selector in &topics.exact {
            // Each view is listed under each of its topics.
            if let Some(numbers) = self.exact.get_mut(selector.text()) {
                numbers.retain(|it| *it != number);
                if numbers.is_empty() {
                    self.exact.remove(selector.text());
                }
            }
        }
        for selector in &topics.templates {
            let Some(template) = self.templates.get_mut(selector.text()) else {
                // Each view is listed in each of its templates.
                continue;
            };
            template.views.retain(|it| it.number != number);
            if template.views.is_empty() {
                self.templates.remove(selector.text());
            } else if template.has_rights {
                let views = &self.views;
                let has_rights = |it: &View| !it.private.is_empty();
                let mut others = template.views.iter().filter_map(|it| views.get(&it.number));
                template.has_rights = others.any(has_rights);
            }
        }
        // `forget` removes only selectors that no view holds any more.
        drop((topics, private));
        for text in rule.topics.iter().chain(&rule.private) {
            self.forget(text);
        }
    }

    /// Removes all ended views and everything that only they used.
    fn let_go(&mut self) {
        self.views.retain(|_, view| view.number.strong_count() > 0);
        let views = &self.views;
        let is_kept = |number: &u64| views.contains_key(number);
        self.by_rule.retain(|_, number| is_kept(number));
        self.order.retain(is_kept);
        self.any.retain(is_kept);
        self.exact.retain(|_, numbers| {
            numbers.retain(is_kept);
            !numbers.is_empty()
        });
        self.templates.retain(|_, template| {
            template.views.retain(|it| is_kept(&it.number));
            let has_rights = |it: &View| !it.private.is_empty();
            let mut kept = template.views.iter().filter_map(|it| views.get(&it.number));
            template.has_rights = kept.any(has_rights);
            !template.views.is_empty()
        });
        self.selectors
            .retain(|_, selector| Rc::strong_count(selector) > 1);
        self.templates_len = self.selectors.values().map(|it| it.templates()).sum();
        self.kept = self.views.len();
    }
}

fn any_matches(selector: &Selector, topics: &[Topic]) -> bool {
    topics.iter().any(|topic| selector.matches(topic))
}

/// Sorts the elements from `start` on and removes duplicates.
fn sort_from(start: usize, out: &mut Vec<u64>) {
    out[start..].sort_unstable();
    let mut kept = start;
    for at in start..out.len() {
        if kept == start || out[kept - 1] != out[at] {
            out[kept] = out[at];
            kept += 1;
        }
    }
    out.truncate(kept);
}

fn in_order(texts: &[String]) -> Box<[Box<str>]> {
    let mut texts: Vec<Box<str>> = texts.iter().map(|text| text.as_str().into()).collect();
    texts.sort_unstable();
    texts.dedup();
    texts.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::counted;
    use crate::url::Url;

    const TEMPLATES_MAX: usize = 10_000;

    fn of(list: &[&str]) -> Vec<Topic> {
        list.iter().map(|&it| Topic::new(it)).collect()
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|&it| it.to_owned()).collect()
    }

    #[test]
    fn equal_topics_and_rights_share_a_view() {
        let mut audience = Audience::new(TEMPLATES_MAX, Syntax::Templates);
        let one = audience.view(&texts(&["a", "b"]), &[]).expect("a view");
        let two = audience
            .view(&texts(&["b", "a", "a"]), &[])
            .expect("a view");
        let other = audience
            .view(&texts(&["a", "b"]), &texts(&["a"]))
            .expect("a view");
        assert_eq!(one, two);
        assert_ne!(one, other);
        let mut out = Vec::new();
        audience.select(&of(&["b", "a"]), false, &mut out);
        assert_eq!(out, [*one, *other]);
        out.clear();
        audience.select(&of(&["b", "a"]), true, &mut out);
        assert_eq!(out, [*other]);
        drop((one, two));
        out.clear();
        audience.select(&of(&["a"]), false, &mut out);
        assert_eq!(out, [*other]);
    }

    #[test]
    fn removes_ended_views() {
        let mut audience = Audience::new(TEMPLATES_MAX, Syntax::Templates);
        for at in 0..10 * KEPT_MIN {
            let topics = [format!("a{at}"), format!("b{at}/{{c}}"), "*".to_owned()];
            let _ = audience.view(&topics, &topics).expect("a view");
        }
        assert!(audience.len() <= KEPT_MIN, "{}", audience.len());
        assert!(audience.selectors.len() <= 2 * KEPT_MIN + 1);
        // A refused subscriber leaves nothing behind.
        let wrong = ["new".to_owned(), "{a}".repeat(17)];
        assert!(audience.view(&wrong, &[]).is_err());
        assert!(!audience.selectors.contains_key("new"));
        let held: Vec<_> = (0..TEMPLATES_MAX)
            .map(|at| audience.view(&[format!("{at}{{a}}")], &[]).expect("a view"))
            .collect();
        let more = texts(&["x{a}"]);
        assert_eq!(audience.view(&more, &[]), Err(AudienceError::Full));
        assert!(audience.view(&texts(&["1{a}"]), &texts(&["x"])).is_ok());
        assert!(audience.view(&texts(&["1{a}"]), &more).is_err());
        assert_eq!(audience.templates_len, TEMPLATES_MAX);
        drop(held);
        assert!(audience.view(&more, &[]).is_ok());
    }

    fn of_matchers(templates_max: usize) -> Audience {
        let base = Url::parse("https://hub.example/.well-known/mercure", None).expect("a URL");
        Audience::new(templates_max, Syntax::Matchers(base.into()))
    }

    #[test]
    fn parses_a_topic_once_for_all_patterns() {
        let mut audience = of_matchers(TEMPLATES_MAX);
        let held: Vec<_> = (0..100)
            .map(|at| {
                let topics = [format!("urlpattern:https://:any.example/{at}/*")];
                audience.view(&topics, &topics).expect("a view")
            })
            .collect();
        let topics = of(&["https://a.example/7/b", "https://b.example/8/c"]);
        let mut out = Vec::new();
        let ((), urls) = counted::during(&counted::URLS, || {
            audience.select(&topics, true, &mut out);
            for view in &held {
                assert_eq!(audience.selects(**view, &topics, true), out.contains(view));
            }
        });
        assert_eq!((&out[..], urls), (&[*held[7], *held[8]][..], 2));
    }

    #[test]
    fn large_pattern_counts_as_several_templates() {
        let mut audience = of_matchers(64);
        let pattern = |at: usize, len: usize| [format!("urlpattern:/{at}/:a([a-z]{{{len}}})")];
        let small: Vec<_> = (0..32)
            .map(|at| audience.view(&pattern(at, 1), &[]).expect("a view"))
            .collect();
        let mut large = Vec::new();
        let refused = loop {
            match audience.view(&pattern(large.len(), 500), &[]) {
                Ok(view) => large.push(view),
                Err(error) => break error,
            }
            assert!(large.len() <= 32, "they count as no more than small ones");
        };
        assert_eq!(refused, AudienceError::Full);
        assert!(refused.to_string().contains("mercure.templates_max"));
        assert!((1..=4).contains(&large.len()), "{}", large.len());
        assert!(audience.templates_len <= 64);
        // A known pattern needs no more room, and the room of an unused pattern is available again.
        assert!(audience.view(&pattern(0, 500), &[]).is_ok());
        drop(small);
        assert!(audience.view(&pattern(99, 500), &[]).is_ok());
        let error = audience.view(&pattern(0, 100_000), &[]);
        let too_large = AudienceError::Selector(SelectorError::TooLarge);
        assert_eq!(error, Err(too_large));
    }

    #[test]
    fn compares_shared_rights_once() {
        let mut audience = of_matchers(TEMPLATES_MAX);
        let held: Vec<_> = (0..2 * KEPT_MIN)
            .map(|at| {
                let topics = ["exact:/a/b".to_owned(), format!("exact:{at}")];
                let private = ["urlpattern:/a/:b".to_owned()];
                audience.view(&topics, &private).expect("a view")
            })
            .collect();
        let topics = of(&["/x/y", "/a/b"]);
        let mut out = vec![7];
        let ((), count) = counted::during(&counted::COMPARED, || {
            audience.select(&topics, true, &mut out);
        });
        assert_eq!((out.len(), count), (1 + held.len(), 1));
    }

    #[test]
    fn skips_templates_without_rights_for_private_updates() {
        let mut audience = Audience::new(TEMPLATES_MAX, Syntax::Templates);
        let topics = |at: usize| [format!("{{a{at}}}")];
        let all = texts(&["*"]);
        let mut held: Vec<_> = (0..KEPT_MIN)
            .map(|at| {
                let private = if at < 2 { &all[..] } else { &[] };
                audience.view(&topics(at), private).expect("a view")
            })
            .collect();
        let compared = |audience: &mut Audience| {
            let mut out = Vec::new();
            counted::during(&counted::SELECTORS, || {
                audience.select(&of(&["x"]), true, &mut out);
                out
            })
        };
        assert_eq!(compared(&mut audience), (vec![*held[0], *held[1]], 2));
        // The view with rights ends. The template's other view has no rights.
        held[0] = audience.view(&topics(0), &[]).expect("a view");
        audience.let_go();
        assert_eq!(compared(&mut audience), (vec![*held[1]], 1));
    }

    #[test]
    fn looks_up_exact_rights() {
        let mut audience = Audience::new(TEMPLATES_MAX, Syntax::Templates);
        let private: Vec<String> = (0..1024).map(|at| format!("a{at}")).collect();
        let view = audience.view(&texts(&["*"]), &private).expect("a view");
        let topics: Vec<Topic> = (0..128).map(|at| Topic::new(format!("b{at}"))).collect();
        let mut out = Vec::new();
        let ((), count) = counted::during(&counted::SELECTORS, || {
            audience.select(&topics, true, &mut out);
        });
        assert_eq!((out.len(), count), (0, 0));
        assert!(audience.selects(*view, &of(&["x", "a1023"]), true));
        assert!(!audience.selects(*view, &of(&["x", "a1024"]), true));
    }

    #[test]
    fn removes_duplicate_views_of_many_templates() {
        let mut audience = Audience::new(TEMPLATES_MAX, Syntax::Templates);
        let templates: Vec<String> = (0..64).map(|at| format!("{{a{at}}}")).collect();
        let held: Vec<_> = (0..KEPT_MIN)
            .map(|at| {
                let mut topics = templates.clone();
                topics.push(format!("/{at}"));
                audience.view(&topics, &[]).expect("a view")
            })
            .collect();
        let topics: Vec<Topic> = (0..64).map(|at| Topic::new(format!("b{at}"))).collect();
        let mut out = Vec::new();
        audience.select(&topics, false, &mut out);
        assert_eq!(out.len(), held.len());
        assert!(out.capacity() <= 8 * KEPT_MIN, "{}", out.capacity());
    }

    #[test]
    fn bounds_the_search_for_a_refused_subscriber() {
        const VIEWS: usize = 8 * SEARCHED_MAX;
        let mut audience = Audience::new(VIEWS, Syntax::Templates);
        let mut held: Vec<_> = (0..VIEWS)
            .map(|at| audience.view(&[format!("{at}{{a}}")], &[]).expect("a view"))
            .collect();
        let mut ask = |times: usize| {
            counted::during(&counted::SEARCHES, || {
                let mut asked = (0..times).map(|_| audience.view(&texts(&["x{a}"]), &[]));
                asked.find_map(Result::ok)
            })
        };
        let (view, searched) = ask(1);
        assert!(view.is_none() && searched <= SEARCHED_MAX, "{searched}");
        held.pop();
        assert!(ask(VIEWS / SEARCHED_MAX + 1).0.is_some());
    }

    #[test]
    fn skips_templates_of_departed_subscribers() {
        let mut audience = Audience::new(TEMPLATES_MAX, Syntax::Templates);
        let alive = audience.view(&texts(&["a/{x}"]), &[]).expect("a view");
        let held: Vec<_> = (0..79)
            .map(|at| {
                let topics: Vec<String> = (0..125).map(|it| format!("{{a{at}_{it}}}")).collect();
                let topics = [&topics[..], &texts(&["a/{x}", "b", "*"])].concat();
                audience.view(&topics, &topics).expect("a view")
            })
            .collect();
        drop(held);
        let mut out = Vec::new();
        let ((), compared) = counted::during(&counted::SELECTORS, || {
            audience.select(&of(&["a/1"]), false, &mut out);
        });
        assert_eq!((&out[..], compared), (&[*alive][..], 1));
        assert_eq!((audience.len(), audience.templates_len), (1, 1));
        assert_eq!((audience.any.len(), audience.exact.len()), (0, 0));
        assert_eq!(audience.selectors.len(), 1);
    }

    #[test]
    fn returned_view_is_removed_completely() {
        let mut audience = Audience::new(TEMPLATES_MAX, Syntax::Templates);
        let topics = texts(&["a/{x}", "b", "*"]);
        let one = audience.view(&topics, &topics).expect("a view");
        let other = audience.view(&topics, &topics).expect("a view");
        audience.give_back(one);
        assert_eq!(audience.len(), 1);
        audience.give_back(other);
        assert_eq!((audience.len(), audience.templates_len), (0, 0));
        assert!(audience.selectors.is_empty() && audience.by_rule.is_empty());
    }

    #[test]
    fn bounds_the_templates_of_one_address() {
        let audience = Audience::new(100, Syntax::Templates);
        let mut audience = audience.with_templates_per_address(10);
        let (one, other) = (
            Some(IpAddr::from([10, 0, 0, 1])),
            Some(IpAddr::from([10, 0, 0, 2])),
        );
        let topics = |at: usize| [format!("{{a{at}}}"), format!("{{b{at}}}")];
        let mut held: Vec<_> = (0..5)
            .map(|at| audience.view_for(one, &topics(at), &[]).expect("a view"))
            .collect();
        let refused = audience.view_for(one, &topics(5), &[]);
        assert_eq!(refused, Err(AudienceError::AddressFull));
        assert_eq!(audience.templates_len, 10, "what is refused leaves nothing");
        // Present templates count once, and topics without a template do not count.
        assert!(audience.view_for(one, &topics(0), &[]).is_ok());
        assert!(audience.view_for(one, &texts(&["a"]), &[]).is_ok());
        assert!(audience.view_for(other, &topics(5), &[]).is_ok());
        assert!(audience.view_for(None, &topics(6), &[]).is_ok());
        held.pop();
        assert!(audience.view_for(one, &topics(5), &[]).is_ok());
    }

    #[test]
    fn stops_compiling_at_a_refused_selector() {
        let mut audience = of_matchers(1);
        let topics: Vec<String> = (0..100).map(|at| format!("urlpattern:/:a/{at}")).collect();
        let (view, compiled) =
            counted::during(&counted::COMPILED, || audience.view(&topics, &topics));
        assert_eq!((view, compiled), (Err(AudienceError::Full), 2));
        assert_eq!((audience.templates_len, audience.selectors.len()), (0, 0));
    }

    const SELECTORS: [&str; 7] = ["*", "a/1", "a/2", "a/{x}", "b/{x}", "{x}/1", "b/1"];
    const TOPICS: [&str; 5] = ["a/1", "a/2", "b/1", "b/2", "c"];

    proptest! {
        /// Lookup returns the same views as trying every selector.
        #[test]
        fn lookup_equals_trying_every_selector(
            subscribers in proptest::collection::vec(
                (proptest::sample::subsequence(&SELECTORS[..], 1..4), proptest::sample::subsequence(&SELECTORS[..], 0..3)),
                1..12,
            ),
            topics in proptest::sample::subsequence(&TOPICS[..], 1..4),
            is_private: bool,
            left in 0_usize..12,
        ) {
            let mut audience = Audience::new(TEMPLATES_MAX, Syntax::Templates);
            let mut held = Vec::new();
            for (topics, private) in &subscribers {
                let view = audience.view(&texts(topics), &texts(private)).expect("a view");
                held.push((view, topics, private));
            }
            if left < held.len() {
                held.remove(left);
            }
            let topics = of(&topics);
            let matches = |selectors: &[&str]| {
                selectors.iter().any(|it| {
                    let selector = Selector::parse(it).expect("a selector");
                    topics.iter().any(|topic| selector.matches(topic))
                })
            };
            let mut expected: Vec<u64> = held
                .iter()
                .filter(|(_, topics, private)| matches(topics) && (!is_private || matches(private)))
                .map(|(view, _, _)| **view)
                .collect();
            expected.sort_unstable();
            expected.dedup();
            let mut out = Vec::new();
            audience.select(&topics, is_private, &mut out);
            prop_assert_eq!(&out, &expected);
            for (view, _, _) in &held {
                prop_assert_eq!(audience.selects(**view, &topics, is_private), out.contains(view));
            }
        }
    }
}
