//! What admins and users may say, and what it means.

mod layers;

use super::options::{ARGUMENTS, WORDS, help};
use super::*;
use crate::libraries::wanted::Fabric;
use crate::placement::{NicsEach, Policy, Strictness};
use crate::policy::Through;
use crate::topology::PathType;
use crate::wish::{Libraries, Switch};

fn words(text: &str) -> Words {
    Words::parse(text).unwrap()
}

/// The admin's wish and the findings, by these arguments.
fn admin(arguments: &[&str]) -> (Admin, Vec<String>) {
    let (admin, findings) = Admin::parse(arguments.iter().copied());
    let findings = findings.iter().map(ToString::to_string);
    (admin, findings.collect())
}

#[test]
fn the_option_without_words_is_the_same_in_all_of_slurms_spellings() {
    for text in ["", "(null)", ",", " "] {
        assert_eq!(words(text), Words::default(), "`{text}`");
    }
    assert_eq!(words("off").policy, Some(Switch::Off));
}

#[test]
fn every_word_of_the_table_is_understood_and_shown_by_the_help() {
    let help = help();
    // an example for each name of a value
    let examples = rows! {
        "LIBRARY,…", "ucx,nccl"; "NAME,…", "NCCL_IB_HCA"; "NAME=TEMPLATE", "MINE={nic}";
        "nics-per-task=1-8", "nics-per-task=2"; "WORDS", "numa"; "NIC,…", "mlx5_0";
        "PATH:PERCENT,…", "SYS:50"; "SECONDS", "60"; "PERCENT%[,observe]", "10%,observe";
        "conf=FILE", "conf=/etc/c.conf"; "node-file=PATH", "node-file=/run/node.json";
    };
    let words = WORDS.iter().map(|spec| (spec, true));
    for (spec, is_word) in words.chain(ARGUMENTS.iter().map(|spec| (spec, false))) {
        let shown = format!("  {}", spec.spelling());
        assert!(help.contains(&shown), "{shown}");
        for value in spec.value.split('|') {
            let mut text = format!("{}={value}", spec.name);
            for (name, example) in examples {
                text = text.replace(name, example);
            }
            let text = text.trim_end_matches('=');
            match is_word {
                true => assert!(Words::parse(text).is_ok(), "`{text}`"),
                false => assert_eq!(admin(&[text]).1, [""; 0], "`{text}`"),
            }
        }
    }
}

#[test]
fn a_word_that_is_not_understood_is_named_with_the_one_that_was_meant() {
    let long = format!("{} | 2000 bytes | at most 1024", "x".repeat(2000));
    for row in [
        "verbose,closet | word `closet`, did you mean `closest`? | srun --nic-placement=help",
        "xyzzy | unknown word `xyzzy`: | srun --nic-placement=help",
        // less than half of a word is there
        "on | unknown word `on`: `srun",
        "yes | unknown word `yes`: `srun",
        "1 | unknown word `1`: `srun",
        "true | unknown word `true`: `srun",
        "bind=cpu | `bind=cpu` is not | expected `bind=auto|numa|core|none`",
        "bind | `bind` is not | expected `bind=auto|numa|core|none`",
        "verbose=2 | `verbose=2` is not | expected `verbose`",
        "nics-per-task=9 | `nics-per-task=9` is | expected `nics-per-task=auto|1-8`",
        "strict,restricted | `strict` and `restricted` | cannot both hold",
        "numa,off | `numa` and `off` | cannot both hold",
        "off,observe | `off` and `observe` | cannot both hold",
        "observe,off | `observe` and `off` | cannot both hold",
        &long,
        // no control characters reach a terminal
        "a\n\u{1b}[2J | unknown word `a\\n\\u{1b}[2J`",
        "env=uxc | `env=uxc`: no library | known: default, none, ucx",
        "env=ucx+uxc | `env=uxc`: no library | known: default, none, ucx",
        "no-env=ucx | `no-env=ucx` | expected the name of a",
        // no list is open, or it has ended
        "verbose,nccl | unknown word `nccl`",
        "env=ucx,verbose,nccl | unknown word `nccl`",
        "env | `env` is not | expected `env=",
        "env= | `env=` is not | expected `env=",
        "env=,ucx | `env=` is not | expected `env=",
        "no-env | `no-env` is not | expected `no-env=",
        "no-env= | `no-env=` is not | expected `no-env=",
    ] {
        let mut cells = row.split(" | ");
        let text = cells.next().unwrap();
        let said = Words::parse(text).unwrap_err().to_string();
        assert!(cells.all(|part| said.contains(part)), "`{text}`: {said}");
    }
    for bad in ["no-env=*", "no-env=nccl_*", "env=nccl_ib", "env=ucx*"] {
        assert!(Words::parse(bad).is_err(), "`{bad}`");
    }
}

/// The wish by the admin's `default=`, the environment and the option.
fn merged(default: &str, environment: Option<&str>, option: Option<&str>) -> Wish {
    let admin = with! { Admin { default: words(default) } };
    let (environment, option) = (environment.map(words), option.map(words));
    Wish::new(admin, environment.as_ref(), option.as_ref())
}

#[test]
fn the_option_beats_the_environment_and_that_the_admins_default() {
    for (default, environment, option, expected) in rows! {
        "", None, None, "off"; "", None, Some(""), "closest"; "", Some(""), None, "closest";
        "numa", None, None, "numa"; "numa", None, Some(""), "numa";
        "off", None, Some("verbose"), "closest"; "numa", None, Some("off"), "off";
        "numa", Some("off"), None, "off"; "numa", Some("off"), Some(""), "numa";
        "numa", Some("all"), Some("off"), "off"; "verbose", None, None, "off";
        "closest", Some("numa"), Some("all"), "all";
        // the user's request counts where the admin only observes
        "observe", None, None, "observe closest";
        "rail,observe,strict", None, None, "observe rail";
        "observe", None, Some(""), "closest"; "observe", None, Some("off"), "off";
        "observe", Some("off"), None, "off";
        "observe", Some("off"), Some("verbose"), "closest";
        "closest", None, Some("observe"), "observe closest";
        "", Some("observe"), None, "observe closest"; "", Some("observe"), Some("rail"), "rail";
        "off", None, Some("observe"), "observe closest";
    } {
        let wish = merged(default, environment, option);
        let policy = match (wish.enabled, wish.observe) {
            (false, _) => "off".to_string(),
            (true, false) => wish.policy.to_string(),
            (true, true) => format!("observe {}", wish.policy),
        };
        assert_eq!(policy, expected, "`{default}` {environment:?} {option:?}");
    }
    let both = merged("bind=none,verbose", None, Some("strict"));
    let found = (both.bind, both.verbose, both.dry_run);
    assert_eq!(found, (Bind::None, true, false));
    assert_eq!(both.strictness, Strictness::Strict);
    let softened = merged("restricted,nics-per-task=2", Some("best-effort"), None);
    assert_eq!(softened.strictness, Strictness::BestEffort);
    assert_eq!(softened.nics_per_task, NicsEach::Number(2));
    let taken_back = merged("nics-per-task=2", Some("nics-per-task=auto"), None);
    assert_eq!(taken_back.nics_per_task, NicsEach::Auto);
}

#[test]
fn a_policy_and_a_strictness_are_written_by_their_own_words() {
    for (word, policy) in Policy::ALL {
        assert_eq!(policy.to_string(), word);
        assert_eq!(words(word).policy, Some(Switch::On(policy)));
    }
    for (word, strictness) in Strictness::ALL {
        assert_eq!(strictness.to_string(), word);
        assert_eq!(words(word).strictness, Some(strictness));
    }
}

#[test]
fn memory_follows_the_cpus_unless_a_word_says_otherwise() {
    for (option, bind, mem) in rows! {
        "", Bind::Auto, Mem::Prefer; "bind=numa", Bind::Numa, Mem::Prefer;
        "bind=core", Bind::Core, Mem::Prefer; "bind=none", Bind::None, Mem::None;
        "bind=none,mem=prefer", Bind::None, Mem::Prefer; "mem=strict", Bind::Auto, Mem::Strict;
        "mem=none", Bind::Auto, Mem::None;
    } {
        let wish = merged("", None, Some(option));
        assert_eq!((wish.bind, wish.mem), (bind, mem), "`{option}`");
    }
    let admins = merged("numa,bind=none,mem=strict,omp=on", None, None);
    let users = merged("numa,mem=strict,omp=on", Some("omp=off"), Some("mem=none"));
    let of = |wish: Wish| (wish.mem, wish.omp, wish.by_user);
    assert_eq!(of(admins), (Mem::Strict, true, false));
    assert_eq!(of(users), (Mem::None, false, true));
    // a binding of the admin's is not the user's
    for (environment, option, by_user) in [
        (None, Some("verbose"), false),
        (Some("bind=numa"), Some("verbose"), true),
        (Some("verbose"), Some("bind=none"), true),
    ] {
        let wish = merged("bind=core", environment, option);
        assert_eq!(wish.bind_by_user, by_user, "{environment:?} {option:?}");
        // reasons are shown unless a caller leaves them out
        assert!(!wish.wordless);
    }
}

#[test]
fn an_admins_typo_is_named_with_the_argument_that_was_meant() {
    let all = "exclud=mlx5_1 include=mlx5_* default=closet machine=a sysfs=/x";
    let (found, findings) = admin(&all.split(' ').collect::<Vec<_>>());
    let starts = [
        "`plugstack.conf: exclud=mlx5_1`: unknown argument, did you mean `exclude`?",
        "`plugstack.conf: default=closet`: unknown word `closet`",
        "`plugstack.conf: sysfs=/x`: only one of",
    ];
    assert_eq!(findings.len(), starts.len());
    for (finding, start) in findings.iter().zip(starts) {
        assert!(finding.starts_with(start), "{finding}");
    }
    assert_eq!(found.selection.include.len(), 1);
    assert_eq!(found.source, NodeSource::Machine("a".into()));
}

#[test]
fn of_thousands_of_mistakes_each_is_named_and_few_are_looked_up() {
    let unknown: Vec<String> = (0..9_000).map(|number| format!("exclu{number}")).collect();
    let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
    let words = vec!["default=clo"; 2_000];
    for (arguments, last) in [
        (&unknown, "`plugstack.conf: exclu8999`: unknown argument"),
        (&words, "`plugstack.conf: default=clo`: not understood"),
    ] {
        let (_, findings) = admin(arguments);
        assert_eq!(findings.len(), arguments.len());
        let looked_up =
            |finding: &&String| finding.contains("list all") || finding.contains("lists all");
        assert_eq!(findings.iter().filter(looked_up).count(), 16);
        assert_eq!(findings.last().unwrap(), last);
    }
    let (found, findings) = admin(&[&format!("set=OWN=1{}", ";LD_PRELOAD=2".repeat(9_000))]);
    let text = &findings[0];
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(text.len() < 8192 && text.ends_with("; what follows is not read"));
    assert_eq!(found.templates.len(), 1);
}

#[test]
fn a_list_of_more_nics_than_a_node_has_is_refused_and_the_one_before_holds() {
    let many = |list: &str, number: usize| format!("{list}={}", vec!["mlx5_0"; number].join(","));
    for list in ["include", "exclude", "rails"] {
        let (found, findings) = admin(&[&format!("{list}=a,b"), &many(list, 257)]);
        let selection = &found.selection;
        let kept = [&selection.include, &selection.exclude, &found.rails].map(Vec::len);
        assert_eq!(kept.iter().sum::<usize>(), 2, "{list}");
        assert!(findings[0].contains("more than 256 NICs"), "{findings:?}");
        // of several arguments together
        assert_eq!(admin(&[&many(list, 200), &many(list, 57)]).1.len(), 1);
        assert_eq!(admin(&[&many(list, 256), "cache=1"]).1, [""; 0]);
    }
}

#[test]
fn an_admin_may_say_what_paths_let_through_and_a_list_with_a_mistake_changes_nothing() {
    let through = admin(&["lets-through=SYS:60,PHB:100"]).0.through;
    let paths = [PathType::Pix, PathType::Phb, PathType::Node, PathType::Sys];
    assert_eq!(paths.map(|path| through.of(path)), [1000, 1000, 900, 600]);
    for bad in ["SYS:60,PHB:0", "SYS:60,XYZ:5", "SYS:101", "SYS"] {
        let (found, findings) = admin(&[&format!("lets-through={bad}")]);
        assert_eq!(found.through, Through::default(), "`{bad}`");
        assert_eq!(findings.len(), 1, "`{bad}`");
    }
}

fn libraries(words: &[&str]) -> Libraries {
    let each = words.iter().map(|word| Libraries::named(word).unwrap());
    each.fold(Libraries::NONE, Libraries::with)
}

#[test]
fn a_list_goes_on_over_commas_as_long_as_its_words_belong_to_it() {
    for (text, expected) in rows! {
        "env=ucx", Some(&["ucx"][..]); "env=ucx,nccl", Some(&["ucx", "nccl"]);
        "env=ucx+nccl,nvshmem,verbose", Some(&["ucx", "nccl", "nvshmem"]);
        "env=default,libfabric", Some(&["default", "libfabric"]);
        "env=ucx,env=nccl", Some(&["nccl"]); "env=none", Some(&[]); "verbose", None;
    } {
        assert_eq!(words(text).env, expected.map(libraries), "`{text}`");
    }
    // words behind the list are words again
    let strict = words("env=ucx,numa,strict");
    assert_eq!(strict.strictness, Some(Strictness::Strict));
    assert_eq!(strict.policy, Some(Switch::On(Policy::Numa)));
    let names = words("no-env=UCX_NET_DEVICES,NCCL_IB_HCA,verbose,no-env=A+B");
    assert_eq!(names.no_env, ["UCX_NET_DEVICES", "NCCL_IB_HCA", "A", "B"]);
    assert!(names.verbose);
}

#[test]
fn the_last_list_of_libraries_holds_and_names_that_any_layer_rules_out_add_up() {
    for (default, environment, option, expected, no_env) in rows! {
        "", "", "", Libraries::default(), "";
        "env=ucx", "", "", libraries(&["ucx"]), "";
        "env=ucx", "env=nccl", "", libraries(&["nccl"]), "";
        "env=ucx", "env=none", "env=nccl", libraries(&["nccl"]), "";
        "no-env=A", "no-env=B", "no-env=C,env=ucx", libraries(&["ucx"]), "A,B,C";
    } {
        let wish = merged(default, Some(environment), Some(option));
        assert_eq!(wish.libraries, expected, "{default} {environment} {option}");
        assert_eq!(wish.no_env.join(","), no_env);
    }
}

#[test]
fn an_admins_own_variables_are_taken_and_mistakes_in_them_named() {
    let all = "set=A={nic} set=LD_PRELOAD=/x set=NCCL_DEBUG=WARN set=A={gpu} \
               fabric=isolated-rails fabric=star set=B={nix}";
    let (found, findings) = admin(&all.split(' ').collect::<Vec<_>>());
    let parts = [
        "`LD_PRELOAD` is refused",
        "if you mean it",
        "`A` is set twice",
        "expected `fabric=routed|isolated-rails`",
        "`{nix}` is not known; known",
    ];
    assert_eq!(findings.len(), parts.len(), "{findings:?}");
    for (finding, part) in findings.iter().zip(parts) {
        assert!(finding.contains(part), "`{finding}` has no `{part}`");
    }
    assert_eq!(names(&found), ["A", "NCCL_DEBUG"]);
    assert_eq!(found.fabric, Fabric::IsolatedRails);
    let (isolated, routed) = ("fabric=isolated-rails", "fabric=routed");
    let zero = "set=NCCL_CROSS_NIC=0";
    let all = "set=UCX_IB_ROCE_REACHABILITY_MODE=all";
    for (arguments, doubts) in rows! {
        // this fabric needs it
        &[isolated, zero][..], 0; &[zero, isolated], 0; &[zero], 1;
        &[isolated, "set=NCCL_CROSS_NIC=1"], 1; &[routed, all], 0; &[all], 1; &[isolated, all], 1;
    } {
        assert_eq!(admin(arguments).1.len(), doubts, "{arguments:?}");
    }
    let many: Vec<String> = (0..40).map(|number| format!("set=N{number}=1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(admin(&many).1.len(), 8, "32 are enough");
    // one `set` can hold what several would
    let several = admin(&["set=A={nic}", "set=B=x;y", "set=C={gpu}"]);
    assert_eq!(admin(&["set=A={nic};B=x;y;C={gpu}"]), several);
    assert_eq!(names(&several.0).len(), 3);
    let (found, findings) = admin(&["set=A={nic};LD_PRELOAD=/x;B={nix};C=1"]);
    assert_eq!(names(&found), ["A", "C"]);
    let told = &findings[0];
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(told.contains("`LD_PRELOAD` is refused") && told.contains("`{nix}` is not known"));
}

fn names(admin: &Admin) -> Vec<&str> {
    let templates = admin.templates.iter();
    templates.map(|template| template.name()).collect()
}

#[test]
fn a_variable_replaces_what_the_allocation_was_given_where_it_was_set_since() {
    for (variable, before, replaces) in rows! {
        None, None, false; Some("off"), None, true; Some("off"), Some("off"), false;
        Some("off"), Some("rail"), true; None, Some("off"), false; Some(""), None, false;
        Some("closet"), None, false; Some("closet"), Some("off"), false;
    } {
        let found = replaces_the_allocations(variable, before);
        assert_eq!(found, replaces, "{variable:?} after {before:?}");
    }
}
