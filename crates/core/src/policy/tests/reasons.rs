//! The sentences in which a map tells why.

use super::*;

/// The same machine, where the kernel tells no rate of any port or link.
fn without_rates(topology: &Topology) -> Topology {
    let mut topology = topology.clone();
    for nic in &mut topology.nics {
        nic.ports[0].rate_mbps = None;
    }
    let functions: Vec<PciFunction> = topology.pci.iter().cloned().collect();
    for each in functions {
        let link = PcieLink::default();
        function(&mut topology, each.address, |each| each.link = link);
    }
    topology
}

/// The reason of the last GPU.
fn reason(topology: &Topology, nics_each: NicsEach) -> String {
    let mut node = map(topology, &wish(Policy::Closest, nics_each));
    node.gpus.pop().unwrap().reason
}

const ONE: NicsEach = NicsEach::Number(1);

#[test]
fn a_reason_counts_the_nics_that_are_as_near_and_those_who_share_them() {
    let alone = "no other GPU uses it";
    // the switches of GPUs and of NICs, the NICs for each, and of the reason how near they are,
    // their use, and the same where no rates are known
    for row in [
        "0 | 0 | 1 | is the only NIC at PIX | 400 Gb/s to itself | no other GPU uses it",
        "0 | 00 | 1 | is one of 2 NICs at PIX, | 400 Gb/s to itself | no other GPU uses it",
        "0 | 00 | 2 | and mlx5_1:1 are | 504.1 Gb/s together | no other GPU uses them",
        "0 | 011 | 2 | and mlx5_1:1 are | 504.1 Gb/s together | no other GPU uses them",
        "00 | 0 | 1 | is the only NIC at PIX | \
         200 Gb/s as one of 2 GPUs that share it | 2 GPUs share it",
        "00 | 00 | 2 | and mlx5_1:1 are | 400 Gb/s together, mlx5_0:1 serves 2 GPUs, | \
         mlx5_0:1 serves 2 GPUs, mlx5_1:1 serves 2 GPUs",
    ] {
        let [gpus, nics, each, near, use_of_it, without_rates_it_is] = cells(row);
        let switches = |text: &str| text.bytes().map(|digit| digit - b'0').collect::<Vec<u8>>();
        let nics = switches(nics).into_iter().map(|switch| (switch, 400));
        let topology = machine(&switches(gpus), &Vec::from_iter(nics));
        let (each, start) = (each.parse().unwrap(), format!("mlx5_0:1 {near}"));
        let reason = |of: &Topology| reason(of, NicsEach::Number(each));
        says(&reason(&topology), [&start, &format!("; {use_of_it}"), ""]);
        let end = format!("; {without_rates_it_is}");
        says(&reason(&without_rates(&topology)), [&start, "", &end]);
    }
    let of = |nics| reason(&machine(&[0], nics), NicsEach::Number(2));
    assert!(of(&[(0, 400), (0, 400)]).contains("the only 2 NICs up to PIX;"));
    let farther = of(&[(0, 400), (1, 400), (1, 400)]);
    assert!(farther.contains("2 of 3 NICs up to NODE, "), "{farther}");
    let crowded = machine(&[0, 0], &[(0, 400), (1, 400)]);
    let start = "mlx5_1:1 is at NODE, for mlx5_0:1 is PIX but";
    let known = "get 200 Gb/s instead of 360 Gb/s; 360 Gb/s to itself";
    says(&reason(&crowded, ONE), [start, "", known]);
    let unknown = format!("get less; {alone}");
    let found = reason(&without_rates(&crowded), ONE);
    says(&found, [start, "", &unknown]);
}

#[test]
fn a_part_is_called_what_it_is() {
    for row in [
        "1 | 2 | 200 |  are both its nearest NICs (PIX), | and NCCL uses both; ",
        "1 | 3 | 400 |  are 2 of its 3 nearest NICs (PIX), and more | ",
        // a part that NCCL would round up is not called its, one that divides without rest is
        "2 | 5 | 200 |  are 2 of its 5 nearest NICs (PIX), its even part; | ",
        "2 | 4 | 200 |  2 of its 4 nearest NICs (PIX), | as NCCL uses them",
    ] {
        let [gpus, nics, gbps, said, by_nccl] = cells(row);
        let [gpus, nics, gbps] = [gpus, nics, gbps].map(|number| number.parse().unwrap());
        let node = machine(&vec![0; gpus], &vec![(0, gbps as u64); nics]);
        let why = reason(&node, NicsEach::Auto);
        assert!(why.contains(said) && why.contains(by_nccl), "{why}");
        assert_eq!(why.contains("NCCL"), !by_nccl.is_empty(), "{why}");
        assert!(rails(&closest(&node)).iter().all(|rails| rails.len() == 2));
    }
}

/// `nic why` of each NIC for a GPU.
fn whys(topology: &Topology, wish: &Wish, gpu: usize) -> Vec<String> {
    let pairs = pairs::pairs(topology, &map(topology, wish), wish, GpuIndex(gpu)).into_iter();
    let why = |pair: pairs::Pair| format!("{} {}", pair.nic, pair.why);
    pairs.map(why).collect()
}

#[test]
fn a_pair_says_why_the_gpu_has_the_nic_or_not() {
    let topology = machine(&[0, 0, 2], &[(0, 400), (0, 400), (1, 400)]);
    let (by_closest, by_rail) = (wish(Policy::Closest, ONE), wish(Policy::Rail, ONE));
    let idle = machine(&[0], &[(0, 400), (0, 400)]);
    let asked = [
        (&topology, &by_closest, 0),
        (&topology, &by_closest, 2),
        (&topology, &by_rail, 0),
        (&idle, &by_rail, 0),
    ];
    let answers = [
        "mlx5_1 there it would get 200; mlx5_2 there it would get 220",
        "mlx5_0 there GPU 0 would get 220; mlx5_1 there GPU 1 would get 220",
        "mlx5_1 it is another GPU's rail; mlx5_2 it is another GPU's rail",
        "mlx5_1 it is no GPU's rail",
    ];
    for ((topology, wish, gpu), said) in asked.into_iter().zip(answers) {
        let (whys, said) = (whys(topology, wish, gpu), said.split("; "));
        assert_eq!(whys.len(), said.clone().count() + 1);
        for (why, said) in whys[1..].iter().zip(said) {
            let rest = why.strip_prefix(said).expect(why);
            let is_right = rest.is_empty() || rest == " Gb/s instead of 400 Gb/s";
            assert!(is_right, "{why}");
        }
    }
    let spread = wish(Policy::Spread, NicsEach::Auto);
    let node = map_of(&topology, &spread, Some(&[GpuIndex(0)]), &[]);
    let of_nobody = pairs::pairs(&topology, &node, &spread, GpuIndex(2));
    let lacks = "the job does not have";
    let is_told = of_nobody.iter().all(|pair| pair.why.contains(lacks));
    assert!(is_told, "{of_nobody:?}");
    let unknown = without_rates(&topology);
    for (topology, share) in [(&topology, Some(400_000)), (&unknown, None)] {
        let node = map(topology, &by_closest);
        for pair in pairs::pairs(topology, &node, &by_closest, GpuIndex(0)) {
            assert_eq!(pair.alone_mbps.is_some(), share.is_some(), "{}", pair.nic);
            let expected = share.filter(|_| pair.chosen);
            assert_eq!(pair.share_mbps, expected, "{}", pair.nic);
        }
    }
    let shown = [400_000, 2500, 100].map(gbps);
    assert_eq!(shown, ["400 Gb/s", "2.5 Gb/s", "0.1 Gb/s"]);
    let mut request = wish(Policy::Closest, ONE);
    request.admin.through.set(PathType::Node, 1000);
    let farther = whys(&machine(&[0], &[(0, 400), (1, 400)]), &request, 0);
    says(&farther[1], ["", "", "farther: NODE instead of PIX"]);
    let nics = [(0, 400), (1, 400), (0, 400)];
    let broken = without(machine(&[0, 3, 2], &nics), &["mlx5_0"]);
    let broken = whys(&broken, &request, 1);
    let steady = |why: &String| why.starts_with("mlx5_1 this GPU stays where it");
    assert!(broken.iter().any(steady), "{broken:?}");
}

#[test]
fn under_numa_the_nics_of_the_numa_node_are_told_from_the_nearest_elsewhere() {
    let topology = machine(&[0, 2], &[(0, 400), (1, 400)]);
    let node = map(&topology, &wish(Policy::Numa, NicsEach::Auto));
    assert!(node.gpus[0].reason.starts_with("all 2 good NICs of its"));
    assert!(node.gpus[1].reason.contains("node has no good NIC"));
}

#[test]
fn the_fabric_is_what_carries_most_and_of_equal_ones_what_has_more_ports() {
    for (ethernet, infiniband, fabric) in [
        // fewer ports, and more bandwidth; as much, and more ports
        (&[100, 100, 100][..], &[400], LinkLayer::InfiniBand),
        (&[200, 200], &[400], LinkLayer::Ethernet),
        (&[400], &[400], LinkLayer::InfiniBand),
    ] {
        let rates = ethernet.iter().chain(infiniband);
        let nics: Vec<(u8, u64)> = rates.map(|&rate| (0, rate)).collect();
        let mut topology = machine(&[0], &nics);
        for nic in &mut topology.nics[..ethernet.len()] {
            nic.ports[0].link_layer = LinkLayer::Ethernet;
        }
        let first = topology.nic(closest(&topology).rails[0].nic);
        assert_eq!(first.ports[0].link_layer, fabric, "{ethernet:?}");
    }
}

#[test]
fn a_gpu_whose_rails_are_all_broken_gets_as_many_others_as_were_asked_for() {
    let whole = machine(&[0, 3], &[0, 1, 2, 3].map(|switch| (switch, 400)));
    let topology = without(whole, &["mlx5_0", "mlx5_1"]);
    // by `auto` one in place of its part
    for (each, counts) in [(NicsEach::Number(2), [2, 2]), (NicsEach::Auto, [1, 2])] {
        let rails = rails(&map(&topology, &wish(Policy::Rail, each)));
        assert_eq!([rails[0].len(), rails[1].len()], counts);
    }
}

#[test]
fn a_job_of_no_gpu_of_the_node_gets_no_idle_nic() {
    let topology = machine(&[0], &[(0, 400), (1, 400)]);
    let wish = wish(Policy::Spread, NicsEach::Auto);
    let spread = |alone| map_of(&topology, &wish, alone, &[]);
    assert_eq!(spread(Some(&[])), spread(None));
    let bare = map_of(&machine(&[0], &[]), &wish, Some(&[GpuIndex(0)]), &[]);
    assert!(bare.gpus[0].choices.is_empty());
}

#[test]
fn what_an_admin_names_in_vain_and_ports_beyond_the_limit_are_told() {
    let mut request = Wish::default();
    request.admin.selection.include = patterns("mlx5_*");
    request.admin.selection.exclude = patterns("mlx9_*");
    let node = map(&machine(&[0], &[(0, 400)]), &request);
    assert_eq!(node.diagnostics.len(), 1);
    assert_eq!(node.diagnostics[0].place, "mlx9_*");
    for (ports, beyond) in [(64, 0), (65, 1), (70, 6)] {
        let nics: Vec<(u8, u64)> = (0..ports).map(|port| (port % 4, 400)).collect();
        let node = closest(&machine(&[0], &nics));
        assert_eq!((node.rails.len(), node.excluded.len()), (64, beyond));
        let said = strings(&node.diagnostics).concat();
        assert_eq!(said.is_empty(), beyond == 0);
        if beyond > 0 {
            let part = format!("{ports} usable ports: only the first 64");
            assert!(said.contains(&part), "{said}");
            assert!(node.excluded[0].why.contains("beyond the 64 ports"));
        }
    }
}

/// Checks that the maps of a step, and of a task of it that may not open some NICs, differ in their
/// reasons alone from those without words.
fn differ_in_words_alone(
    topology: &Topology,
    wish: &Wish,
    alone: Option<&[GpuIndex]>,
    closed: &[usize],
) {
    let [worded, wordless] = [false, true].map(|wordless| {
        let mut wish = wish.clone();
        wish.wordless = wordless;
        let step = map_of(topology, &wish, alone, &[]);
        let task = map_of(topology, &super::closed(wish, closed), alone, &step.rails);
        [step, task]
    });
    for (mut worded, wordless) in worded.into_iter().zip(wordless) {
        assert!(worded.gpus.iter().all(|gpu| !gpu.reason.is_empty()));
        worded.gpus.iter_mut().for_each(|gpu| gpu.reason.clear());
        assert_eq!(worded, wordless, "{:?}", wish.policy);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_map_without_words_is_the_same_map(parts in parts(), each in 0u8..4, closed in 0usize..6) {
        let topology = parts.topology();
        let nics_each = if each == 0 { NicsEach::Auto } else { NicsEach::Number(each) };
        let alone: Vec<GpuIndex> = topology.gpu_indices().collect();
        for policy in POLICIES {
            let request = wish(policy, nics_each);
            differ_in_words_alone(&topology, &request, Some(&alone), &[closed % topology.nics.len()]);
        }
    }
}

#[test]
fn a_large_map_without_words_is_the_same_map() {
    let gpus: Vec<u8> = (0..180).map(|gpu| (gpu * 7 % 4) as u8).collect();
    let nics: Vec<(u8, u64)> = (0..60).map(|nic| (nic % 4, 400)).collect();
    let topology = machine(&gpus, &nics);
    // a small job, so that `spread` finds NICs that are idle
    let alone = [GpuIndex(0), GpuIndex(1), GpuIndex(50)];
    let each = POLICIES.into_iter().zip([4, 1, 2, 1, 1]);
    for (policy, each) in each.chain([(Policy::Closest, 1)]) {
        let request = wish(policy, NicsEach::Number(each));
        differ_in_words_alone(&topology, &request, Some(&alone), &[0, 1, 17]);
    }
    differ_in_words_alone(&topology, &Wish::default(), None, &[5, 6]);
}
