//! The tree of `show`, the pictures of `show` and `plan`, and terminals that are narrow.

use super::*;
use std::fmt::Write;
use std::os::unix::fs::symlink;

/// The tree's lines, each with how deep it is set in and without its guide.
fn tree(shown: &str) -> Vec<(usize, String)> {
    let lines = shown.lines().skip(1).take_while(|line| !line.is_empty());
    let line = |line: &str| {
        let text = line.trim_start_matches(['│', '├', '└', '─', ' ']);
        let inset = line.chars().count() - text.chars().count();
        (inset, text.to_string())
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

/// The place in the tree of the line that begins so.
fn place_of(tree: &[(usize, String)], name: &str) -> usize {
    let name = format!("{name} ");
    let mut found = (0..tree.len()).filter(|at| tree[*at].1.starts_with(&name));
    let (Some(at), None) = (found.next(), found.next()) else {
        panic!("`{name}` in {tree:#?}");
    };
    at
}

#[test]
fn every_device_stands_in_the_tree_once_in_order_and_below_its_numa_node() {
    for machine in machines() {
        let json = json(&format!("plan --machine {machine} --json"));
        let tree = tree(&printed(&format!("show --machine {machine}")));
        let numa = |name: &str| {
            let node = above(&tree, place_of(&tree, name), "NUMA node");
            node.map(|line| line.split_whitespace().nth(2).unwrap().to_string())
        };
        for gpu in json["gpus"].as_array().unwrap() {
            let expected = gpu["numa_node"].as_u64().map(|node| node.to_string());
            let found = numa(&format!("GPU {}", gpu["index"]));
            assert_eq!(found, expected, "{machine}: {gpu}");
            // every pair's NIC has a line too
            for pair in gpu["pairs"].as_array().unwrap() {
                numa(pair["name"].as_str().unwrap());
            }
        }
        let mut last = None;
        for (_, line) in tree {
            if line.starts_with("NUMA node") {
                last = None;
            } else if let Some(gpu) = line.strip_prefix("GPU ") {
                let number: Option<u32> = gpu.split(' ').next().unwrap().parse().ok();
                assert!(number > last, "{machine}: {line}");
                last = number;
            }
        }
    }
    // NICs alone stand behind them
    let show = printed("show --machine dgx-h100");
    let at = ["mlx5_0 ", "mlx5_5 ", "mlx5_1 "].map(|name| show.find(name).unwrap());
    let is_so = at.is_sorted() && show.find("mlx5_2 ") < show.find("NUMA node 1 ");
    assert!(is_so, "{show}");
}

#[test]
fn the_tree_says_what_is_chosen_what_is_left_out_and_what_is_down() {
    let show = printed("show --machine dgx-h100");
    for (name, told) in [
        ("GPU 3 ", "-> mlx5_5:1 PIX"),
        ("mlx5_1 ", "storage, left out"),
        ("irdma1 ", "  down  "),
        ("PCIe switch 0000:5c:00.0", "32.0 GT/s x16"),
    ] {
        let line = show.lines().find(|line| line.contains(name));
        let is_so = line.is_some_and(|line| line.contains(told));
        assert!(is_so, "{name}: {show}");
    }
}

#[test]
fn a_narrow_terminal_gets_narrow_lines_and_a_wide_one_those_of_a_pipe() {
    let shown = on_columns(60, "show --machine dgx-h100", &[]);
    let Some(shown) = shown else { return };
    // a long line goes on behind its guide
    let goes_on = ["\n│  │  ├─ GPU 0 ", "\n│  │  │    mlx5_0:1 PIX\n"];
    assert!(goes_on.iter().all(|part| shown.contains(part)), "{shown}");
    let all = "show --machine dgx-h100|plan --machine dgx-h100 --gpus-per-task 1 --why|\
               show --machine dgx-h100 --gpu 1|show --help";
    for command in all.split('|') {
        let narrow = on_columns(64, command, &[]).unwrap();
        if !command.contains("--help") {
            fits(&narrow, 64);
        }
        let letters = |text: &str| {
            let is_guide = |letter: &char| letter.is_whitespace() || "│├└─".contains(*letter);
            let mut letters: Vec<char> = text.chars().filter(|letter| !is_guide(letter)).collect();
            letters.sort_unstable();
            letters
        };
        let piped = printed(command);
        assert_eq!(letters(&narrow), letters(&piped), "{command}: {narrow}");
        assert_eq!(on_columns(200, command, &[]).unwrap(), piped, "{command}");
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
        let gpu = device(0);
        gpus.push(format!(
            r#"{{"address":"{gpu}","vendor":"nvidia","minor":{pair}}}"#
        ));
        let port =
            r#"[{"number":1,"state":"active","rate_mbps":400000,"link_layer":"InfiniBand"}]"#;
        let nic = device(1);
        nics.push(format!(
            r#"{{"name":"mlx5_{pair}","address":"{nic}","ports":{port}}}"#
        ));
    }
    let numa = [0, 1].map(|node| {
        let (first, last) = (node * 64, node * 64 + 63);
        format!(r#"{{"os_index":{node},"cpus":"{first}-{last}"}}"#)
    });
    let mut text = r#"{"format":"nic-placement topology","version":1,"name":"large""#.to_string();
    let lists = [
        ("numa_nodes", &numa[..]),
        ("pci", &pci),
        ("gpus", &gpus),
        ("nics", &nics),
    ];
    for (name, list) in lists {
        write!(text, r#","{name}":[{}]"#, list.join(",")).unwrap();
    }
    text + "}"
}

#[test]
fn a_large_node_s_plan_fits_a_page_with_its_reasons_below_on_request() {
    let place = Place::new("large");
    let node = place.file("large.json", large(64));
    for words in ["plan", "plan --gpus-per-task 1", "plan --words all", "show"] {
        let text = printed(&format!("{words} --topology {node}"));
        fits(&text, WIDTH);
        // no reason unasked
        assert!(!text.contains("CUDA_VISIBLE_DEVICES"), "{words:?}");
    }
    let [reasons, short] = ["--why", "-v"]
        .map(|why| printed(&format!("plan --topology {node} --gpus-per-task 1 {why}")));
    for reason in ["`CUDA_VISIBLE_DEVICES=63`", "400 Gb/s to itself"] {
        assert!(reasons.contains(reason), "{reasons}");
    }
    fits(&reasons, WIDTH);
    assert_eq!(short, reasons);
}

// ---- pictures ----

#[test]
fn a_plan_s_picture_has_a_line_for_each_nic_of_each_gpu_and_names_the_tasks() {
    let draw = |words: &str| printed(&format!("plan --machine dgx-h100 --svg {words}"));
    let each = draw("--gpus-per-task 1");
    assert_eq!(lines(&each), 8, "{each}");
    let is_so = each.contains("task 7 · cpus 56-111,168-223 · memory 1");
    assert!(is_so, "{each}");
    let two = draw("--gpus 0,7 --gpus-per-task 1");
    let found = (lines(&two), two.matches("no task has it").count());
    assert_eq!(found, (2, 6), "{two}");
    // one task with all: each GPU with the NIC that it would use
    assert_eq!(lines(&draw("-n1 --gpus-per-task all")), 8);
    // four with four on each NUMA node
    assert_eq!(lines(&draw("--words numa")), 32);
}

/// Lines from a GPU to a NIC: those of the legend are level, and as short as their words.
fn lines(text: &str) -> usize {
    let paths = text.split("<path class=").skip(1);
    let across = paths.filter(|path| {
        let words = path.split(['M', 'C', ' ', '"']);
        let words = words.filter_map(|word| word.parse().ok());
        let words: Vec<f64> = words.collect();
        words[6] - words[0] == 150.0
    });
    across.count()
}

#[test]
fn nothing_in_a_node_s_names_ends_its_picture() {
    let place = Place::new("svg");
    for node in hostile(&place) {
        for command in ["show", "plan"] {
            let text = printed(&format!("{command} --topology {node} --svg"));
            let document =
                roxmltree::Document::parse(&text).unwrap_or_else(|bad| panic!("{bad}: {text}"));
            let mut texts = document.descendants().filter_map(|node| node.text());
            assert!(texts.any(|text| text.contains(r"\u{1b}[2J")));
        }
    }
}

#[test]
fn a_picture_is_written_to_a_file_whose_name_tells_its_kind_and_no_link_is_followed() {
    let place = Place::new("picture");
    let show = "show --machine gh200";
    let svg = printed(&format!("{show} --svg"));
    let file = place.at("node.svg");
    for words in ["--svg -o", "-o"] {
        run(&format!("{show} {words} {file}")).is(0, "", "");
        assert_eq!(place.read("node.svg"), svg);
    }
    symlink(&file, place.at("link.svg")).unwrap();
    let answer = run(&format!("{show} --svg -o {}", place.at("link.svg")));
    answer.ends(1).says(&["is a symbolic link"]);
    for name in ["node.pdf", "node.PNG"] {
        let answer = run(&format!("{show} -o {}", place.at(name)));
        answer.ends(1).says(&["ends with .svg"]);
        assert!(!place.0.join(name).exists(), "{name}");
    }
    run(&format!("{show} --svg -o {}", place.at("node.png"))).ends(1);
    assert!(!place.0.join("node.png").exists());
    let all = "show -o x.svg --json|show --svg --json|plan -o x.png --env|plan --svg --env|\
               plan --svg --why";
    for words in all.split('|') {
        run(&format!("{words} --machine gh200")).ends(2);
    }
}

#[test]
fn every_machine_s_picture_is_xml_the_same_each_time_and_has_a_line_for_each_gpu_or_says_why_not() {
    for machine in machines() {
        for command in ["show", "plan"] {
            let draw = format!("{command} --machine {machine} --svg");
            let text = printed(&draw);
            assert_eq!(text, printed(&draw), "{machine}");
            let document =
                roxmltree::Document::parse(&text).unwrap_or_else(|bad| panic!("{machine}: {bad}"));
            let root = document.root_element();
            let title = root.first_element_child().and_then(|title| title.text());
            assert_eq!((root.tag_name().name(), title), ("svg", Some(&*machine)));
            let is_explained = lines(&text) > 0 || text.contains(">no GPU gets a NIC: ");
            assert!(is_explained, "{machine}: {text}");
            assert!(!text.contains("model unknown"), "{machine}");
        }
    }
    let aws = printed("show --machine aws-p4d --svg");
    assert!(aws.contains(">libfabric chooses the NIC"), "{aws}");
    assert_eq!((lines(&aws), aws.matches("class=\"pix\"").count()), (8, 9));
}

#[test]
fn the_two_halves_of_an_mi250x_stand_in_one_box() {
    let tree = tree(&printed("show --machine frontier"));
    let package = |name: &str| {
        let at = place_of(&tree, name);
        above(&tree, at, "one MI250X").and(above(&tree, at, "NUMA node"))
    };
    for pair in 0..4 {
        let [first, second] = [0, 1].map(|half| package(&format!("GPU {}", pair * 2 + half)));
        assert!(first.is_some());
        assert_eq!((second, package(&format!("cxi{pair}"))), (first, first));
    }
    let svg = printed("show --machine frontier --svg");
    assert_eq!(svg.matches(">one MI250X</text>").count(), 4);
    run("show --machine mi300x-8").lacks(&["MI250X"]);
}
