//! What an admin writes: plugstack.conf's arguments, the configuration file, templates.
#![forbid(unsafe_code)]

use super::{held, machines};
use nic_placement_core::config::{Admin, Conf};
use nic_placement_core::libraries::names;
use nic_placement_core::libraries::wanted::{Libraries, Template, is_variable_name};
use nic_placement_core::placement::Change;
use nic_placement_core::plan::Wish;
use nic_placement_launch::plugstack::check_conf;

const NODES: [&str; 3] = ["gpu001", "gpu002.example.org", "login"];
const PARTITIONS: [Option<&str>; 3] = [None, Some("train"), Some("debug")];

pub fn plugstack(data: &[u8]) {
    let text = held::text(data);
    let arguments = || text.split('\n').filter(|argument| !argument.is_empty());
    let (admin, findings) = Admin::parse(arguments());
    held::findings(&findings);
    if held::has_turn(data, 0, 4) {
        let again = Admin::parse(arguments());
        assert_eq!(
            (&admin, &findings),
            (&again.0, &again.1),
            "the same answer twice"
        );
    }
    is_bounded(&admin);
    if held::has_turn(data, 1, 4) {
        one_by_one(arguments());
    }
    let wish = Wish::new(admin, None, None);
    assert_eq!(wish.scope(), wish.scope());
}

/// One after another, as the tool takes them: what is refused there is refused here.
fn one_by_one<'a>(arguments: impl Iterator<Item = &'a str>) {
    let doubtful = |of: &Admin| {
        (
            of.selection.clone(),
            of.rails.clone(),
            of.source.clone(),
            of.disabled,
        )
    };
    let mut added = Admin::default();
    let mut before = doubtful(&added);
    for argument in arguments {
        let is_taken = added.add(argument).is_ok();
        if argument.starts_with("set=") {
            continue;
        }
        let after = doubtful(&added);
        assert!(
            is_taken || before == after,
            "what is refused changes nothing: {argument:?}"
        );
        before = after;
    }
}

pub(super) fn is_bounded(admin: &Admin) {
    assert!(admin.templates.len() <= 32);
    for (nth, template) in admin.templates.iter().enumerate() {
        assert!(is_variable_name(template.name()) && !names::is_refused(template.name()));
        assert!(
            admin.templates[..nth]
                .iter()
                .all(|other| other.name() != template.name())
        );
    }
    assert!(admin.node_file.path.starts_with('/') && admin.node_file.max_age <= 24 * 3600);
    assert!(admin.conf.as_ref().is_none_or(|path| path.starts_with('/')));
}

pub fn conf(data: &[u8]) {
    let read = Conf::parse(data, "/etc/nic-placement.conf");
    if held::has_turn(data, 0, 4) {
        assert_eq!(
            read,
            Conf::parse(data, "/etc/nic-placement.conf"),
            "the same answer twice"
        );
    }
    let (conf, findings) = match read {
        Ok(read) => read,
        Err(bad) => return held::message(&bad.to_string()),
    };
    held::findings(&findings);
    held::findings(&check_conf(&conf, "/etc/nic-placement.conf", NODES[0]));
    for (_, node) in NODES
        .into_iter()
        .enumerate()
        .filter(|(nth, _)| held::has_turn(data, *nth, NODES.len()))
    {
        let has_turn = |nth: usize| held::has_turn(data, nth, PARTITIONS.len() + 1);
        let partitions = PARTITIONS
            .into_iter()
            .enumerate()
            .filter(|(nth, _)| has_turn(*nth));
        of_a_node(&conf, node, partitions.map(|(_, partition)| partition));
    }
}

/// What its lines say to a node, and to partitions on it.
fn of_a_node(conf: &Conf, node: &str, partitions: impl Iterator<Item = Option<&'static str>>) {
    let of = |partition: Option<&str>| {
        let mut admin = Admin::default();
        let findings = admin.add_conf(conf, "/etc/nic-placement.conf", node, partition);
        // looking at each again for each step would be most of the work
        assert!(findings.len() <= 4096);
        is_bounded(&admin);
        admin
    };
    let everybodys = of(None);
    for partition in partitions {
        let admin = of(partition);
        // what a user's process names cannot open a file, bind by another machine, nor undo the switch
        assert_eq!(admin.source, everybodys.source);
        assert_eq!(admin.conf, None, "it stands in plugstack.conf alone");
        assert_eq!(admin.node_file, everybodys.node_file);
        assert_eq!(admin.trust_topology, everybodys.trust_topology);
        assert_eq!(admin.disabled, everybodys.disabled);
        let files = |admin: &Admin| -> Vec<String> {
            let named =
                |template: &&Template| template.is_file() || template.map_files().next().is_some();
            admin
                .templates
                .iter()
                .filter(named)
                .map(|template| format!("{template:?}"))
                .collect()
        };
        let (of_all, of_partition) = (files(&everybodys), files(&admin));
        assert!(
            of_partition.iter().all(|file| of_all.contains(file)),
            "a file of a partition's line"
        );
    }
}

pub fn template(data: &[u8]) {
    let text = held::text(data);
    let parsed = Template::parse(&text);
    assert_eq!(parsed, Template::parse(&text));
    let template = match parsed {
        Ok((template, doubt)) => {
            doubt.iter().for_each(|doubt| held::message(doubt));
            template
        }
        Err(why) => return held::message(&why),
    };
    assert!(is_variable_name(template.name()) && !names::is_refused(template.name()));
    assert!(!(template.is_per_task() && names::is_uniform(template.name())));
    let mut admin = Admin {
        templates: vec![template.clone()],
        ..Admin::default()
    };
    admin.default = nic_placement_core::config::Words::parse("env=none+site").expect("words");
    assert!(
        Wish::new(admin.clone(), None, None)
            .libraries
            .has(Libraries::named("site").expect("a word"))
    );
    machines::for_tasks(admin, data.len(), |plan, task| {
        for variable in &task.variables {
            if let Change::Set(value) = &variable.change {
                assert!(value.len() <= 64 * 1024 && !value.chars().any(char::is_control));
                let is_other = variable.name != template.name() && variable.name != "NIC_PLACEMENT";
                assert!(!is_other, "`{}` is set too", variable.name);
            }
        }
        task.lines(&plan.node.name, "")
            .iter()
            .for_each(|line| held::tidy(line));
    });
}
