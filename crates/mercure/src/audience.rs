//! Which subscribers get an update.
//!
//! Subscribers with the same topics and the same rights get the same updates: they have one *view*, a number. For an update
//! the views are looked up by its topics, and each distinct template of all subscribers is tried once per topic. So an
//! update costs its topics times the distinct templates, and the views that get it; subscribers of other topics cost
//! nothing, however many they are. Distinct templates, also those of rights, are bounded, and a template of rights is tried
//! once for all views that have it; rights to a topic itself are looked up.
//!
//! A view lives as long as somebody has its number; those that have ended are let go from time to time.

use std::collections::HashMap;
use std::rc::{Rc, Weak};

use crate::TEMPLATE_BYTES;
use crate::selector::{Selector, SelectorError, Syntax};
use crate::topic::Topic;

/// Views before those that have ended are let go.
const KEPT_MIN: usize = 1024;

/// Views and selectors that one refused subscriber may cost to go through, in search of room for its templates.
const SEARCHED_MAX: usize = 1024;

/// Why a subscriber gets no view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AudienceError {
    /// One of its selectors cannot be used.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// There are as many templates as there may be.
    #[error(
        "subscribers of this worker have as many different templates and patterns as mercure.templates_max allows, where \
         each counts once for each {TEMPLATE_BYTES} bytes that it is compiled to; use fewer or simpler ones, or raise it"
    )]
    Full,
}

/// What subscribers with one view have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Rule {
    topics: Box<[Box<str>]>,
    private: Box<[Box<str>]>,
}

struct View {
    number: Weak<u64>,
    topics: Selectors,
    private: Selectors,
}

/// Selectors of which one has to match.
struct Selectors {
    has_any: bool,
    /// Topics, in order.
    exact: Box<[Rc<Selector>]>,
    templates: Box<[Rc<Selector>]>,
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

    /// Whether one is for one of these topics. `matches` is asked of templates.
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
    views: Vec<u64>,
    /// One of the views may get private updates.
    has_rights: bool,
}

/// The views of one worker.
pub struct Audience {
    /// Most distinct templates, by what each counts as.
    templates_max: usize,
    /// How selectors are written.
    syntax: Syntax,
    /// Distinct templates of all selectors, by what each counts as.
    templates_len: usize,
    views: HashMap<u64, View>,
    by_rule: HashMap<Rule, u64>,
    /// Compiled selectors of all views.
    selectors: HashMap<Box<str>, Rc<Selector>>,
    any: Vec<u64>,
    exact: HashMap<Box<str>, Vec<u64>>,
    templates: HashMap<Box<str>, Template>,
    newest: u64,
    /// Views that were left when those that have ended were let go.
    kept: usize,
    /// Subscribers to be refused before room is searched for again, as there was none.
    refusals: usize,
}

impl Audience {
    /// Without subscribers, who may have so many distinct templates in their topics and rights, written in this syntax.
    pub fn new(templates_max: usize, syntax: Syntax) -> Audience {
        Audience {
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
            refusals: 0,
        }
    }

    /// The view of subscribers with these selectors of topics and these rights.
    ///
    /// # Errors
    /// There is none.
    pub fn view(
        &mut self,
        topics: &[String],
        private: &[String],
    ) -> Result<Rc<u64>, AudienceError> {
        let rule = Rule {
            topics: in_order(topics),
            private: in_order(private),
        };
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
                // What of it was compiled is nobody's.
                for text in rule.topics.iter().chain(&rule.private) {
                    self.forget(text);
                }
                return Err(error);
            }
        };
        self.newest += 1;
        let number = Rc::new(self.newest);
        for selector in &topics {
            self.list(selector, *number, !private.is_empty());
        }
        let view = View {
            number: Rc::downgrade(&number),
            topics: Selectors::new(&topics),
            private: Selectors::new(&private),
        };
        self.views.insert(*number, view);
        self.by_rule.insert(rule, *number);
        Ok(number)
    }

    /// Appends the views that get an update, each once.
    pub fn select(&self, topics: &[Topic], is_private: bool, out: &mut Vec<u64>) {
        let start = out.len();
        let mut limit = KEPT_MIN;
        // The same views come by several topics and templates: they do not add up.
        let mut add = |views: &[u64], out: &mut Vec<u64>| {
            out.extend_from_slice(views);
            if out.len() - start > limit {
                sort_from(start, out);
                limit = (2 * (out.len() - start)).max(KEPT_MIN);
            }
        };
        add(&self.any, out);
        for topic in topics {
            if let Some(views) = self.exact.get(topic.text()) {
                add(views, out);
            }
        }
        for template in self.templates.values() {
            // What clients without a token bring costs private updates nothing, and these tell of each that comes or leaves.
            if (template.has_rights || !is_private) && any_matches(&template.selector, topics) {
                add(&template.views, out);
            }
        }
        sort_from(start, out);
        // Many views have the same templates as rights.
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

    /// Whether a view gets an update.
    pub fn selects(&self, number: u64, topics: &[Topic], is_private: bool) -> bool {
        let matches = |selector: &Rc<Selector>| any_matches(selector, topics);
        let view = self.views.get(&number);
        view.is_some_and(|view| view.topics.select(topics, matches))
            && self.may(number, topics, is_private, matches)
    }

    /// Views that somebody has, and those that have ended since.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Whether somebody has a view, and may read the update.
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

    /// Forgets a selector that no view has.
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

    fn list(&mut self, selector: &Rc<Selector>, number: u64, has_rights: bool) {
        match &**selector {
            Selector::Any => self.any.push(number),
            Selector::Exact(text) => self.exact.entry(text.clone()).or_default().push(number),
            Selector::Template(_) | Selector::Pattern { .. } => {
                let entry = self.templates.entry(selector.text().into());
                let template = entry.or_insert_with(|| Template {
                    selector: Rc::clone(selector),
                    views: Vec::new(),
                    has_rights: false,
                });
                template.views.push(number);
                template.has_rights |= has_rights;
            }
        }
    }

    /// Lets go what has ended, so that there are no more templates than there may be.
    fn make_room(&mut self) -> Result<(), AudienceError> {
        // Not for each that comes while there is no room: many views would be gone through by everybody's request.
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err(AudienceError::Full);
        }
        self.let_go();
        if self.templates_len <= self.templates_max {
            return Ok(());
        }
        self.refusals = (self.views.len() + self.selectors.len()) / SEARCHED_MAX;
        Err(AudienceError::Full)
    }

    /// Forgets views that nobody has any more, and what only they had.
    fn let_go(&mut self) {
        #[cfg(test)]
        crate::counted::add(&crate::counted::SEARCHES);
        self.views.retain(|_, view| view.number.strong_count() > 0);
        let views = &self.views;
        let is_kept = |number: &u64| views.contains_key(number);
        self.by_rule.retain(|_, number| is_kept(number));
        self.any.retain(is_kept);
        self.exact.retain(|_, numbers| {
            numbers.retain(is_kept);
            !numbers.is_empty()
        });
        self.templates.retain(|_, template| {
            template.views.retain(is_kept);
            let has_rights = |it: &View| !it.private.is_empty();
            let mut kept = template.views.iter().filter_map(|it| views.get(it));
            template.has_rights = kept.any(has_rights);
            !template.views.is_empty()
        });
        self.selectors
            .retain(|_, selector| Rc::strong_count(selector) > 1);
        self.templates_len = self.selectors.values().map(|it| it.templates()).sum();
        self.kept = self.views.len();
        self.refusals = 0;
    }
}

fn any_matches(selector: &Selector, topics: &[Topic]) -> bool {
    topics.iter().any(|topic| selector.matches(topic))
}

/// Sorts what stands behind a place, each once.
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
    fn the_same_topics_and_rights_are_one_view() {
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
    fn views_that_have_ended_are_let_go() {
        let mut audience = Audience::new(TEMPLATES_MAX, Syntax::Templates);
        for at in 0..10 * KEPT_MIN {
            let topics = [format!("a{at}"), format!("b{at}/{{c}}"), "*".to_owned()];
            let _ = audience.view(&topics, &topics).expect("a view");
        }
        assert!(audience.len() <= KEPT_MIN, "{}", audience.len());
        assert!(audience.selectors.len() <= 2 * KEPT_MIN + 1);
        // One that cannot be used leaves nothing behind.
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
        // Room is not searched for by each that is refused.
        let refused = 2 * TEMPLATES_MAX / SEARCHED_MAX;
        assert!((0..=refused).any(|_| audience.view(&more, &[]).is_ok()));
    }

    fn of_matchers(templates_max: usize) -> Audience {
        let base = Url::parse("https://hub.example/.well-known/mercure", None).expect("a URL");
        Audience::new(templates_max, Syntax::Matchers(base.into()))
    }

    #[test]
    fn a_topic_is_read_once_for_all_patterns() {
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
    fn large_patterns_count_as_many() {
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
        // What is known costs nothing more, and what has left makes room.
        assert!(audience.view(&pattern(0, 500), &[]).is_ok());
        drop(small);
        assert!(audience.view(&pattern(99, 500), &[]).is_ok());
        let error = audience.view(&pattern(0, 100_000), &[]);
        let too_large = AudienceError::Selector(SelectorError::TooLarge);
        assert_eq!(error, Err(too_large));
    }

    #[test]
    fn rights_of_many_views_are_compared_once() {
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
    fn templates_without_rights_are_not_compared_with_private_updates() {
        let mut audience = Audience::new(TEMPLATES_MAX, Syntax::Templates);
        let topics = |at: usize| [format!("{{a{at}}}")];
        let all = texts(&["*"]);
        let mut held: Vec<_> = (0..KEPT_MIN)
            .map(|at| {
                let private = if at < 2 { &all[..] } else { &[] };
                audience.view(&topics(at), private).expect("a view")
            })
            .collect();
        let compared = |audience: &Audience| {
            let mut out = Vec::new();
            counted::during(&counted::SELECTORS, || {
                audience.select(&of(&["x"]), true, &mut out);
                out
            })
        };
        assert_eq!(compared(&audience), (vec![*held[0], *held[1]], 2));
        // Of a template whose view with rights has left, another view has none.
        held[0] = audience.view(&topics(0), &[]).expect("a view");
        audience.let_go();
        assert_eq!(compared(&audience), (vec![*held[1]], 1));
    }

    #[test]
    fn exact_rights_are_looked_up() {
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
    fn views_that_come_by_many_templates_do_not_add_up() {
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
    fn a_subscriber_that_is_refused_does_not_have_all_views_searched() {
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
        let (view, searches) = ask(340);
        assert!(view.is_none());
        // One of 17, and one as views have doubled.
        assert!(searches <= 1 + 340 / 17, "{searches}");
        held.pop();
        assert!(ask(18).0.is_some());
    }

    #[test]
    fn what_is_refused_is_not_compiled_on() {
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
        /// What is looked up is what trying every selector gives.
        #[test]
        fn looking_up_is_trying_all(
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
