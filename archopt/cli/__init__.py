"""The command line: parse, call, print. One file a command; what they need is imported when they run."""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import typer

from archopt.cli.ask import ask_command
from archopt.cli.doctor import doctor_command
from archopt.cli.fit import fit_command
from archopt.cli.recommend import recommend_command
from archopt.cli.report import report_command
from archopt.cli.search import search_command
from archopt.cli.tell import tell_command
from archopt.cli.theory import theory_command
from archopt.cli.watch import watch_command
from archopt.cli.worker import worker_command
from archopt.errors import ArchoptError

# Typer brings a click of its own or uses the installed one, by version: this is the base of its usage errors in both.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

INTERRUPTED = 130  # what shells give for a process that Ctrl-C ended
MAX_COMPLAINT = 280  # characters: a database or a parser may have said more, with anything in it

app = typer.Typer(
    name="archopt",
    help="How many attention heads, how wide, how weighted, for your data set size, and how sure that is.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("search")(search_command)
app.command("fit")(fit_command)
app.command("recommend")(recommend_command)
app.command("report")(report_command)
app.command("ask")(ask_command)
app.command("tell")(tell_command)
app.command("worker")(worker_command)
app.command("watch")(watch_command)
app.command("theory")(theory_command)
app.command("doctor")(doctor_command)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version and exit.")
) -> None:
    if version:
        from archopt import __version__

        typer.echo(f"archopt {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 failed while running, 2 bad input, 130 interrupted."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run one command line.

    Returns:
        The exit code. A user's mistake is one line on standard error.
    """
    previous = signal.signal(signal.SIGTERM, _as_interrupt)  # a batch system's way to say Ctrl-C
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="archopt", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.Exit as leave:
        return leave.exit_code
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        command = "archopt" if context is None else context.command_path
        return _complain(f"{_message(error)} (see {command} --help)", 2)
    except ArchoptError as error:
        return _complain(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", INTERRUPTED)
    except MemoryError as error:
        return _complain(f"not enough memory: {error or 'choose smaller sizes'}", 1)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            return _complain(f"the output cannot be written ({error.strerror or error})", 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: say nothing, end quietly
        return 0
    finally:
        signal.signal(signal.SIGTERM, previous)


def _message(error: Exception) -> str:
    """With the name of the option, which ``str`` leaves out."""
    formatted = getattr(error, "format_message", error.__str__)()
    return " ".join(str(formatted).split()).rstrip(".")


def _complain(message: str, code: int) -> int:
    from archopt.report.numbers import printable

    said = printable(" ".join(message.split()), sys.stderr.encoding or "utf-8", most=MAX_COMPLAINT)
    print(f"archopt: {said}", file=sys.stderr)
    return code


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
