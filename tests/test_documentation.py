"""Nothing that a user meets is without documentation: public names, commands, options, and the README's commands."""

import dataclasses
import inspect
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import archopt
from archopt.cli import app, run

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
USAGE_ERROR = typer.BadParameter.__bases__[0]  # of typer's own click, or of the installed one, by version
COMMANDS = typer.main.get_command(app).commands


def _public_things() -> list[tuple[str, Any]]:
    pytest.importorskip("torch")
    names = [name for name in archopt.__all__ if name != "__version__"]
    things = [(name, getattr(archopt, name)) for name in names]
    for module in (archopt.sklearn, archopt.theory):
        prefix = module.__name__.removeprefix("archopt.")
        things += [(f"{prefix}.{name}", getattr(module, name)) for name in module.__all__]
    return things


def _methods(thing: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(thing).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, function


def _parameters(function: Any) -> set[str]:
    return {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("self", "cls") and parameter.kind is not parameter.VAR_KEYWORD and not name.startswith("_")
    }


def _words(text: str | None) -> set[str]:
    return set(re.findall(r"[A-Za-z_][A-Za-z_0-9]*", text or ""))


def _said(thing: Any) -> set[str]:
    """The words of a docstring, and of those that it refers to by "as for"."""
    text = inspect.getdoc(thing) or ""
    home = vars(inspect.getmodule(thing)) if inspect.getmodule(thing) else {}
    others = re.findall(r"[Aa]s (?:for )?(?::func:)?`([a-z_]+)`", text)
    return _words(text).union(*(_words(inspect.getdoc(home[other])) for other in others if other in home))


@pytest.mark.torch
def test_every_public_name_says_what_it_is_and_what_it_takes() -> None:
    undocumented = []
    for name, thing in _public_things():
        if not (inspect.isfunction(thing) or inspect.isclass(thing) or inspect.ismodule(thing)):
            continue  # a constant: its module says what it is
        if not (inspect.getdoc(thing) or "").strip():
            undocumented.append(name)
        elif inspect.isfunction(thing):
            undocumented += [f"{name}({left})" for left in sorted(_parameters(thing) - _said(thing))]
        elif inspect.isclass(thing):
            known = _said(thing) | _words(thing.__init__.__doc__)
            fields = [field.name for field in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else []
            own = _parameters(thing.__init__) if "__init__" in vars(thing) and not fields else set()
            undocumented += [f"{name}.{left}" for left in sorted({*fields, *own} - known) if not left.startswith("_")]
    assert undocumented == []


@pytest.mark.torch
def test_every_public_method_says_what_it_does() -> None:
    undocumented = [
        f"{name}.{method}"
        for name, thing in _public_things()
        if inspect.isclass(thing) and thing.__module__.startswith("archopt")
        for method, _ in _methods(thing)
        if not (inspect.getdoc(getattr(thing, method)) or "").strip()
    ]
    assert undocumented == []


def test_every_name_at_the_top_is_in_the_readme() -> None:
    of_commands = {"cells_frame", "join_campaign"}  # which the README has as commands or files
    by_docstring = {"ArchoptError", "GridResult", "HeadAllocation", "WorkDone", "__version__", "feasible_allocations"}
    assert set(archopt.__all__) - _words(README) <= of_commands | by_docstring


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_explains_itself_with_an_example(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    command = COMMANDS[name]
    assert f"archopt {name}" in README
    assert (command.help or "").split(".")[0].strip()
    helpless = [option.name for option in command.params if not (getattr(option, "help", None) or "").strip()]
    assert helpless == []
    examples = re.findall(rf"Examples?:\s+(archopt {name} [^\n]+)", inspect.cleandoc(command.help or ""))
    assert examples, "its --help has no example"
    for example in examples:
        _parse(shlex.split(example))
    assert run([name, "--help"]) == 0
    assert "Example: archopt" in " ".join(capfd.readouterr().out.split())


def _parse(words: list[str]) -> None:
    """Through the command line's own parser, without running anything.

    Raises:
        click's or typer's usage errors: an unknown command or option, a value that is none, an argument that lacks.
    """
    program, name, *rest = words
    assert program == "archopt", words
    if name != "--help":
        COMMANDS[name].make_context(name, rest)


# What only the parser sees, and why; every other command of the README is run.
PARSED_ONLY = {
    "archopt search sklearn:digits --d-model 48": "four minutes",
    "archopt search prices.csv --target price --d-model 96": "minutes; the same command runs on a smaller file below",
    "archopt search corpus.txt --d-model 128 --head-dim-multiple-of 8": "four minutes",
    "archopt search prices.csv --target price --samples 300,1e3,3e3 --d-model 48,96 --trials 240": "minutes",
    "archopt theory": "20 s; tests/cli/test_theory_command.py runs it smaller",
    "archopt search prices.csv --target price --d-model 96 --storage postgresql": "a PostgreSQL server",
    "archopt worker": "a PostgreSQL server; tests/integration/postgres runs it",
    "archopt report digits-d48": "minutes; tests/campaign/test_reporting.py reports smaller searches",
    "archopt report STUDY": "a study that is somebody's; tests/campaign/test_reporting.py reports some",
    "archopt watch prices": "no campaign of that name; the test of a search watches its own",
    "archopt watch prices --": "the same",
    "archopt doctor --head-dims 8,64 --storage postgresql": "a PostgreSQL server",
}
NOT_OURS = ("pip install", "tox", "optuna-dashboard")  # what fetches packages, or serves until it is stopped


def _readme_commands() -> list[str]:
    """The lines of the README's sh blocks that call archopt, and what it says of others; loops are bash's own."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL):
        if "for _ in" in block:
            continue
        for line in block.replace("\\\n", " ").splitlines():
            parts = [part.split("  #")[0].strip() for part in line.split("&&")]
            found += [part for part in parts if part and not part.startswith(NOT_OURS)]
    return found


README_COMMANDS = _readme_commands()


def _why_not_run(command: str) -> str | None:
    for start, why in PARSED_ONLY.items():
        if command == start or (command.startswith(start) and start not in README_COMMANDS):
            return why
    return None


@pytest.mark.parametrize("command", README_COMMANDS)
def test_a_command_of_the_readme_is_one_that_the_parser_takes(command: str) -> None:
    _parse(shlex.split(command))


def test_what_is_only_parsed_is_still_in_the_readme() -> None:
    assert [start for start in PARSED_ONLY if not any(line.startswith(start) for line in README_COMMANDS)] == []


def test_the_loop_is_sound_and_its_commands_parse() -> None:
    (block,) = [block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "for _ in" in block]
    subprocess.run(["bash", "-n"], input=block, text=True, check=True)
    (options,) = re.findall(r'^study="(.*)"', block, re.MULTILINE)
    calls = re.findall(r"archopt (?:ask|tell|recommend)[^\n)]*", block.replace("\\\n", " "))
    assert len(calls) == 3
    for call in calls:
        _parse(shlex.split(re.sub(r"\$\(jq [^)]*\)?|\"\$value\"", "0", call.replace("$study", options))))


RUNNABLE = [command for command in README_COMMANDS if _why_not_run(command) is None]


def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    """In the README's order, since later ones read what earlier ones wrote."""
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    _write_runs(tmp_path / "runs.csv")
    assert RUNNABLE
    for command in RUNNABLE:
        assert run(shlex.split(command)[1:]) == 0, (command, capfd.readouterr().err)
        capfd.readouterr()


def _write_runs(path: Path) -> None:
    """Runs with the columns that the README's `archopt fit` names: the best head_dim grows with n."""
    rows = ["run_id,n_samples,d_model,n_heads,learning_rate,val_loss"]
    for n in (300, 1_000, 3_000, 10_000):
        for width in (48, 96):
            for heads in (1, 2, 4, 6, 8, 12, 16, 24):
                for rate in (0.001, 0.01):
                    loss = 1.0 + 0.03 * (width / heads / 8 / (n / 1e3) ** 0.2 - 1) ** 2 + rate
                    rows.append(f"{len(rows)},{n},{width},{heads},{rate},{loss:.6f}")
    path.write_text("\n".join(rows) + "\n")


@pytest.mark.torch
def test_a_search_of_ones_own_table_runs_as_the_readme_writes_it(tmp_path: Path, monkeypatch, capfd) -> None:
    """`archopt search prices.csv --target price --d-model 96`, on 60 rows, with --trials 2 --steps 5 --workers 1."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    rows = [f"{k % 7},{k * 37 % 60},{k % 7 + 0.1 * (k * 37 % 60):.2f}" for k in range(60)]
    Path("prices.csv").write_text("rooms,age,price\n" + "\n".join(rows) + "\n")
    command = "archopt search prices.csv --target price --d-model 96"
    assert command in README_COMMANDS
    assert run([*shlex.split(command)[1:], "--trials", "2", "--steps", "5", "--workers", "1", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["allocation"]["n_heads"] * found["allocation"]["head_dim"] == 96
    assert run(["watch", "prices-d96", "--once"]) == 0
    assert "current best" in capfd.readouterr().out


def test_the_parser_that_these_tests_use_refuses_what_is_wrong() -> None:
    for wrong, said in (
        ("archopt search x.csv --d-model 8 --no-such 1", "no-such"),
        ("archopt tell --study a", "(?i)missing"),
        ("archopt recommend --d-model x", "not a number"),
    ):
        with pytest.raises(USAGE_ERROR) as caught:
            _parse(shlex.split(wrong))
        assert re.search(said, caught.value.format_message() or str(caught.value))
