//! The tree of `show`, the pictures of `show` and `plan`, and terminals that are narrow.

use super::{Place, WIDTH, hostile, machines, on_a_terminal_of, printed, run};
use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::{fs, str};

/// The tree's lines, each with how deep it is set in and without its guide.
fn tree(shown: &str) -> Vec<(usize, String)> {
    let lines = shown.lines().skip(1).take_while(|line| !line.is_empty());
    let line = |line: &str| {
        let text = line.trim_start_matches(['│', '├', '└', '─', ' ']);
        (
            line.chars().count() - text.chars().count(),
            text.to_string(),
        )
    };
    lines.map(line).collect()
}

/// The last line above this one that is set in less and begins so.
fn above<'a>(tree: &'a [(usize, String)], at: usize, word: &str) -> Option<&'a str> {
    let mut depth = tree[at].0;
    for (inset, text) in tree[..at].iter().rev() {
        if *inset < depth {
            depth = *inset;
            if text.starts_with(word) {
                return Some(text);
            }
        }
    }
    None
}

#[test]
fn every_device_stands_in_the_tree_once_and_below_its_numa_node() {
    for machine in machines() {
        let json: serde_json::Value =
            serde_json::from_str(&printed(&["plan", "--machine", &machine, "--json"])).unwrap();
        let tree = tree(&printed(&["show", "--machine", &machine]));
        let place = |name: &str| {
            let mut found = tree
                .iter()
                .enumerate()
                .filter(|(_, (_, text))| text.starts_with(&format!("{name} ")));
            let (Some((at, _)), None) = (found.next(), found.next()) else {
                panic!("{machine}: `{name}` in {tree:#?}");
            };
            above(&tree, at, "NUMA node")
                .map(|line| line.split_whitespace().nth(2).unwrap().to_string())
        };
        for gpu in json["gpus"].as_array().unwrap() {
            let expected = gpu["numa_node"].as_u64().map(|node| node.to_string());
            assert_eq!(
                place(&format!("GPU {}", gpu["index"])),
                expected,
                "{machine}: {gpu}"
            );
            // every pair's NIC has a line too
            for pair in gpu["pairs"].as_array().unwrap() {
                place(pair["name"].as_str().unwrap());
            }
        }
    }
}

#[test]
fn the_tree_says_what_is_chosen_what_is_left_out_and_what_is_down() {
    let show = printed(&["show", "--machine", "dgx-h100", "--color", "always"]);
    let line = |name: &str| {
        show.lines()
            .find(|line| line.contains(name))
            .unwrap_or_default()
    };
    assert!(
        line("GPU 3 ").ends_with("-> mlx5_5:1 \x1b[32mPIX\x1b[0m"),
        "{show}"
    );
    assert!(
        line("mlx5_1\x1b").contains("\x1b[2mstorage, left out\x1b[0m"),
        "{show}"
    );
    assert!(line("irdma1\x1b").contains("\x1b[31mdown\x1b[0m"), "{show}");
    assert!(
        line("PCIe switch 0000:5c:00.0").contains("32.0 GT/s x16"),
        "{show}"
    );
}

#[test]
fn gpus_stand_in_their_order_on_each_numa_node_and_nics_alone_behind_them() {
    for machine in machines() {
        let mut last = None;
        for (_, line) in tree(&printed(&["show", "--machine", &machine])) {
            if line.starts_with("NUMA node") {
                last = None;
            } else if let Some(gpu) = line.strip_prefix("GPU ") {
                let number: Option<u32> = gpu.split(' ').next().unwrap().parse().ok();
                assert!(number > last, "{machine}: {line}");
                last = number;
            }
        }
    }
    let show = printed(&["show", "--machine", "dgx-h100"]);
    let at = |name: &str| show.find(&format!("{name} ")).unwrap();
    assert!(
        at("mlx5_0") < at("mlx5_5")
            && at("mlx5_5") < at("mlx5_1")
            && at("mlx5_2") < at("NUMA node 1")
    );
}

#[test]
fn a_long_line_of_the_tree_goes_on_behind_its_guide() {
    let Some(shown) = on_narrow_terminal("show --machine dgx-h100 --color never", 60) else {
        return;
    };
    assert!(
        shown.contains("\n│  │  ├─ GPU 0 ") && shown.contains("\n│  │  │    -> mlx5_0:1 PIX\n"),
        "{shown}"
    );
}

fn on_narrow_terminal(arguments: &str, columns: usize) -> Option<String> {
    on_a_terminal_of(columns, arguments, &[])
}

#[test]
fn a_narrow_terminal_gets_narrow_lines_and_a_wide_one_those_of_a_pipe() {
    for command in [
        "show",
        "plan --gpus-per-task 1 --why",
        "show --gpu 1",
        "show --help",
    ] {
        let machine = if command.ends_with("help") {
            ""
        } else {
            " --machine dgx-h100"
        };
        let command = format!("{command}{machine} --color never");
        let Some(narrow) = on_narrow_terminal(&command, 64) else {
            return;
        };
        let is_help = command.contains("--help");
        let wide = narrow
            .lines()
            .find(|line| !is_help && line.chars().count() > 64);
        assert_eq!(wide, None, "{command}");
        let words = |text: &str| {
            let is_guide = |letter: &char| !letter.is_whitespace() && !"│├└─".contains(*letter);
            let mut letters: Vec<char> = text.chars().filter(is_guide).collect();
            letters.sort_unstable();
            letters
        };
        let piped = printed(&command.split(' ').collect::<Vec<_>>());
        // the tree says there in short words what the lines below it say again
        let is_whole = words(&narrow) == words(&piped) || command.starts_with("show --machine");
        assert!(is_whole, "{command}: nothing is lost: {narrow}");
        assert_eq!(
            on_narrow_terminal(&command, 200).unwrap(),
            piped,
            "{command}"
        );
    }
}

/// A node with so many GPUs and NICs, in pairs below switches.
fn large(pairs: usize) -> String {
    let (mut pci, mut gpus, mut nics) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        let mut function = |address: String, parent: String| {
            let numa_node = pair * 2 / pairs;
            pci.push(format!(
                r#"{{"address":"{address}","parent":"{parent}","numa_node":{numa_node}}}"#
            ));
            address
        };
        let root = function(format!("{pair:04x}:00:01.0"), format!("pci{pair:04x}:00"));
        let switch = function(format!("{pair:04x}:01:00.0"), root);
        let mut device = |number: usize| {
            let port = function(format!("{pair:04x}:02:{number:02x}.0"), switch.clone());
            function(format!("{pair:04x}:{:02x}:00.0", number + 3), port)
        };
        gpus.push(format!(
            r#"{{"address":"{}","vendor":"nvidia","minor":{pair}}}"#,
            device(0)
        ));
        let port =
            r#"[{"number":1,"state":"active","rate_mbps":400000,"link_layer":"InfiniBand"}]"#;
        nics.push(format!(
            r#"{{"name":"mlx5_{pair}","address":"{}","ports":{port}}}"#,
            device(1)
        ));
    }
    let mut text =
        r#"{"format":"nic-placement topology","version":1,"name":"large","numa_nodes":["#
            .to_string();
    for node in 0..2 {
        let comma = if node == 0 { "," } else { "" };
        let (first, last) = (node * 64, node * 64 + 63);
        write!(
            text,
            r#"{{"os_index":{node},"cpus":"{first}-{last}"}}{comma}"#
        )
        .unwrap();
    }
    write!(
        text,
        r#"],"pci":[{}],"gpus":[{}],"nics":[{}]}}"#,
        pci.join(","),
        gpus.join(","),
        nics.join(",")
    )
    .unwrap();
    text
}

#[test]
fn a_large_node_s_plan_fits_a_page_with_its_reasons_below_on_request() {
    let place = Place::new("large");
    let node = place.file("large.json", &large(64));
    for words in [
        &["plan"][..],
        &["plan", "--gpus-per-task", "1"],
        &["plan", "--words", "all"],
        &["show"],
    ] {
        let text = printed(&[words, &["--topology", &node]].concat());
        assert_eq!(
            text.lines().find(|line| line.chars().count() > WIDTH),
            None,
            "{words:?}"
        );
        assert!(
            !text.contains("CUDA_VISIBLE_DEVICES"),
            "no reason unasked: {words:?}"
        );
    }
    let with = |why: &str| printed(&["plan", "--topology", &node, "--gpus-per-task", "1", why]);
    let reasons = with("--reasons");
    assert!(
        reasons.contains("`CUDA_VISIBLE_DEVICES=63`") && reasons.contains("400 Gb/s to itself")
    );
    assert_eq!(
        reasons.lines().find(|line| line.chars().count() > WIDTH),
        None
    );
    assert_eq!((with("-v"), with("--why")), (reasons.clone(), reasons));
}

// ---- pictures ----

#[test]
fn every_machine_s_picture_is_xml_and_the_same_each_time() {
    for machine in machines() {
        for command in ["show", "plan"] {
            let draw = || printed(&[command, "--machine", &machine, "--svg"]);
            let text = draw();
            let document =
                roxmltree::Document::parse(&text).unwrap_or_else(|bad| panic!("{machine}: {bad}"));
            let root = document.root_element();
            let title = root.first_element_child().and_then(|title| title.text());
            assert_eq!((root.tag_name().name(), title), ("svg", Some(&*machine)));
            assert_eq!(text, draw(), "{machine}");
        }
    }
}

#[test]
fn a_plan_s_picture_has_a_line_for_each_nic_of_each_gpu_and_names_the_tasks() {
    let draw =
        |words: &[&str]| printed(&[&["plan", "--machine", "dgx-h100", "--svg"], words].concat());
    let lines = |text: &str| {
        text.matches("<title>GPU ").count() - text.matches("<title>GPU 0: ").count() * 8
    };
    let each = draw(&["--gpus-per-task", "1"]);
    assert_eq!(lines(&each), 8, "{each}");
    assert!(
        each.contains("task 7 · cpus 56-111,168-223 · memory 1"),
        "{each}"
    );
    let two = draw(&["--gpus", "0,7", "--gpus-per-task", "1"]);
    assert_eq!(
        (lines(&two), two.matches("no task has it").count()),
        (2, 6),
        "{two}"
    );
    // one task with all: each GPU with the NIC that it would use
    assert_eq!(lines(&draw(&["-n1", "--gpus-per-task", "all"])), 8);
    // four with four would be 16 curves on each NUMA node: a line joins them, with a branch for each
    let numa = draw(&["--words", "numa"]);
    assert_eq!(
        (
            lines(&numa),
            numa.matches("each of 4 GPUs uses each of 4 NICs").count()
        ),
        (0, 2 * 9)
    );
}

#[test]
fn nothing_in_a_node_s_names_ends_its_picture() {
    let place = Place::new("svg");
    for node in hostile(&place) {
        for command in ["show", "plan"] {
            let text = printed(&[command, "--topology", &node, "--svg"]);
            let document =
                roxmltree::Document::parse(&text).unwrap_or_else(|bad| panic!("{bad}: {text}"));
            assert!(
                document
                    .descendants()
                    .filter_map(|node| node.text())
                    .any(|text| text.contains(r"\u{1b}[2J"))
            );
        }
    }
}

#[test]
fn a_picture_is_written_to_a_file_and_no_link_is_followed() {
    let place = Place::new("picture");
    let file = place.0.join("node.svg");
    let to = |file: &std::path::Path| {
        run(&[
            "show",
            "--machine",
            "gh200",
            "--svg",
            "-o",
            file.to_str().unwrap(),
        ])
    };
    let output = to(&file);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        printed(&["show", "--machine", "gh200", "--svg"])
    );
    let link = place.0.join("link.svg");
    symlink(&file, &link).unwrap();
    let refused = to(&link);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        str::from_utf8(&refused.stderr)
            .unwrap()
            .contains("is a symbolic link")
    );
    for words in [
        &["show", "-o", "x.svg", "--json"][..],
        &["show", "--svg", "--json"],
        &["plan", "-o", "x.png", "--env"],
        &["plan", "--svg", "--env"],
        &["plan", "--svg", "--why"],
    ] {
        assert_eq!(
            run(&[words, &["--machine", "gh200"]].concat())
                .status
                .code(),
            Some(2),
            "{words:?}"
        );
    }
}

#[test]
fn the_name_of_a_picture_tells_its_kind() {
    let place = Place::new("kinds");
    let to = |name: &str| {
        let file = place.0.join(name);
        let output = run(&["show", "--machine", "gh200", "-o", file.to_str().unwrap()]);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
            fs::read(&file),
        )
    };
    let svg = printed(&["show", "--machine", "gh200", "--svg"]);
    assert_eq!(to("node.svg").2.unwrap(), svg.as_bytes());
    for name in ["node.pdf", "node.PNG"] {
        let (status, said, file) = to(name);
        assert!(
            status == Some(1) && said.contains("ends with .svg") && file.is_err(),
            "{said}"
        );
    }
    let file = place.0.join("node.png");
    let words = ["show", "--machine", "gh200", "--svg", "-o"];
    let output = run(&[&words[..], &[file.to_str().unwrap()]].concat());
    assert_eq!((output.status.code(), file.exists()), (Some(1), false));
}

/// The tips of a picture's lines.
fn tips(text: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(text).unwrap();
    let paths = document
        .descendants()
        .filter(|node| node.has_tag_name("path"));
    let tips = paths.filter_map(|path| path.first_element_child()?.text().map(String::from));
    tips.collect()
}

#[test]
fn every_machine_s_picture_has_a_line_for_each_gpu_or_says_why_not() {
    for machine in machines() {
        for command in ["show", "plan"] {
            let text = printed(&[command, "--machine", &machine, "--svg"]);
            let gpus = text.matches("<title>GPU ").count();
            if tips(&text).is_empty() {
                assert!(text.contains(">no GPU gets a NIC: "), "{machine}: {text}");
            }
            assert!(gpus > 0 && !text.contains("model unknown"), "{machine}");
        }
    }
    let aws = printed(&["show", "--machine", "aws-p4d", "--svg"]);
    assert!(
        aws.contains(">libfabric chooses the NIC of each process: a line leads to the nearest<")
    );
    let expected = (0..8).map(|gpu: usize| {
        let nic = ["rdmap16s27", "rdmap32s27", "rdmap144s27", "rdmap160s27"][gpu / 2];
        format!("{nic} is nearest to GPU {gpu}, at PIX")
    });
    assert_eq!(tips(&aws), expected.collect::<Vec<_>>());
}

#[test]
fn the_two_halves_of_an_mi250x_stand_in_one_box() {
    let tree = tree(&printed(&["show", "--machine", "frontier"]));
    let package = |name: &str| {
        let at = tree
            .iter()
            .position(|(_, text)| text.starts_with(&format!("{name} ")));
        let numa = above(&tree, at.unwrap(), "NUMA node");
        above(&tree, at.unwrap(), "one MI250X").and(numa)
    };
    for (first, second, nic) in [
        ("GPU 0", "GPU 1", "cxi0"),
        ("GPU 2", "GPU 3", "cxi1"),
        ("GPU 4", "GPU 5", "cxi2"),
        ("GPU 6", "GPU 7", "cxi3"),
    ] {
        let of_first = package(first);
        assert!(of_first.is_some());
        assert_eq!((package(second), package(nic)), (of_first, of_first));
    }
    let svg = printed(&["show", "--machine", "frontier", "--svg"]);
    assert_eq!(svg.matches(">one MI250X</text>").count(), 4);
    assert!(!printed(&["show", "--machine", "mi300x-8"]).contains("MI250X"));
}
