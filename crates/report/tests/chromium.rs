//! The page in headless Chromium: it draws every plot, no script fails, and the numbers stay the record's.
//!
//! The browser prints the document after its scripts have run; `assets/report.js` leaves marks in it.

mod diagnoses;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod traffic_run;

use reading::{assert_numbers_are_the_records, attributes};
use report::html::page;
use std::collections::BTreeMap;
use std::process::{Command, Output};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Longest that the browser may take, s; then it is ended.
const LIMIT_S: &str = "120";

/// A page as the browser leaves it.
struct Shown {
    dom: String,
    /// What the page wrote to the console: errors, and loads that the policy refused.
    console: Vec<String>,
}

fn browser() -> &'static str {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    BROWSERS
        .into_iter()
        .find(runs)
        .expect("no Chromium to test the page with; remedy: `make test` installs it, or `apt-get install chromium`")
}

/// Opens `html` at `#fragment` in a window of the given width.
fn show(html: &str, fragment: &str, width: u32) -> Shown {
    let directory = tempfile::tempdir().expect("a place for temporary files");
    let file = directory.path().join("report.html");
    std::fs::write(&file, html).expect("room for one page");
    let output = Command::new("timeout")
        .args(["--kill-after=5", LIMIT_S, browser()])
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args([
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!("--window-size={width},1200"))
        .arg(format!(
            "--user-data-dir={}",
            directory.path().join("profile").display()
        ))
        .arg(format!("file://{}#{fragment}", file.display()))
        .output()
        .expect("coreutils' `timeout` is on every system that has Chromium");
    read(&output)
}

fn read(output: &Output) -> Shown {
    let log = String::from_utf8_lossy(&output.stderr);
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && !dom.is_empty(),
        "{}: {log}",
        output.status
    );
    let console = log.lines().filter(|line| line.contains("CONSOLE"));
    Shown {
        dom,
        console: console.map(str::to_owned).collect(),
    }
}

impl Shown {
    fn assert_no_error(&self) {
        assert_eq!(self.console, Vec::<String>::new());
        assert_eq!(attributes(&self.dom, "data-errors"), Vec::<String>::new());
        assert_eq!(attributes(&self.dom, "data-ready"), ["true"]);
    }

    fn plots(&self) -> usize {
        attributes(&self.dom, "data-plot").len()
    }

    fn drawn(&self) -> usize {
        attributes(&self.dom, "data-drawn").len()
    }

    fn canvases(&self) -> usize {
        self.dom.matches("<canvas").count()
    }
}

#[test]
fn every_plot_is_drawn_and_every_number_is_the_records() {
    let (record, analysis) = fixture::run();
    let html = page(&record, &analysis, &BTreeMap::new());
    let shown = show(&html, "", 1280);
    shown.assert_no_error();
    // Two stages with three curves each, the percentiles, four series of the load, two cores.
    assert_eq!(shown.plots(), 2 * 3 + 1 + 4 + 2);
    assert_eq!(
        (shown.drawn(), shown.canvases()),
        (shown.plots(), shown.plots())
    );
    let numbers = assert_numbers_are_the_records(&shown.dom, &record, &analysis, &BTreeMap::new());
    assert_eq!(numbers, attributes(&html, "data-value").len());
}

#[test]
fn a_trial_without_a_load_says_so_in_place_of_its_plots() {
    let (record, analysis) = fixture::run();
    let fragment = format!("trial={}&theme=dark", fixture::FAILED);
    let shown = show(&page(&record, &analysis, &BTreeMap::new()), &fragment, 1280);
    shown.assert_no_error();
    assert_eq!(attributes(&shown.dom, "data-theme"), ["dark"]);
    assert_eq!((shown.drawn(), shown.canvases()), (7, 7));
    assert_eq!(
        shown.dom.matches("No load ran in this trial.</p>").count(),
        6
    );
}

/// Chromium's window is at least 500 wide: a phone is a frame that tells the page around it its widths.
#[test]
fn a_phone_never_scrolls_the_page_sideways() {
    let (record, analysis) = fixture::large_run();
    assert_fits_a_phone(&page(&record, &analysis, &BTreeMap::new()));
    let (mut record, analysis) = fixture::run();
    let diagnoses = diagnoses::examined(&mut record);
    assert_fits_a_phone(&page(&record, &analysis, &diagnoses));
    let (mut record, _) = fixture::run();
    let diagnoses = diagnoses::watched(&mut record, "p99>50ms");
    let analysis = analysis::analyse(&record).unwrap();
    let document = diagnoses::watched_document(&record, &analysis, &diagnoses);
    assert_fits_a_phone(&report::html::page_of(&record, &analysis, &document));
}

fn assert_fits_a_phone(html: &str) {
    let tell = "<script>addEventListener('load', () => { const e = document.documentElement; \
                document.querySelectorAll('details').forEach((d) => (d.open = true)); \
                parent.postMessage({ ...e.dataset, width: e.clientWidth, scroll: e.scrollWidth, \
                hidden: [...document.querySelectorAll('.stack, .ledger-rows')].filter((t) => \
                t.parentElement.scrollWidth > t.parentElement.clientWidth).map((t) => t.className + ': ' + \
                t.innerText.slice(0, 60)).join('; '), \
                undrawn: document.querySelectorAll('.plot:not([data-drawn])').length }, '*'); })</script></body>";
    let html = html.replace("</body>", tell);
    let framed = html.replace('&', "&amp;").replace('"', "&quot;");
    let phone = format!(
        "<!doctype html><html><script>addEventListener('message', (m) => \
         Object.assign(document.documentElement.dataset, m.data))</script>\
         <iframe style=\"width:390px;height:800px;border:0\" srcdoc=\"{framed}\"></iframe></html>"
    );
    let shown = show(&phone, "", 800);
    let root = shown.dom.split("<iframe").next().unwrap_or_default();
    let mark = |name: &str| attributes(root, name).pop().unwrap_or_default();
    assert_eq!(shown.console, Vec::<String>::new());
    assert_eq!(
        (mark("data-ready"), mark("data-errors")),
        ("true".to_owned(), String::new())
    );
    let width = mark("data-width")
        .parse::<u32>()
        .expect("the page tells its width when it has loaded");
    assert!((360..=390).contains(&width), "{width}");
    assert_eq!(mark("data-scroll"), mark("data-width"));
    assert_eq!(mark("data-undrawn"), "0");
    // Causes, evidence, the ledger and what differs are read without moving them sideways.
    assert_eq!(mark("data-hidden"), "");
}

#[test]
fn the_page_of_traffic_fails_nowhere_and_fits_a_phone() {
    let record = traffic_run::record();
    let analysis = analysis::analyse(&record).expect("a record of traffic");
    let html = page(&record, &analysis, &BTreeMap::new());
    let shown = show(&html, "", 1280);
    shown.assert_no_error();
    assert!(shown.dom.contains("tcps_connattempt"));
    assert_fits_a_phone(&html);
}

/// An index has no scripts of its own, and its policy forbids any: the test lets its own in.
#[test]
fn an_index_fits_a_phone_too() {
    let (record, analysis) = fixture::run();
    let entry = |name: &'static str| report::index::Entry {
        name,
        directory: name,
        record: &record,
        analysis: &analysis,
    };
    let document =
        report::index::index_document(&[entry("monday"), entry("tuesday")], vec![], 0.02);
    let html = report::index::index_page(&document);
    assert!(!html.contains("<script"));
    let mark = "<script>document.documentElement.dataset.ready = 'true'</script></body>";
    assert_fits_a_phone(
        &html
            .replace(
                "default-src 'none'; ",
                "default-src 'none'; script-src 'unsafe-inline'; ",
            )
            .replace("</body>", mark),
    );
}

/// Figures without scripts: each kind is there, and each has a place on the page.
#[test]
fn every_kind_of_figure_has_its_size() {
    let (mut record, analysis) = fixture::run();
    let diagnoses = diagnoses::examined(&mut record);
    let measure = "<script>addEventListener('load', () => { const sizes = {}; \
        document.querySelectorAll('details').forEach((d) => (d.open = true)); \
        for (const figure of document.querySelectorAll('[data-figure], .sizes, .flame')) { \
        const kind = figure.dataset.figure ?? figure.classList[0]; const box = figure.getBoundingClientRect(); \
        sizes[kind] ??= [0, 0]; sizes[kind][0]++; sizes[kind][1] += box.width > 20 && box.height > 5; } \
        document.documentElement.dataset.sizes = Object.entries(sizes) \
        .map(([kind, [all, seen]]) => `${kind} ${all === seen}`).sort().join(); })</script></body>";
    let html = page(&record, &analysis, &diagnoses).replace("</body>", measure);
    let shown = show(&html, "", 1280);
    shown.assert_no_error();
    assert_eq!(
        attributes(&shown.dom, "data-sizes"),
        ["cpu true,flame true,gain true,heat true,level true,sizes true,workers true"]
    );
}

#[test]
fn a_run_without_a_trial_draws_nothing_and_fails_nowhere() {
    let (mut record, mut analysis) = fixture::run();
    record.trials.clear();
    analysis.cells.clear();
    analysis.trials.clear();
    let shown = show(&page(&record, &analysis, &BTreeMap::new()), "", 1280);
    shown.assert_no_error();
    assert_eq!(shown.canvases(), 0);
}

/// The marks that the other tests rely on do appear when a script fails.
#[test]
fn a_broken_page_is_noticed() {
    let (record, analysis) = fixture::run();
    let broken =
        page(&record, &analysis, &BTreeMap::new()).replace("{\"curves\":[", "{\"curves\":[}");
    let shown = show(&broken, "", 1280);
    assert_eq!(attributes(&shown.dom, "data-errors").len(), 1);
    assert_ne!(shown.console, Vec::<String>::new());
    assert_eq!(attributes(&shown.dom, "data-ready"), Vec::<String>::new());
}

/// Clicks a frame, searches, and goes back; each step leaves its mark.
#[test]
fn a_flame_graph_zooms_and_finds() {
    let (mut record, analysis) = fixture::run();
    let diagnoses = diagnoses::examined(&mut record);
    let play = "<script>addEventListener('load', () => { const root = document.documentElement.dataset; \
        const figures = [...document.querySelectorAll('.flames')]; const figure = figures[0]; \
        const graph = figure.querySelector('.flame'); \
        const named = (name) => [...graph.children].find((f) => f.querySelector('text').textContent === name); \
        const shown = () => [...graph.children].filter((f) => f.style.display !== 'none').length; \
        root.graphs = figures.length; root.all = shown(); \
        named('ngx_readv_chain').dispatchEvent(new MouseEvent('click', { bubbles: true })); \
        root.name = graph.dataset.zoomed; root.width = named('ngx_readv_chain').getAttribute('width'); \
        root.parent = named('main').getAttribute('width'); root.fewer = shown(); \
        root.others = figures.slice(1).filter((f) => f.querySelector('.flame').dataset.zoomed).length; \
        figure.querySelector('.flame-reset').click(); root.back = shown(); \
        const search = figure.querySelector('.flame-search'); search.value = 'readv'; \
        search.dispatchEvent(new Event('input')); root.found = graph.dataset.found; \
        root.hits = graph.querySelectorAll('.hit').length; \
        root.said = figure.querySelector('.flame-said').textContent; })</script></body>";
    let html = page(&record, &analysis, &diagnoses).replace("</body>", play);
    let shown = show(&html, "", 1280);
    shown.assert_no_error();
    let root = shown.dom.split("<head").next().unwrap();
    let mark = |name: &str| {
        attributes(root, &format!("data-{name}"))
            .pop()
            .unwrap_or_default()
    };
    let number = |name: &str| mark(name).parse::<f64>().unwrap();
    // Two profiles of each cell, and two differences.
    assert_eq!(mark("graphs"), "6");
    assert_eq!(
        (mark("name").as_str(), mark("width").as_str()),
        ("ngx_readv_chain", "100%")
    );
    assert_eq!(mark("parent"), "100%");
    assert!(number("fewer") < number("all"));
    assert_eq!((mark("others").as_str(), mark("back")), ("0", mark("all")));
    // 118 and 47 of the 792 samples.
    assert_eq!(mark("found"), "20.8");
    assert_eq!(mark("said"), "20.8 % match");
    assert!(number("hits") >= 3.0);
}
