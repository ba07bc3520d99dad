"""`relight sql`: sessions and steps of any store as tables, with JSON; nothing can be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import relight
from relight.cli.inspect.tables import query
from relight.errors import UsageError
from tests.support.shell import Shell


@pytest.fixture
def shed() -> relight.Relight:
    opened = relight.open("memory:")
    with opened.session("shed", task="Paint", labels={"team": "blue"}) as s:
        target = s.append({"role": "user", "content": "Which colour?"})
        s.append({"role": "assistant", "content": "Red \ud800"})
    opened.history.fork(f"shed@{target.seq}", name="fork")
    return opened


def ask(rl: relight.Relight, sql: str) -> list[tuple[object, ...]]:
    with query(rl, sql) as (_, rows):
        return list(rows)


def test_two_columns_of_one_name_are_both_in_the_document(shell: Shell, some: relight.Relight) -> None:
    [row, *_] = shell.json("sql", "select name, seq as name, 7 as [name:1], kind as name from steps('fix-login')")
    assert row == {"name": "fix-login", "name:1": 1, "name:1:1": 7, "name:2": "attempt"}


def test_sessions_and_steps_are_tables_and_bodies_are_json(shed: relight.Relight) -> None:
    assert ask(shed, "select name, labels ->> '$.team', task from sessions order by name") == [
        ("fork", "blue", "Paint"),
        ("shed", "blue", "Paint"),
    ]
    said = "select seq, body ->> '$.messages[0].content' from steps where kind = 'message' order by seq"
    assert ask(shed, said) == [(2, "Which colour?"), (3, "Red ?")]
    assert ask(shed, "select count(*) from steps('shed') where text like '%colour%'") == [(1,)]
    assert ask(shed, "select count(*) from steps where name = 'fork' and kind = 'message'") == [(0,)], (
        "a fork's own steps"
    )
    joined = "select s.name, count(*) from sessions s join steps t on t.session = s.id group by 1 order by 1"
    assert ask(shed, joined) == [("shed", 4)], "a fork that has no step of its own has no row"


@pytest.mark.parametrize(
    "sql",
    [
        "create table x (a)",
        "delete from steps",
        "insert into sessions (id) values ('x')",
        "attach 'x.db' as y",
        "pragma user_version = 3",
        "vacuum into 'x.db'",
        "select 1; select 2",
        "selec 1",
        "",
        "select nothing from steps",
        "select load_extension('x')",
    ],
)
def test_whatever_does_not_read_is_refused(shed: relight.Relight, sql: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        ask(shed, sql)
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_rows_and_json(shell: Shell, some: relight.Relight) -> None:
    asked = "select name, seq from sessions order by name limit 2"
    assert shell.run("sql", asked).stdout.count("\n") == 2
    found = json.loads(shell.run("sql", asked, "--json").stdout)
    assert [sorted(one) for one in found] == [["name", "seq"]] * 2
