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

#[test]
fn the_option_without_words_is_the_same_in_all_of_slurms_spellings() {
    for text in ["", "(null)", ",", " "] {
        assert_eq!(words(text), Words::default(), "`{text}`");
    }
}

#[test]
fn every_word_of_the_table_is_understood_and_shown_by_the_help() {
    let help = help();
    let words = WORDS.iter().map(|spec| (spec, true));
    for (spec, is_word) in words.chain(ARGUMENTS.iter().map(|spec| (spec, false))) {
        assert!(
            help.contains(&format!("  {}", spec.spelling())),
            "`{}` is not in the help",
            spec.name
        );
        let values: Vec<&str> = if spec.value.is_empty() {
            vec![""]
        } else {
            spec.value.split('|').collect()
        };
        for value in values {
            let value = value
                .replace("LIBRARY,…", "ucx,nccl")
                .replace("NAME,…", "NCCL_IB_HCA");
            let value = value.replace("NAME=TEMPLATE", "MINE={nic}");
            let text = if value.is_empty() {
                spec.name.to_string()
            } else {
                format!("{}={value}", spec.name)
            };
            match is_word {
                true => {
                    let text = text.replace("nics-per-task=1-8", "nics-per-task=2");
                    assert!(Words::parse(&text).is_ok(), "`{text}`");
                }
                false => {
                    let text = text
                        .replace("WORDS", "numa")
                        .replace("NIC,…", "mlx5_0")
                        .replace("PATH:PERCENT,…", "SYS:50")
                        .replace("SECONDS", "60")
                        .replace("PERCENT%[,observe]", "10%,observe")
                        .replace("conf=FILE", "conf=/etc/c.conf")
                        .replace("node-file=PATH", "node-file=/run/node.json");
                    assert_eq!(Admin::parse([text.as_str()]).1, [], "`{text}`");
                }
            }
        }
    }
}

#[test]
fn a_word_of_which_less_than_half_is_there_is_not_suggested() {
    for word in ["on", "yes", "1", "true"] {
        let said = Words::parse(word).unwrap_err().to_string();
        let expected = format!("unknown word `{word}`: `srun --nic-placement=help`");
        assert!(said.starts_with(&expected), "{said}");
    }
}

#[test]
fn a_typo_is_named_with_the_word_that_was_meant_and_where_all_are_listed() {
    let message = |text: &str| Words::parse(text).unwrap_err().to_string();
    assert_eq!(
        message("verbose,closet"),
        "unknown word `closet`, did you mean `closest`? `srun --nic-placement=help` and `nic-placement plan --help` list all"
    );
    assert_eq!(
        message("xyzzy"),
        "unknown word `xyzzy`: `srun --nic-placement=help` and `nic-placement plan --help` list all"
    );
    assert_eq!(
        message("bind=cpu"),
        "`bind=cpu` is not understood: expected `bind=auto|numa|core|none`"
    );
    assert_eq!(
        message("bind"),
        "`bind` is not understood: expected `bind=auto|numa|core|none`"
    );
    assert_eq!(
        message("verbose=2"),
        "`verbose=2` is not understood: expected `verbose`"
    );
    assert_eq!(
        message("nics-per-task=9"),
        "`nics-per-task=9` is not understood: expected `nics-per-task=auto|1-8`"
    );
    assert_eq!(
        message("strict,restricted"),
        "`strict` and `restricted` cannot both hold: say one"
    );
    assert_eq!(
        message("numa,off"),
        "`numa` and `off` cannot both hold: say one"
    );
    assert_eq!(
        message(&"x".repeat(2000)),
        "2000 bytes of words: at most 1024 are read"
    );
    let escaped = r"unknown word `a\n\u{1b}[2J`";
    assert!(
        message("a\n\u{1b}[2J").starts_with(escaped),
        "no control characters reach a terminal"
    );
}

/// The wish of an admin with this `default=`.
fn merge(default: &Words, environment: Option<&Words>, option: Option<&Words>) -> Wish {
    let admin = Admin {
        default: default.clone(),
        ..Admin::default()
    };
    Wish::new(admin, environment, option)
}

#[test]
fn the_option_beats_the_environment_and_that_the_admins_default() {
    let merged = |default: &str, environment: Option<&str>, option: Option<&str>| {
        let (environment, option) = (environment.map(words), option.map(words));
        let settings = merge(&words(default), environment.as_ref(), option.as_ref());
        if settings.enabled {
            settings.policy.to_string()
        } else {
            "off".to_string()
        }
    };
    for (default, environment, option, expected) in [
        ("", None, None, "off"),
        ("", None, Some(""), "closest"),
        ("", Some(""), None, "closest"),
        ("numa", None, None, "numa"),
        ("numa", None, Some(""), "numa"),
        ("off", None, Some("verbose"), "closest"),
        ("numa", None, Some("off"), "off"),
        ("numa", Some("off"), None, "off"),
        ("numa", Some("off"), Some(""), "numa"),
        ("numa", Some("all"), Some("off"), "off"),
        ("verbose", None, None, "off"),
        ("closest", Some("numa"), Some("all"), "all"),
    ] {
        assert_eq!(
            merged(default, environment, option),
            expected,
            "default=`{default}` environment {environment:?} option {option:?}"
        );
    }
    let both = merge(&words("bind=none,verbose"), None, Some(&words("strict")));
    assert_eq!(
        (both.bind, both.verbose, both.dry_run),
        (Bind::None, true, false)
    );
    assert_eq!(both.strictness, Strictness::Strict);
    let softened = merge(
        &words("restricted,nics-per-task=2"),
        Some(&words("best-effort")),
        None,
    );
    let again = merge(
        &words("nics-per-task=2"),
        Some(&words("nics-per-task=auto")),
        None,
    );
    assert_eq!(
        again.nics_per_task,
        NicsEach::Auto,
        "a site's number is taken back"
    );
    assert_eq!(
        (softened.strictness, softened.nics_per_task),
        (Strictness::BestEffort, NicsEach::Number(2))
    );
    assert_eq!(words("off").policy, Some(Switch::Off));
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
    for (option, bind, mem) in [
        ("", Bind::Auto, Mem::Prefer),
        ("bind=numa", Bind::Numa, Mem::Prefer),
        ("bind=core", Bind::Core, Mem::Prefer),
        ("bind=none", Bind::None, Mem::None),
        ("bind=none,mem=prefer", Bind::None, Mem::Prefer),
        ("mem=strict", Bind::Auto, Mem::Strict),
        ("mem=none", Bind::Auto, Mem::None),
    ] {
        let settings = merge(&words(""), None, Some(&words(option)));
        assert_eq!((settings.bind, settings.mem), (bind, mem), "`{option}`");
    }
    let admins = merge(&words("numa,bind=none,mem=strict,omp=on"), None, None);
    assert_eq!(
        (admins.mem, admins.omp, admins.by_user),
        (Mem::Strict, true, false)
    );
    let users = merge(
        &words("numa,mem=strict,omp=on"),
        Some(&words("omp=off")),
        Some(&words("mem=none")),
    );
    assert_eq!(
        (users.mem, users.omp, users.by_user),
        (Mem::None, false, true)
    );
}

#[test]
fn an_admins_typo_is_named_with_the_argument_that_was_meant() {
    let (admin, diagnostics) = Admin::parse([
        "exclud=mlx5_1",
        "include=mlx5_*",
        "default=closet",
        "machine=a",
        "sysfs=/x",
    ]);
    let diagnostics: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert!(
        diagnostics[0].starts_with(
            "`plugstack.conf: exclud=mlx5_1`: unknown argument, did you mean `exclude`?"
        )
    );
    assert!(diagnostics[1].starts_with("`plugstack.conf: default=closet`: unknown word `closet`"));
    assert!(diagnostics[2].starts_with("`plugstack.conf: sysfs=/x`: only one of"));
    assert_eq!(diagnostics.len(), 3);
    assert_eq!(admin.selection.include.len(), 1);
    assert_eq!(admin.source, NodeSource::Machine("a".into()));
}

#[test]
fn of_thousands_of_unknown_arguments_each_is_named_and_few_are_looked_up() {
    let arguments: Vec<String> = (0..9_000).map(|number| format!("exclu{number}")).collect();
    let (_, findings) = Admin::parse(arguments.iter().map(String::as_str));
    assert_eq!(findings.len(), arguments.len());
    let looked_up = findings
        .iter()
        .filter(|finding| finding.to_string().contains("lists all"));
    assert_eq!(looked_up.count(), 16);
    assert_eq!(
        findings[8_999].to_string(),
        "`plugstack.conf: exclu8999`: unknown argument"
    );
}

#[test]
fn of_thousands_of_unknown_words_each_is_named_and_few_are_looked_up() {
    let (_, findings) = Admin::parse(std::iter::repeat_n("default=clo", 2_000));
    assert_eq!(findings.len(), 2_000);
    let looked_up = findings
        .iter()
        .filter(|finding| finding.to_string().contains("list all"));
    assert_eq!(looked_up.count(), 16);
    assert_eq!(
        findings[1_999].to_string(),
        "`plugstack.conf: default=clo`: not understood"
    );
}

#[test]
fn of_thousands_of_mistakes_in_one_set_sixteen_are_named() {
    let (admin, findings) =
        Admin::parse([format!("set=OWN=1{}", ";LD_PRELOAD=2".repeat(9_000)).as_str()]);
    assert_eq!(findings.len(), 1);
    let text = findings[0].to_string();
    assert!(
        text.len() < 8192 && text.ends_with("; what follows is not read"),
        "{text}"
    );
    assert_eq!(admin.templates.len(), 1);
}

#[test]
fn a_list_of_more_nics_than_a_node_has_is_refused_and_the_one_before_holds() {
    let many = |number: usize| vec!["mlx5_0"; number].join(",");
    for list in ["include", "exclude", "rails"] {
        let of = |arguments: [String; 2]| Admin::parse(arguments.iter().map(String::as_str));
        let (admin, findings) = of([format!("{list}=a,b"), format!("{list}={}", many(257))]);
        let kept = [
            &admin.selection.include,
            &admin.selection.exclude,
            &admin.rails,
        ]
        .map(Vec::len);
        assert_eq!(kept.iter().sum::<usize>(), 2, "{list}");
        assert!(
            findings[0].to_string().contains("more than 256 NICs"),
            "{findings:?}"
        );
        let (_, findings) = of([
            format!("{list}={}", many(200)),
            format!("{list}={}", many(57)),
        ]);
        assert_eq!(findings.len(), 1, "of several arguments together");
        assert_eq!(
            of([format!("{list}={}", many(256)), "cache=1".into()]).1,
            []
        );
    }
}

#[test]
fn an_admin_may_say_what_paths_let_through_and_a_list_with_a_mistake_changes_nothing() {
    let (admin, _) = Admin::parse(["lets-through=SYS:60,PHB:100"]);
    let through = |path| admin.through.of(path);
    assert_eq!(
        [PathType::Pix, PathType::Phb, PathType::Node, PathType::Sys].map(through),
        [1000, 1000, 900, 600]
    );
    for bad in ["SYS:60,PHB:0", "SYS:60,XYZ:5", "SYS:101", "SYS"] {
        let (admin, diagnostics) = Admin::parse([format!("lets-through={bad}").as_str()]);
        assert_eq!(
            (admin.through, diagnostics.len()),
            (Through::default(), 1),
            "`{bad}`"
        );
    }
}

#[test]
fn a_list_goes_on_over_commas_as_long_as_its_words_belong_to_it() {
    let named = |words: &[&str]| {
        let libraries = words
            .iter()
            .map(|word| Libraries::named(word).expect("a library"));
        Some(libraries.fold(Libraries::NONE, Libraries::with))
    };
    for (text, libraries) in [
        ("env=ucx", named(&["ucx"])),
        ("env=ucx,nccl", named(&["ucx", "nccl"])),
        (
            "env=ucx+nccl,nvshmem,verbose",
            named(&["ucx", "nccl", "nvshmem"]),
        ),
        ("env=default,libfabric", named(&["default", "libfabric"])),
        ("env=ucx,env=nccl", named(&["nccl"])),
        ("env=none", named(&[])),
        ("verbose", None),
    ] {
        assert_eq!(words(text).env, libraries, "`{text}`");
    }
    assert_eq!(
        words("env=ucx,verbose,strict").strictness,
        Some(Strictness::Strict),
        "words behind the list are words again"
    );
    assert_eq!(
        words("env=ucx,numa").policy,
        Some(Switch::On(crate::placement::Policy::Numa))
    );
    let names = words("no-env=UCX_NET_DEVICES,NCCL_IB_HCA,verbose,no-env=A+B");
    assert_eq!(
        (names.no_env, names.verbose),
        (
            ["UCX_NET_DEVICES", "NCCL_IB_HCA", "A", "B"]
                .map(String::from)
                .to_vec(),
            true
        )
    );
    let message = |text: &str| Words::parse(text).unwrap_err().to_string();
    assert!(
        message("env=uxc")
            .starts_with("`env=uxc`: no library is called so; known: default, none, ucx")
    );
    assert!(message("env=ucx+uxc").contains("`env=uxc`"));
    assert!(message("no-env=ucx").contains("expected the name of a variable"));
    assert!(
        message("verbose,nccl").starts_with("unknown word `nccl`"),
        "no list is open"
    );
    assert!(
        message("env=ucx,verbose,nccl").starts_with("unknown word `nccl`"),
        "the list has ended"
    );
    for text in ["env", "env=", "no-env", "no-env=", "env=,ucx"] {
        assert!(message(text).contains("is not understood"), "`{text}`");
    }
}

#[test]
fn the_last_list_of_libraries_holds_and_what_anybody_does_not_want_is_not_set() {
    let merged = |default: &str, environment: &str, option: &str| {
        let settings = merge(
            &words(default),
            Some(&words(environment)),
            Some(&words(option)),
        );
        (settings.libraries, settings.no_env.join(","))
    };
    let (ucx, nccl) = (
        Libraries::named("ucx").unwrap(),
        Libraries::named("nccl").unwrap(),
    );
    assert_eq!(merged("", "", ""), (Libraries::default(), String::new()));
    assert_eq!(merged("env=ucx", "", ""), (ucx, String::new()));
    assert_eq!(merged("env=ucx", "env=nccl", ""), (nccl, String::new()));
    assert_eq!(
        merged("env=ucx", "env=none", "env=nccl"),
        (nccl, String::new())
    );
    assert_eq!(
        merged("no-env=A", "no-env=B", "no-env=C,env=ucx"),
        (ucx, "A,B,C".to_string())
    );
}

#[test]
fn an_admins_own_variables_are_taken_and_mistakes_in_them_named() {
    let (admin, diagnostics) = Admin::parse([
        "set=A={nic}",
        "set=LD_PRELOAD=/x",
        "set=NCCL_DEBUG=WARN",
        "set=A={gpu}",
        "fabric=isolated-rails",
        "fabric=star",
        "set=B={nix}",
    ]);
    let told: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 5, "{told:?}");
    for (told, words) in told.iter().zip([
        "`LD_PRELOAD` is refused",
        "if you mean it",
        "`A` is set twice: this one holds",
        "expected `fabric=routed|isolated-rails`",
        "`{nix}` is not known; known: {nic}",
    ]) {
        assert!(told.contains(words), "`{told}` has no `{words}`");
    }
    let names: Vec<&str> = admin
        .templates
        .iter()
        .map(|template| template.name())
        .collect();
    assert_eq!(names, ["A", "NCCL_DEBUG"]);
    assert_eq!(admin.fabric, Fabric::IsolatedRails);
    let doubts = |arguments: &[&str]| Admin::parse(arguments.iter().copied()).1.len();
    let (isolated, zero) = ("fabric=isolated-rails", "set=NCCL_CROSS_NIC=0");
    assert_eq!(
        [doubts(&[isolated, zero]), doubts(&[zero, isolated])],
        [0, 0],
        "this fabric needs it"
    );
    assert_eq!(
        [doubts(&[zero]), doubts(&[isolated, "set=NCCL_CROSS_NIC=1"])],
        [1, 1]
    );
    let (routed, all) = ("fabric=routed", "set=UCX_IB_ROCE_REACHABILITY_MODE=all");
    assert_eq!(
        [
            doubts(&[routed, all]),
            doubts(&[all]),
            doubts(&[isolated, all])
        ],
        [0, 1, 1]
    );
    let many: Vec<String> = (0..40).map(|number| format!("set=N{number}=1")).collect();
    assert_eq!(
        Admin::parse(many.iter().map(String::as_str)).1.len(),
        8,
        "32 are enough"
    );
}

#[test]
fn a_variable_replaces_what_the_allocation_was_given_where_it_was_set_since() {
    for (variable, before, replaces) in [
        (None, None, false),
        (Some("off"), None, true),
        (Some("off"), Some("off"), false),
        (Some("off"), Some("rail"), true),
        (None, Some("off"), false),
        (Some(""), None, false),
        (Some("closet"), None, false),
        (Some("closet"), Some("off"), false),
    ] {
        assert_eq!(
            replaces_the_allocations(variable, before),
            replaces,
            "{variable:?} after {before:?}"
        );
    }
}
