//! Checks the page about Pushpin's options and tests: it lists every option and test, and names
//! only existing cases.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use fermata_testkit::install::skipped;
use fermata_testkit::{wait_until, workspace_root};

const PAGE: &str = "docs/pushpin-options.md";
const CONF: &str = "/etc/pushpin/pushpin.conf";

/// Returns the rows of all tables, split into cells.
fn rows(page: &str) -> Vec<Vec<String>> {
    let lines = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains(" | Why |"));
    let cells = |line: &str| {
        let inner = line.trim_matches('|');
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    lines.map(cells).collect()
}

fn page() -> String {
    fs::read_to_string(workspace_root().join(PAGE)).expect(PAGE)
}

/// Returns the rows of the table below one heading.
fn table(page: &str, title: &str) -> Vec<Vec<String>> {
    let (_, rest) = page.split_once(&format!("\n## {title}\n")).expect(title);
    rows(rest.split("\n## ").next().unwrap_or_default())
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_row_says_how_it_is_and_why() {
    let page = page();
    let rows = rows(&page);
    assert!(rows.len() > 100, "{} rows", rows.len());
    for row in rows {
        let [.., third, _] = &row[..] else {
            panic!("{row:?}");
        };
        // In tables of options the verdict is in the third column; in the other tables it is in the
        // second column, before the reason.
        let (verdict, why) = match third.as_str() {
            "same" | "stricter" | "differs" => (third, &row[3]),
            _ => (&row[1], third),
        };
        match verdict.as_str() {
            "same" => {}
            "stricter" | "differs" => assert!(!why.is_empty(), "no reason: {row:?}"),
            other => panic!("{other:?} is no verdict: {row:?}"),
        }
    }
}

/// Adds the names of the tests below a folder.
fn add_tests(folder: &Path, known: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_tests(&path, known);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let names = text.split("#[test]\n").skip(1);
            known.extend(names.filter_map(|rest| {
                let (_, name) = rest.split_once("fn ")?;
                Some(name.split_once('(')?.0.to_owned())
            }));
        }
    }
}

#[test]
fn cases_of_the_page_exist() {
    let mut known: BTreeSet<String> = crate::cases::all()
        .map(|(name, _)| name.to_owned())
        .collect();
    for folder in ["tests/edge", "crates"] {
        add_tests(&workspace_root().join(folder), &mut known);
    }
    let page = page();
    let is_verdict = |cell: &str| matches!(cell, "same" | "stricter" | "differs");
    // Tables whose last column names cases.
    let with_cases = rows(&page).into_iter().filter(|row| is_verdict(&row[1]));
    let named: Vec<String> = with_cases
        .filter_map(|row| row.last().cloned())
        .flat_map(|cell| quoted(&cell).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(named.len() > 40, "{named:?}");
    for name in named {
        assert!(known.contains(&name), "{name} is no case");
    }
}

#[test]
fn every_test_of_pushpin_has_a_row() {
    let page = page();
    let mut told: BTreeSet<(String, String)> = BTreeSet::new();
    for row in rows(&page).iter().filter(|row| row[0].starts_with('`')) {
        let Some((file, tests)) = row[0][1..].split_once("` ") else {
            continue;
        };
        for test in tests.split(", ") {
            let is_new = told.insert((file.to_owned(), test.to_owned()));
            assert!(is_new, "{file} {test} has two rows");
        }
        // Behaviour visible to clients has a test that shows it.
        let has_test = quoted(&row[3]).next().is_some();
        assert!(has_test || row[1] == "differs", "no test: {row:?}");
    }
    let list = workspace_root().join("tests/edge/pushpin-tests.txt");
    let list = fs::read_to_string(list).expect("the list of Pushpin's tests");
    let mut count = 0;
    for line in list.lines() {
        let (file, tests) = line.split_once(": ").expect("FILE: TESTS");
        for test in tests.split(' ') {
            let is_told = told.remove(&(file.to_owned(), test.to_owned()));
            assert!(is_told, "{file} {test} has no row in {PAGE}");
            count += 1;
        }
    }
    assert!(told.is_empty(), "Pushpin has no such tests: {told:?}");
    assert!(page.contains(&format!(
        "All {count} tests of the {} files",
        list.lines().count()
    )));
}

#[test]
fn every_option_of_pushpin_has_a_row() {
    let Ok(conf) = fs::read_to_string(CONF) else {
        return skipped("Debian's package pushpin is not installed");
    };
    let page = page();
    let known: BTreeSet<String> = rows(&page)
        .iter()
        .flat_map(|row| quoted(&row[0]).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let mut section = String::new();
    let mut count = 0;
    for line in conf.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        }
        // Commented-out keys are options, too; in prose, blanks precede the text that resembles a
        // value.
        let key = line
            .trim_start_matches('#')
            .split_once('=')
            .map(|(key, _)| key);
        if let Some(key) = key.filter(|key| !key.is_empty() && !key.contains(' ')) {
            let key = format!("{section}.{key}");
            assert!(known.contains(&key), "{key} of {CONF} has no row");
            count += 1;
        }
    }
    assert!(count > 40, "{count} keys");
    let help = Command::new("pushpin")
        .arg("--help")
        .output()
        .expect("it is installed");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let options = help
        .split_whitespace()
        .filter(|word| word.starts_with("--"));
    let options: Vec<&str> = options
        .map(|word| word.trim_end_matches([',', '.']))
        .collect();
    assert!(options.len() > 5, "{help}");
    for option in options {
        let name = option.split('=').next().unwrap_or(option);
        assert!(
            known.contains(name),
            "{option} of pushpin --help has no row"
        );
    }
}

/// Returns the texts in Pushpin's binaries that look like configuration keys, including
/// undocumented ones.
fn keys_in(program: &[u8]) -> BTreeSet<String> {
    let texts = program.split(|byte| !byte.is_ascii_graphic());
    let texts = texts.filter_map(|text| std::str::from_utf8(text).ok());
    let keys = texts.filter_map(|text| {
        let (section, name) = text.split_once('/')?;
        let is_section = ["global", "runner", "proxy", "handler"].contains(&section);
        let is_name = name
            .bytes()
            .all(|it| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        (is_section && is_name && name.len() > 2).then(|| format!("{section}.{name}"))
    });
    keys.collect()
}

#[test]
fn every_key_that_programs_of_pushpin_read_has_a_row() {
    let page = page();
    let rows = table(&page, "Keys of pushpin.conf");
    let told: BTreeSet<&str> = rows.iter().flat_map(|row| quoted(&row[0])).collect();
    let mut count = 0;
    for name in ["pushpin", "pushpin-proxy", "pushpin-handler"] {
        let Ok(program) = fs::read(Path::new("/usr/bin").join(name)) else {
            return skipped("Debian's package pushpin is not installed");
        };
        for key in keys_in(&program) {
            assert!(told.contains(&key[..]), "{key} of {name} has no row");
            count += 1;
        }
    }
    assert!(count > 80, "{count} keys");
}

#[test]
fn every_word_of_pushpin_has_a_row() {
    let page = page();
    let list = workspace_root().join("tests/edge/pushpin-words.txt");
    let list = fs::read_to_string(list).expect("the list of Pushpin's words");
    assert!(list.lines().count() > 15, "{list}");
    for line in list.lines() {
        let (title, words) = line.split_once(": ").expect("TITLE: WORDS");
        let rows = table(&page, title);
        let mut told = BTreeSet::new();
        for row in &rows {
            for word in quoted(&row[0]) {
                assert!(told.insert(word), "{title}: {word} has two rows");
            }
            // A test shows each behaviour that equals Pushpin's.
            let has_case = quoted(&row[3]).next().is_some();
            assert!(
                has_case || row[1] == "differs" || row[0] == "unknown ones",
                "no case: {row:?}"
            );
        }
        for word in words.split(' ') {
            assert!(told.remove(word), "{title}: {word} has no row");
        }
        assert!(told.is_empty(), "{title}: Pushpin has no {told:?}");
    }
}

/// Adds the string literals of the sources, without tests, as written.
fn add_literals(folder: &Path, known: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            add_literals(&path, known);
        } else if path.extension().is_some_and(|it| it == "rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).expect("a source");
            let text = text.split("#[cfg(test)]\nmod tests").next();
            let lines = text.unwrap_or_default().lines();
            let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
            for line in lines {
                known.extend(line.split('"').map(str::to_ascii_lowercase));
            }
        }
    }
}

/// Names of fields, headers and methods appear in our source files if the page states that they
/// work as in Pushpin, and do not appear if it states that they have no effect.
#[test]
fn words_of_the_page_are_those_of_the_sources() {
    let mut known = BTreeSet::new();
    // The crates that read ZHTTP, Pushpin's control messages, GRIP and the commands.
    for folder in ["edge", "edge-pushpin", "grip", "cli"] {
        let folder = format!("crates/{folder}/src");
        add_literals(&workspace_root().join(folder), &mut known);
    }
    let page = page();
    let list = workspace_root().join("tests/edge/pushpin-words.txt");
    let list = fs::read_to_string(list).expect("the list of Pushpin's words");
    let titles = list.lines().filter_map(|line| line.split(": ").next());
    // Except tables about the tests of programs, and paths.
    let others = ["of routes", "pushpin-publish", "Paths of"];
    let titles = titles.filter(|title| !others.iter().any(|it| title.contains(it)));
    let mut count = 0;
    for title in titles {
        for row in table(&page, title) {
            let has_effect = !row[2].starts_with("no effect") && !row[2].starts_with("not sent");
            for word in quoted(&row[0]) {
                let is_known = known.contains(&word.to_ascii_lowercase());
                let is_right = is_known == has_effect || row[2].starts_with("not sent");
                assert!(
                    is_right,
                    "{title}: {word}: {}",
                    if is_known {
                        "it is read"
                    } else {
                        "it is not read"
                    }
                );
                count += 1;
            }
        }
    }
    assert!(count > 200, "{count} words");
}

#[test]
fn the_flags_of_the_page_exist() {
    let help = |command: &str| {
        let output = Command::new(fermata_testkit::command_path())
            .args([command, "--help"])
            .output();
        let output = output.expect("build/fermata can be started; `make` builds it");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let has = |help: &str, flag: &str| {
        let mut words = help.split(|it: char| it.is_whitespace() || it == ',');
        words.any(|word| word == flag)
    };
    let (page, edge, publish) = (page(), help("edge"), help("publish"));
    let mut count = 0;
    let flags = |cell: &str| -> Vec<String> {
        let words = quoted(cell).flat_map(|it| it.split(' '));
        words
            .filter(|it| it.starts_with("--"))
            .map(str::to_owned)
            .collect()
    };
    for row in table(&page, "Options of the program") {
        let is_of_edge = !row[1].contains("`fermata ");
        for flag in flags(&row[1]).iter().filter(|_| is_of_edge) {
            assert!(has(&edge, flag), "fermata edge has no {flag}: {row:?}");
            count += 1;
        }
    }
    for row in table(&page, "Options of pushpin-publish") {
        for flag in flags(&row[0]).iter().filter(|_| row[1] != "differs") {
            assert!(
                has(&publish, flag),
                "fermata publish has no {flag}: {row:?}"
            );
            count += 1;
        }
    }
    assert!(count > 15, "{count} flags");
    let Ok(theirs) = Command::new("pushpin-publish").arg("--help").output() else {
        return skipped("Debian's package pushpin is not installed");
    };
    let theirs = String::from_utf8_lossy(&theirs.stdout).into_owned();
    let rows = table(&page, "Options of pushpin-publish");
    let told: BTreeSet<&str> = rows.iter().flat_map(|row| quoted(&row[0])).collect();
    let words = theirs
        .split([' ', '\n', ','])
        .filter(|it| it.starts_with("--") && it.len() > 2);
    for flag in words {
        assert!(
            told.contains(flag),
            "{flag} of pushpin-publish --help has no row"
        );
    }
}

#[test]
fn what_has_no_effect_is_said_at_the_start() {
    let page = page();
    let keys = rows(&page)
        .into_iter()
        .filter(|row| row[1] == "none" && row[0].contains('.'));
    let keys: Vec<String> = keys
        .flat_map(|row| quoted(&row[0]).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(keys.len() > 40, "{keys:?}");
    let folder = fermata_testkit::Directory::new();
    let mut conf = String::new();
    for key in &keys {
        let (section, name) = key.split_once('.').expect("SECTION.KEY");
        conf += &format!("[{section}]\n{name}=1\n");
    }
    folder.write("pushpin.conf", &conf);
    folder.write("routes", "* 127.0.0.1:9\n");
    let own = crate::own::Own::start(&["--pushpin-config", &folder.path().display().to_string()]);
    for key in keys {
        let name = key.split_once('.').map_or("", |(_, name)| name);
        // The ports may respond before all lines are written.
        wait_until(&format!("{key} is named at the start"), || {
            let log = own.log();
            let mut lines = log.lines().filter(|line| line.contains("has no effect"));
            let is_said = lines.any(|line| line.contains(&key) || line.contains(name));
            is_said.then_some(())
        });
    }
}
