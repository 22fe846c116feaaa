"""`hak system check | tune | undo`: the machine's settings, made quiet for measuring, and back as they were."""

from typing import Annotated

import typer

from hakmem_lab.cli.flags import JsonFile

Action = Annotated[str, typer.Argument(metavar="check|tune|undo", help="Look, change, or put back")]
EXIT_DISTURBED = 1


def register(app: typer.Typer) -> None:
    app.command("system")(system)


def system(action: Action = "check", json: JsonFile = None) -> None:
    """Is the machine set up to measure: clock, layout, huge pages, other load? tune sets it, undo puts it back."""
    from hakmem_lab.doctor import quiet
    from hakmem_lab.doctor.checks import NOTE, Report
    from hakmem_lab.errors import LabError, nearest
    from hakmem_lab.show import emit
    from hakmem_lab.show.terminal import process

    if action not in ("check", "tune", "undo"):
        raise LabError(f"hak system: there is no '{action}': {nearest(action, ('check', 'tune', 'undo'))}")
    if action == "check":
        checks = quiet.check()
        found = [check.name for check in checks if check.state == NOTE]
        text = f"what may disturb here: {', '.join(found)}" if found else "nothing here disturbs that hak can see"
        report = Report(text, not found, False, tuple(checks))
        if json is not None:
            emit.write_object({"quiet": not found, "checks": report.record()["checks"]}, json)
        if str(json) != "-":
            process.show_report(report)
        raise typer.Exit(EXIT_DISTURBED if found else 0)
    lines = quiet.tune() if action == "tune" else quiet.undo()
    nothing = "nothing to change" if action == "tune" else "nothing to put back"
    print("\n".join(lines) or nothing)
    if lines and action == "tune":
        print("hak system undo puts it back; so does a restart")
