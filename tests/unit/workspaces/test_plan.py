"""What a restore may do, for any three manifests: properties of the pure planner."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from relight.journal.files.restore_plan import ancestors, decide, diff, may_run_later
from relight.values.snapshot import Decision, Entry

NAMES = [b"a", b"b", b"c"]
PATHS = [*NAMES, *(x + b"/" + y for x in NAMES for y in NAMES), b"a/a/a", b"a/b/c"]


@st.composite
def manifests(draw: st.DrawFn) -> dict[bytes, Entry]:
    """A tree: what has something below it is a directory."""
    tree: dict[bytes, Entry] = {}
    for path in draw(st.lists(st.sampled_from(PATHS), unique=True, max_size=9)):
        if any(tree.get(up, Entry(name=b"", kind="dir")).kind != "dir" for up in ancestors(path)):
            continue
        if any(other.startswith(path + b"/") for other in tree):
            continue
        for up in ancestors(path):
            tree.setdefault(up, Entry(name=up.rpartition(b"/")[2], kind="dir", mode=0o755))
        kind = draw(st.sampled_from(["file", "file", "file", "link", "dir", "skip"]))
        ref = draw(st.sampled_from([b"1", b"2", b"3"])) if kind != "skip" else b"fifo"
        tree[path] = Entry(name=path.rpartition(b"/")[2], kind=kind, mode=0o644, ref=ref)  # type: ignore[arg-type]
    return tree


def apply(tree: dict[bytes, Entry], plan: Decision) -> dict[bytes, Entry]:
    """What the disk holds after the plan; fails where an action could not be done."""
    after = dict(tree)
    for action in plan.deletes:
        assert not any(path.startswith(action.path + b"/") for path in after), (
            "a directory was deleted before what is in it"
        )
        del after[action.path]
    for action in plan.writes:
        entry = action.entry
        assert entry is not None
        if entry.kind != "dir":
            assert not any(path.startswith(action.path + b"/") for path in after), "a file over a directory in use"
        for up in ancestors(action.path):
            assert after.get(up) is None or after[up].kind == "dir" or up in {one.path for one in plan.writes}
        after[action.path] = entry
    return after


choices = st.sampled_from(["stop", "theirs", "ours", "force"])


@settings(max_examples=150)
@given(manifests(), manifests(), manifests(), choices, st.booleans(), st.sets(st.sampled_from(PATHS)))
def test_only_known_content_is_destroyed(target, current, last, choice, exact, held) -> None:
    plan = decide(target=target, current=current, last=last, held=held, choice=choice, exact=exact)
    after = apply(current, plan)
    for path, found in current.items():
        kept = after.get(path) is not None and found.same(after[path])
        if found.kind == "skip":
            assert kept, "something that no snapshot can hold was touched"
        if path not in held and path not in target and not exact:
            assert kept, "what no snapshot of the session holds was deleted"
        if choice in ("stop", "theirs") and not found.same(last.get(path)) and found.kind != "dir" and not exact:
            assert kept, "somebody else's change was destroyed"


@settings(max_examples=100)
@given(manifests(), manifests(), st.booleans())
def test_force_and_exact_reach_the_target(target, current, exact) -> None:
    plan = decide(target=target, current=current, last={}, held=set(current), choice="force", exact=exact)
    after = apply(current, plan)
    blocked = {one.path for one in plan.kept}
    for path, wanted in target.items():
        if wanted.kind != "skip" and path not in blocked:
            assert wanted.same(after.get(path)), path


@given(manifests(), manifests())
def test_unchanged_since_the_last_snapshot_means_no_conflict(target, current) -> None:
    plan = decide(target=target, current=current, last=current, held=set(current) | set(target))
    assert all(
        "no snapshot" in one.reason or "in its place" in one.reason or "in the place" in one.reason
        for one in plan.conflicts
    )


@given(manifests(), manifests(), manifests(), choices)
def test_equal_paths_may_be_left_out_of_both_sides(target, current, last, choice) -> None:
    whole = decide(target=target, current=current, last=last, held=set(last), choice=choice)
    same = {path for path in target.keys() & current.keys() if target[path].same(current[path])}
    same = {path for path in same if target[path].kind not in ("dir", "skip")}
    pruned = decide(
        target={p: e for p, e in target.items() if p not in same},
        current={p: e for p, e in current.items() if p not in same},
        last=last,
        held=set(last),
        choice=choice,
    )
    assert {one.path for one in pruned.writes} >= {one.path for one in whole.writes} - same


@given(manifests(), manifests())
def test_a_diff_names_exactly_what_differs(one, other) -> None:
    changed = {change.path for change in diff(one, other)}
    for path in one.keys() | other.keys():
        mine, yours = one.get(path), other.get(path)
        assert (path in changed) == (mine is None or not mine.same(yours))


def test_files_that_run_later_are_named() -> None:
    for path in (
        b".envrc",
        b"sub/.git/hooks/pre-commit",
        b".claude/settings.json",
        b".mcp.json",
        b".vscode/tasks.json",
        b".opencode/plugin/any.js",
        b".gemini/settings.json",
        b".pi/extensions/any.ts",
    ):
        assert may_run_later(path)
    assert not may_run_later(b"src/main.py")
