//! `prony tune apply|show|restore`: a profile's settings on this host, journalled before they are made.
//!
//! The surprise: `apply` is the one thing that prony leaves behind. Its journal says so, so that the next start
//! does not take it for what a killed prony left; killed in the middle, it is just that and is undone.

use crate::cli::{TuneAction, TuneArgs};
use crate::exit::{Exit, Failure};
use crate::{host, terminal};
use plan::tuning::{Profile, ProfileError, profile, profiles};
use report::tune::{
    AppliedProfile, AppliedRow, ProfileRow, RestoredRow, TuneDocument, TuneRow, text,
};
use sut::tuning::{Outcome, Row, State, Tuner, applied, restore};
use sut::{Journal, TargetError, state_dir};

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when there is no such profile, or no journal.
pub fn run(args: &TuneArgs) -> Result<Exit, Failure> {
    super::recover();
    let tuner = args.root.as_ref().map_or_else(Tuner::default, Tuner::new);
    let (json, document, exit) = match &args.action {
        TuneAction::Apply(a) => {
            let (document, exit) = apply(&tuner, &a.profile, a.dry_run)?;
            (a.json, document, exit)
        }
        TuneAction::Show(a) => (a.json, show(&tuner, a.profile.as_deref())?, Exit::Valid),
        TuneAction::Restore(a) => {
            let (document, exit) = restored(a.profile.as_deref(), a.force, a.dry_run)?;
            (a.json, document, exit)
        }
    };
    if json {
        terminal::result(&super::to_json(&document))?;
    } else {
        terminal::result(&text(&document, terminal::style()))?;
    }
    Ok(exit)
}

fn named(name: &str) -> Result<Profile, Failure> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|e| e.to_string());
    profile(name, &read)
        .map_err(|e: ProfileError| Failure::new(Exit::Usage, e.to_string(), e.remedy()))
}

fn of_profile(action: &str, profile: Profile) -> TuneDocument {
    TuneDocument {
        profile: Some(profile.name),
        about: profile.about,
        by_hand: profile.by_hand,
        ..TuneDocument::new(action)
    }
}

fn apply(tuner: &Tuner, name: &str, dry_run: bool) -> Result<(TuneDocument, Exit), Failure> {
    let profile = named(name)?;
    let rows = if dry_run {
        tuner.look(&profile)
    } else {
        let journal = Journal::open(&state_dir()).map_err(|e| journal_failure(&e))?;
        let tuned = tuner
            .apply(&profile, &journal)
            .map_err(|e| journal_failure(&e))?;
        let at = host::timestamp();
        tuned
            .keep(&profile.name, &at)
            .map_err(|e| journal_failure(&e))?
    };
    let refused = rows.iter().any(|r| r.state == State::Refused);
    let mut document = of_profile("apply", profile);
    document.dry_run = dry_run;
    document.settings = rows.into_iter().map(row).collect();
    document.applied = applied_profiles();
    let exit = if refused {
        Exit::Environment
    } else {
        Exit::Valid
    };
    Ok((document, exit))
}

fn show(tuner: &Tuner, name: Option<&str>) -> Result<TuneDocument, Failure> {
    let mut document = match name {
        Some(name) => {
            let profile = named(name)?;
            let rows = tuner.look(&profile);
            let mut document = of_profile("show", profile);
            document.settings = rows.into_iter().map(row).collect();
            document
        }
        None => {
            let mut document = TuneDocument::new("show");
            let describe = |p: &Profile| ProfileRow {
                name: p.name.clone(),
                about: p.about.clone(),
                settings: u32::try_from(p.set.len()).unwrap_or(u32::MAX),
            };
            document.profiles = profiles().iter().map(describe).collect();
            document
        }
    };
    document.applied = applied_profiles();
    Ok(document)
}

fn restored(
    name: Option<&str>,
    force: bool,
    dry_run: bool,
) -> Result<(TuneDocument, Exit), Failure> {
    let done = restore(&state_dir(), name, force, dry_run).map_err(|e| journal_failure(&e))?;
    let exit = if done.iter().any(|r| r.outcome == Outcome::Failed) {
        Exit::Environment
    } else if done
        .iter()
        .any(|r| matches!(r.outcome, Outcome::Changed | Outcome::Held))
    {
        Exit::Failed
    } else {
        Exit::Valid
    };
    let mut document = TuneDocument::new("restore");
    document.profile = name.map(str::to_owned);
    document.dry_run = dry_run;
    document.restored = done
        .into_iter()
        .map(|r| RestoredRow {
            profile: r.profile,
            name: r.name,
            now: r.now,
            old: r.old,
            outcome: r.outcome.name().to_owned(),
            note: r.note,
        })
        .collect();
    document.applied = applied_profiles();
    Ok((document, exit))
}

fn journal_failure(error: &TargetError) -> Failure {
    Failure::new(
        Exit::Environment,
        format!("the journal of what is changed on this host: {error}"),
        "nothing is changed without it: set XDG_STATE_HOME to a directory that you may write to",
    )
}

fn row(row: Row) -> TuneRow {
    TuneRow {
        name: row.name,
        wanted: row.wanted,
        old: row.old,
        new: row.new,
        state: row.state.name().to_owned(),
        note: row.note,
        remedy: row.remedy,
        why: row.why,
        caution: row.caution,
    }
}

fn applied_profiles() -> Vec<AppliedProfile> {
    applied(&state_dir())
        .into_iter()
        .map(|a| AppliedProfile {
            profile: a.profile,
            at: a.at,
            settings: a
                .settings
                .into_iter()
                .map(|s| AppliedRow {
                    name: s.name,
                    old: s.old,
                    new: s.new,
                    note: s.note,
                })
                .collect(),
        })
        .collect()
}
