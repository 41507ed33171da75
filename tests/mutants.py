#!/usr/bin/env python3
"""Does a test of core notice each small change to what decides?  A sample of cargo-mutants' list, in one build.

    tests/mutants.py [-n 120] [--seed 46] [--only NAME] [FOLDER or FILE below crates/core/src]...

A mutant is known by its name without line and column, so that two trees have the same sample but for functions that changed.
Each becomes an `if` on the variable MUTANT in a copy of the tree, and the tests run once for each.  Those that do not compile
so (`impl Trait`, `const`, a type without a default) are built alone.  Needs cargo-mutants, tree-sitter and tree-sitter-rust.
"""
import argparse, hashlib, json, os, re, resource, shutil, subprocess, sys
from pathlib import Path
from tree_sitter import Language, Parser
import tree_sitter_rust

ROOT = Path(__file__).resolve().parent.parent
TREE = Path(os.environ.get("MUTANTS_TREE", ROOT / "target/mutants"))
SLOW = ["few_random_machines", "no_value_leads_to_a_nic", "no_answer_is_better", "a_large_map_without_words"]
SWITCH = """
pub(crate) fn mutant(id: usize) -> bool {
    static ON: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *ON.get_or_init(|| std::env::var("MUTANT").map_or(0, |id| id.parse().unwrap())) == id
}
"""
ENV = os.environ | {"PROPTEST_CASES": "8", "PROPTEST_RNG_SEED": "1", "CARGO_PROFILE_DEV_DEBUG": "0",
                    "NIC_PLACEMENT_ROOT": str(TREE), "CARGO_TARGET_DIR": str(TREE / "target")}


def drawn(places, seed, count):
    files = [f"-f=crates/core/src/{place}" + ("" if place.endswith(".rs") else "/**") for place in places]
    listed = subprocess.run(["cargo", "mutants", "-p", "nic-placement-core", "--list", "--json", *files],
                            cwd=ROOT, check=True, capture_output=True).stdout
    mutants, seen = json.loads(listed), {}
    for mutant in mutants:
        name = re.sub(r":\d+:\d+: ", ": ", mutant["name"]).removeprefix("crates/core/src/")
        seen[name] = seen.get(name, 0) + 1
        mutant["name"] = f"{name} #{seen[name]}"
    mutants.sort(key=lambda mutant: hashlib.sha256(f"{seed} {mutant['name']}".encode()).digest())
    return mutants[:count]


def offset(text, place):
    lines = text.split("\n")[:place["line"]]
    return len("\n".join(lines[:-1] + [lines[-1][:place["column"] - 1]]).encode())


def within(node, kinds):
    while node and node.type not in kinds:
        node = node.parent
    return node


def switched(source, tree, mutant):
    """(start, text before it, end, text after it) of what the mutant's switch stands around."""
    text = source.decode()
    start, end = (offset(text, mutant["span"][side]) for side in ("start", "end"))
    on, to = f"crate::mutant({mutant['id']})", mutant["replacement"]
    of = lambda node: source[node.start_byte:node.end_byte].decode()
    node = tree.root_node.descendant_for_byte_range(start, start + 1)
    either = lambda node, other: (node.start_byte, f"(if {on} {{ ({other}) }} else {{ (", node.end_byte, ") })")
    match mutant["genre"]:
        case "FnValue":
            return start, f"if {on} {{ return {to}; }} ", start, ""
        case "BinaryOperator":
            node = node.parent
            if node.type == "let_chain":
                return None
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            return either(node, f"{of(left)} {to} {of(right)}")
        case "UnaryOperator":
            node = within(node, ("unary_expression",))
            return either(node, of(node)[1:])
        case "MatchArmGuard":
            return start, f"{on} || (" if to == "true" else f"!{on} && (", end, ")"
        case "MatchArm":
            pattern = within(node, ("match_arm",)).child_by_field_name("pattern")
            guard = pattern.child_by_field_name("condition")
            if guard:
                return guard.start_byte, f"!{on} && (", guard.end_byte, ")"
            return pattern.end_byte, f" if !{on} ", pattern.end_byte, ""
        case "StructField":
            node = within(node, ("field_initializer", "shorthand_field_initializer"))
            fields = within(node, ("field_initializer_list",))
            base = next(of(child)[2:] for child in fields.children if child.type == "base_field_initializer")
            name = of(node).split(":")[0].strip()
            value = node.child_by_field_name("value") or node
            begin, before, end, after = either(value, f"({base}).{name}")
            return begin, (f"{name}: " if value == node else "") + before, end, after


def written(mutants):
    """Writes the tree with these mutants' switches; gives each one's bytes in its file."""
    parser, places = Parser(Language(tree_sitter_rust.language())), {}
    for file in sorted({mutant["file"] for mutant in ALL}):
        source = (ROOT / file).read_bytes()
        tree, inserted = parser.parse(source), []
        for mutant in (mutant for mutant in mutants if mutant["file"] == file):
            start, before, end, after = switched(source, tree, mutant) or (0, "!", 0, "")
            # outer ones begin first and end last
            inserted += [(start, 1, -end, before, mutant), (end, 0 if end > start else 2, -start, after, mutant)]
        out, done = b"", 0
        for at, _, _, what, mutant in sorted(inserted, key=lambda each: each[:3]):
            out += source[done:at]
            place = places.setdefault(mutant["id"], [file, len(out), 0])
            out, done = out + what.encode(), at
            place[2] = len(out)
        put(file, out + source[done:])
    put("crates/core/src/lib.rs", (ROOT / "crates/core/src/lib.rs").read_bytes() + SWITCH.encode())
    return places


def put(file, data):
    if not (TREE / file).exists() or (TREE / file).read_bytes() != data:
        (TREE / file).write_bytes(data)


def built():
    """The test program, or the compiler's errors as (file, first byte, code)."""
    ran = subprocess.run(["cargo", "test", "--locked", "-p", "nic-placement-core", "--lib", "--no-run", "--message-format=json",
                          "--config=profile.dev.package.nic-placement-core.opt-level=1"],
                         cwd=TREE, env=ENV, capture_output=True, text=True)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    programs = [line["executable"] for line in lines if line.get("executable")]
    if ran.returncode == 0:
        return programs[-1], []
    errors = [line["message"] for line in lines if line["reason"] == "compiler-message" and line["message"]["level"] == "error"]
    return None, [(span["file_name"], span["byte_start"], (error["code"] or {}).get("code")) for error in errors
                  for span in error["spans"] if span["is_primary"]] or sys.exit(ran.stderr)


def judged(program, number):
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (45, 45))
    skipped = [word for slow in SLOW for word in ("--skip", slow)]
    for which in skipped, SLOW:
        tests = subprocess.Popen([program, *which], cwd=TREE / "crates/core", env=ENV | {"MUTANT": str(number)}, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=limit)
        for line in tests.stdout:
            if line.startswith("test ") and line.endswith("FAILED\n"):
                tests.kill()
                tests.wait()
                return "caught", line.split()[1]
        if tests.wait() != 0:
            return "caught", "by its time" if tests.returncode in (-24, -9) else f"ended {tests.returncode}"
    return "lives", ""


parser = argparse.ArgumentParser()
parser.add_argument("-n", type=int, default=120)
parser.add_argument("--seed", default="46")
parser.add_argument("--only", default="")
parser.add_argument("places", nargs="*", default=["policy", "bind", "gpus", "libraries"])
asked = parser.parse_args()
ALL = drawn(asked.places, asked.seed, asked.n)
for number, mutant in enumerate(ALL, 1):
    mutant["id"] = number
ALL = [mutant for mutant in ALL if asked.only in mutant["name"]]
# newly dated, so that Cargo sees what an earlier run had written over
shutil.copytree(ROOT, TREE, dirs_exist_ok=True, copy_function=shutil.copy,
                ignore=lambda at, names: {"target", ".git"} & set(names) if at == str(ROOT) else [])
alone, together, found = [], ALL, {}


def told(mutant, verdict, test=""):
    found.setdefault(verdict, []).append(mutant["name"])
    print(f"{verdict:9} {mutant['name']}  {test}", flush=True)


while True:
    places = written(together)
    program, errors = built()
    if program:
        break
    bad = {}
    for file, byte, code in errors:
        of_file = [(start, end, number) for number, (of, start, end) in places.items() if of == file]
        holds = [(end - start, number) for start, end, number in of_file if start <= byte < end]
        # a match without one of its arms: the error is at its head; a second `impl Trait`: at what follows
        after = code == "E0004"
        holds = holds or [(abs(start - byte), number) for start, _, number in of_file if (start > byte) == after]
        bad |= {min(holds)[1]: code} if holds else {}
    if not bad:
        sys.exit(f"no mutant's: {errors[:5]}")
    for mutant in together:
        # no default, a missing arm, no such operator: it would not compile alone either
        if bad.get(mutant["id"]) in ("E0277", "E0004", "E0368", "E0369"):
            told(mutant, "unviable")
        elif mutant["id"] in bad:
            alone.append(mutant)
    together = [mutant for mutant in together if mutant["id"] not in bad]
shutil.copy(program, TREE / "program")
if judged(TREE / "program", 0)[0] != "lives":
    sys.exit("the tests fail without a mutant")
for mutant in together:
    told(mutant, *judged(TREE / "program", mutant["id"]))
for mutant in alone:
    written([])
    source = (ROOT / mutant["file"]).read_bytes()
    start, end = (offset(source.decode(), mutant["span"][side]) for side in ("start", "end"))
    put(mutant["file"], source[:start] + mutant["replacement"].encode() + source[end:])
    program, _ = built()
    told(mutant, *(judged(program, 0) if program else ("unviable", "")))
print({verdict: len(names) for verdict, names in found.items()})
