"""`relight show REF@SEQ`: print one checkpoint and what returning to it means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from relight.cli.app.context import CliContext
from relight.cli.inspect.show import can_resume_fact
from relight.cli.render.cells import cut
from relight.cli.render.console import printable
from relight.cli.render.file_facts import checkpoint_facts, left_out_fact
from relight.cli.render.plan import not_undone
from relight.cli.render.style import Line, Span
from relight.cli.render.table import facts
from relight.history.documents import call_document, checkpoint_document, plan_document
from relight.text.facts import Fact, calls_in_doubt
from relight.text.format import count, duration, moment, seconds_between

if TYPE_CHECKING:
    from relight.library.facade import Relight


def show_checkpoint(cli: CliContext, rl: Relight, ref: str, *, as_json: bool) -> int:
    """Print the checkpoint and what returning to it would and would not undo."""
    plan, now = rl.can_resume(ref), cli.now()
    seq = int(plan.checkpoint.rpartition("@")[2])
    found = next(one for one in rl.checkpoints(plan.session) if one.seq == seq)
    info = rl.get(plan.session)
    since = rl.effects_since(plan.session, seq)
    held = rl.files_at(ref, start=True) if plan.files is not None and plan.files.captured_at is not None else None
    if as_json:
        effects = [call_document(call) for call in since] if since is not None else None
        left_out = msgspec.to_builtins(held.left_out) if held is not None else None
        facts_of_it = {"can_resume": plan_document(plan), "effects_since": effects, "left_out": left_out}
        cli.console.document({**checkpoint_document(found), **facts_of_it})
        return 0
    behind = f"{count(info.head - seq, 'step')} behind head" if info.head > seq else "the head"
    label = f'  "{found.label}"' if found.label else ""
    ago = duration(seconds_between(found.created_at, now) or 0)
    title = f"{info.title}@{seq}{label}  {moment(found.created_at, now)}, {ago} ago"
    entries = [
        Fact("step", f"{found.kind}, {behind}"),
        Fact("conversation", count(plan.message_count, "message")),
        *checkpoint_facts(plan.files),
        left_out_fact(held),
        Fact("calls", calls_in_doubt(plan)),
        not_undone(since),
        can_resume_fact(plan),
    ]
    style = cli.console.out
    header: list[Line] = [[Span(cut(printable(title, style), style.width), "bold")]]
    cli.console.write(header + facts([one for one in entries if one.text], style))
    cli.console.next(("fork here", f"relight fork {ref}"), ("go back here", f"relight rewind {ref}"))
    return 0
