"""What each verb of `bat` does in a workspace; every function returns the lines to print.

Files written, relative to the workspace: `process/inspect.json`, `plan/{plan.md,plan.png,pipeline.json}`,
`process/check.json`, `process/setup.json`, `process/pilot/<case>/<file>` and `process/pilot.json`,
`process/verify.json`, `process/batch/<case>/<file>` and `process/batch.json`, `agents_outputs/<case>/<file>` and
`submission.json`. `<file>` is the file of the track's `Form`; pilot and batch hold it before delivery.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict

from ._words import POLARITY_CHOICE, SkillError
from .case import polarity_of
from .faults import load, mend
from .inspection import inspect_workspace
from .picture import pipeline_picture
from .pipeline import Pipeline, read_pipeline, read_repair, run_case
from .review import review
from .workspace import Workspace, read_json, write_bytes, write_json

__all__ = ["check", "infer", "inspect", "pilot", "plan", "setup", "submit", "verify"]


def inspect(workspace: Workspace) -> str:
    """Measure the cases and print the facets."""
    found = inspect_workspace(workspace)
    write_json(workspace.root / "process" / "inspect.json", asdict(found))
    return found.line()


def plan(workspace: Workspace, *, method: str, polarity: str, level: str, candidates: int = 1) -> str:
    """Write the plan: pipeline, description and picture."""
    chosen = Pipeline(method=method, polarity=polarity, level=level, candidates=candidates)
    others = [other for other in workspace.skill.methods.values() if other != method]
    compared = [method, *others][:candidates]
    text = [
        f"# Plan for {workspace.track}",
        "",
        f"Pipeline: load, repair, polarity {polarity}, {method} at level {level}, deliver.",
        "",
        "Candidates compared:",
        *(f"- {name}{' (chosen)' if name == method else ''}" for name in compared),
    ]
    folder = workspace.root / "plan"
    write_json(folder / "pipeline.json", chosen.to_json())
    write_bytes(folder / "plan.md", ("\n".join(text) + "\n").encode())
    write_bytes(folder / "plan.png", pipeline_picture((230, 200, 255 if polarity == "keep" else 40, 150, 90)))
    return "plan saved"


def check(workspace: Workspace) -> str:
    """Check that plan and data fit: cases readable, outputs of a known form, exemplars of both classes where needed."""
    chosen = read_pipeline(workspace)
    count = len(workspace.cases())
    exemplars = workspace.exemplars()
    if workspace.skill.learns and set(exemplars.labels) != {0, 1}:
        raise SkillError("check bad exemplars")
    report = {"method": chosen.method, "cases": count, "exemplars": len(exemplars.labels), "compatible": True}
    write_json(workspace.root / "process" / "check.json", report)
    return "check good"


def setup(workspace: Workspace, *, repair: str) -> str:
    """Load every case with the repair; ready only when all load right."""
    read_pipeline(workspace)
    path = workspace.root / "process" / "setup.json"
    try:
        for case in workspace.cases():
            mend(case, repair)
    except SkillError:
        write_json(path, {"repair": repair, "ready": False})
        raise
    write_json(path, {"repair": repair, "ready": True})
    return "setup ready"


def pilot(workspace: Workspace) -> str:
    """Run the pipeline on the first case and look at the result without a reference."""
    chosen, repair = read_pipeline(workspace), read_repair(workspace)
    skill, case, exemplars = workspace.skill, workspace.cases()[0], workspace.exemplars()
    output = run_case(skill, case, chosen, repair, exemplars)
    folder = workspace.root / "process"
    shutil.rmtree(folder / "pilot", ignore_errors=True)
    write_bytes(folder / "pilot" / case.name / skill.form.file_name, skill.form.encode(output))
    inverted = chosen.polarity != POLARITY_CHOICE[polarity_of(case.header)]
    seen = load(case, repair, chosen.polarity)
    residual = skill.residual([seen], [output], chosen.method, chosen.level, exemplars)
    report = {
        "case": case.name,
        "pipeline": chosen.digest(repair),
        "range": "inverted" if inverted else "good",
        "residual": residual or "none",
        "good": not inverted and not residual,
    }
    write_json(folder / "pilot.json", report)
    if inverted:
        return "pilot range inverted"
    return f"pilot residual {residual}" if residual else "pilot good"


def verify(workspace: Workspace) -> str:
    """Inspect the outputs of the batch, or of the pilot where there is no batch: shape, finite, range, content."""
    folder = workspace.root / "process"
    target = "batch" if (folder / "batch.json").is_file() else "pilot"
    if not (folder / f"{target}.json").is_file():
        raise SkillError("no outputs")
    if target == "pilot":
        names: tuple[str, ...] = (str(read_json(folder / "pilot.json").get("case")),)
    else:
        names = workspace.case_names
    failed = review(workspace, target, names)
    write_json(folder / "verify.json", {"target": target, "pass": not failed, "failed": failed})
    if failed:
        raise SkillError(f"verify fail {failed}")
    return "verify pass"


def infer(workspace: Workspace) -> str:
    """Run the pipeline on every case."""
    chosen, repair = read_pipeline(workspace), read_repair(workspace)
    skill, exemplars = workspace.skill, workspace.exemplars()
    outputs = {case.name: run_case(skill, case, chosen, repair, exemplars) for case in workspace.cases()}
    folder = workspace.root / "process"
    shutil.rmtree(folder / "batch", ignore_errors=True)
    for name, output in outputs.items():
        write_bytes(folder / "batch" / name / skill.form.file_name, skill.form.encode(output))
    write_json(folder / "batch.json", {"pipeline": chosen.digest(repair), "cases": list(outputs)})
    return f"infer {len(outputs)} done"


def submit(workspace: Workspace, *, deliver: str) -> str:
    """Deliver the batch in the requested form."""
    chosen, repair = read_pipeline(workspace), read_repair(workspace)
    batch = workspace.root / "process" / "batch"
    if read_json(workspace.root / "process" / "batch.json").get("pipeline") != chosen.digest(repair):
        raise SkillError("infer first")
    form = workspace.skill.form
    delivered: dict[str, bytes] = {}
    for name in workspace.case_names:
        try:
            output = form.decode((batch / name / form.file_name).read_bytes())
            delivered[name] = form.encode(form.turn(output, deliver))
        except (OSError, ValueError, IndexError) as error:
            raise SkillError(f"output {name} broken") from error
    folder = workspace.root / "agents_outputs"
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in delivered.items():
        write_bytes(folder / name / form.file_name, data)
    report = {
        "track": workspace.track,
        "deliver": deliver,
        "cases": list(delivered),
        "pipeline": chosen.to_json(),
        "repair": repair,
    }
    write_json(workspace.root / "submission.json", report)
    return f"submitted {len(delivered)}"
