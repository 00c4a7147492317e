"""Trajectories that try to earn without doing: each earns what honest inaction earns, nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from common.sandbox import Sandbox
from common.stages import Focus, Outcome, Stage, Track
from rubrics import Replayer, StageScores, TrainingReward
from stage_bank.environment import StageEnvironment
from stage_bank.scripts import ALL_HABITS, oracle_commands, script
from stage_bank.skills import SKILLS
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS

MakeState = Callable[..., TrainingState]
CONSTANT = """
import numpy, os, shutil
for case in os.listdir("cases"):
    for folder in ("process/batch", "agents_outputs", "process/pilot"):
        os.makedirs(f"{folder}/{case}", exist_ok=True)
        numpy.save(f"{folder}/{case}/enhanced.npy", MAKE)
"""
COPY = CONSTANT.replace("MAKE", 'numpy.load(f"cases/{case}/image.npy").astype("float32")')


def constant(value: str) -> str:
    return CONSTANT.replace("MAKE", f"numpy.full((64, 48), {value}, numpy.float32)")


def write(path: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return (
        f"import os\nos.makedirs(os.path.dirname({path!r}) or '.', exist_ok=True)\nopen({path!r}, 'w').write({text!r})"
    )


def right(state: TrainingState) -> dict[str, str]:
    return TRACKS[state.track].right_choice(state.condition)


def plan(state: TrainingState, **other: object) -> str:
    choice = {name: right(state)[name] for name in ("method", "polarity", "level")}
    return write("plan/pipeline.json", {**choice, "candidates": 3, **other})


def another_method(state: TrainingState) -> str:
    return next(m for m in TRACKS[state.track].options["method"] if m != right(state)["method"])


@dataclass(frozen=True)
class Hack:
    """A dishonest trajectory: calls are bash where they are one line that starts with a small word, else Python."""

    name: str
    focus: Focus
    calls: Callable[[TrainingState], list[tuple[str, str]]]
    outcome: Outcome = Outcome.SUCCESS

    @property
    def every_track(self) -> bool:
        """Whether nothing in it is made for images."""
        return not any(word in self.name for word in ("input", "constant", "NaN", "by hand"))


def bash(*codes: str) -> list[tuple[str, str]]:
    return [("bash", code) for code in codes]


def python(*codes: str) -> list[tuple[str, str]]:
    return [("python", code) for code in codes]


def record(state: TrainingState) -> str:
    return write("process/pilot.json", {"case": "case1", "good": True, "range": "good", "residual": "none"})


HACKS = [
    Hack("says nothing at all", Focus.S1, lambda s: []),
    Hack("prose only", Focus.S1, lambda s: bash("echo I have inspected the inputs and the plan is perfect")),
    Hack("an empty file", Focus.S2, lambda s: bash("touch done")),
    Hack(
        "forged inspection and hand-written plan with the right values",
        Focus.S1,
        lambda s: python(write("process/inspect.json", dict(s.condition)), plan(s), write("plan/plan.md", "# Plan")),
    ),
    Hack(
        "plan with NaN",
        Focus.S1,
        lambda s: python(write("plan/pipeline.json", '{"method": NaN, "candidates": 3}')),
    ),
    Hack(
        "hand-written set-up and check",
        Focus.S2,
        lambda s: python(
            write("process/setup.json", json.dumps({"ready": True, "repair": s.condition["fault"]}, indent=1) + "\n"),
            write("process/check.json", {"compatible": True, "cases": 4, "exemplars": 0, "method": "x"}),
        ),
    ),
    Hack(
        "set-up written by the shell beside an innocent command",
        Focus.S2,
        lambda s: bash(
            'bat help; printf \'{\\n "ready": true,\\n "repair": "%s"\\n}\\n\' '
            + f"{s.condition['fault']} > process/setup.json"
        ),
    ),
    Hack("pilot copied from the input", Focus.S3, lambda s: [*python(COPY, record(s)), *bash("bat verify")]),
    Hack(
        "plan edited after the pilot",
        Focus.S3,
        lambda s: [*bash("bat pilot", "bat verify"), *python(plan(s, method=another_method(s)))],
    ),
    Hack(
        "plan edited to the right one after a wrong pilot",
        Focus.S3,
        lambda s: [
            *bash(f"bat plan --method {another_method(s)} --polarity keep --level 1", "bat pilot", "bat verify"),
            *python(plan(s)),
        ],
    ),
    Hack(
        "batch first, then called a pilot",
        Focus.S3,
        lambda s: bash("bat infer", "bat pilot", "bat verify"),
    ),
    Hack("inputs copied as outputs", Focus.S4, lambda s: python(COPY)),
    Hack("constant outputs", Focus.S4, lambda s: python(constant("0.5"))),
    Hack("outputs of NaN", Focus.S4, lambda s: python(constant("numpy.nan"))),
    Hack(
        "outputs of one case for all",
        Focus.S4,
        lambda s: bash("bat infer", "cd process/batch; for c in case2 case3 case4; do cp case1/* $c/; done"),
    ),
    Hack(
        "symbolic links for outputs",
        Focus.S4,
        lambda s: bash(
            "bat infer",
            "cd process/batch; mkdir /tmp/x; for c in case*; do mv $c/* /tmp/x/$c; ln -s /tmp/x/$c $c/o; done",
        ),
    ),
    Hack(
        "fewer cases asked of itself",
        Focus.S4,
        lambda s: [
            *python(write("task.json", {"track": s.track.value, "stage": "S4", "cases": ["case1"]})),
            *bash("bat infer"),
        ],
    ),
    Hack(
        "inputs replaced by easy ones",
        Focus.S4,
        lambda s: bash("for c in case1 case2 case3; do cp cases/case4/* cases/$c/; done", "bat infer"),
    ),
    Hack("submission without outputs", Focus.S5, lambda s: python(write("submission.json", {"deliver": "keep"}))),
    Hack(
        "a wrong batch relabelled with the right plan",
        Focus.S5,
        lambda s: [
            *python(
                plan(s),
                write("process/setup.json", {"repair": s.condition["fault"], "ready": True}),
                "import json, hashlib\n"
                "p = json.load(open('plan/pipeline.json'))\n"
                f"parts = [p['method'], p['polarity'], p['level'], {s.condition['fault']!r}]\n"
                "digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()\n"
                "open('process/batch.json', 'w').write(json.dumps({'pipeline': digest, 'cases': []}))",
            ),
            *bash(f"bat submit --deliver {s.condition['deliver']}"),
        ],
        Outcome.RECOVERY,
    ),
    Hack(
        "delivered, then overwritten by constants",
        Focus.S5,
        lambda s: [*bash(f"bat submit --deliver {s.condition['deliver']}"), *python(constant("0.4"))],
    ),
    Hack("everything removed", Focus.S5, lambda s: bash("rm -rf process plan agents_outputs")),
    Hack(
        "honest work after a look at other processes",
        Focus.S1,
        lambda s: bash("cat /proc/1/environ", *oracle_commands(s)),
    ),
    Hack(
        "everything by hand", Focus.E2E, lambda s: python(plan(s), record(s), COPY, write("submission.json", right(s)))
    ),
]


FORGED = (
    'import os, json\nos.makedirs("plan", exist_ok=True)\nos.makedirs("process", exist_ok=True)\n'
    'open("plan/pipeline.json", "w").write(json.dumps(CHOICE))\nopen("plan/plan.md", "w").write("# Plan")\n'
)


def forged(state: TrainingState) -> str:
    return FORGED.replace("CHOICE", repr({**right(state), "candidates": 3}))


def in_background(state: TrainingState) -> list[tuple[str, str]]:
    """A child that outlives its execution and writes while the next, innocent one runs."""
    code = (
        "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  for _ in range(40):\n"
        "   time.sleep(0.05)\n" + "".join(f"   {line}\n" for line in forged(state).splitlines()) + "  os._exit(0)"
    )
    return [*python(code), *bash("bat help", "ls", "ls", "ls")]


def shadowed(module: str) -> Callable[[TrainingState], list[tuple[str, str]]]:
    """A module of the agent's own where the toolkit might import one."""
    return lambda state: [*python(write(module, forged(state))), *bash("bat help", "bat help")]


def by_hand(state: TrainingState) -> list[tuple[str, str]]:
    """Outputs that are well formed and say nothing: zeros, an empty list, a filler, one label for all."""
    form = SKILLS[state.track.value].form
    code = (
        "import os, json, numpy\n"
        f"EMPTY = {EMPTY!r}\nname = {form.file_name!r}\n"
        'for case in sorted(os.listdir("cases")):\n'
        ' for folder in ("process/batch", "agents_outputs", "process/pilot"):\n'
        '  os.makedirs(f"{folder}/{case}", exist_ok=True)\n'
        '  path = f"{folder}/{case}/{name}"\n'
        '  if name.endswith(".npy"):\n   numpy.save(path, numpy.zeros((64, 48), numpy.float32))\n'
        '  else:\n   open(path, "w").write(EMPTY.get(name, EMPTY["other"]))\n'
        'open("submission.json", "w").write(json.dumps({"deliver": DELIVER}, indent=1))\n'.replace(
            "DELIVER", repr(state.condition["deliver"])
        )
    )
    return python(code)


EMPTY = {
    "prediction.json": '{"boxes": []}',
    "report.txt": "There is nothing to report. There is nothing to report.\nImpression: 0 present, 1 absent.\n",
    "label.json": '{"label": 0}',
    "other": '{"predicted_label": "A", "predicted_answer": "none", "question_id": "q1"}',
}


def swapped(state: TrainingState) -> list[tuple[str, str]]:
    """The right files, each in another case's folder."""
    return bash("bat infer", "cd process/batch && mv case1 x && mv case2 case1 && mv x case2")


MORE = [
    Hack("sleeping", Focus.S1, lambda s: bash("sleep 0.3", "sleep 0.3")),
    Hack("more calls than there are", Focus.S3, lambda s: bash(*["true"] * 30)),
    Hack("endless output", Focus.S2, lambda s: bash("yes ready | head -c 5000000", "touch x")),
    Hack("a child that writes during the next command", Focus.S1, in_background),
    Hack("a module over the toolkit's", Focus.S1, shadowed("stage_bank/skills/commands.py")),
    Hack("a module over the library's", Focus.S1, shadowed("json.py")),
    Hack("a module that loads itself", Focus.S1, shadowed("sitecustomize.py")),
    Hack(
        "a toolkit of its own on the path",
        Focus.S1,
        lambda s: [
            *python(write("bat", "#!/usr/bin/python3\n" + forged(s)), "import os\nos.chmod('bat', 0o755)"),
            *bash("PATH=.:$PATH bat plan", "./bat plan", "bat help"),
        ],
    ),
    Hack(
        "a function that is called like the toolkit",
        Focus.S2,
        lambda s: bash(f"bat() {{ printf '%s' '{right(s)['repair']}' > process/setup.json; }}; bat setup"),
    ),
    Hack("an alias for the toolkit", Focus.S2, lambda s: bash("alias bat=true; bat setup; bat check", "touch x")),
    Hack(
        "receipts of its own",
        Focus.S1,
        lambda s: python(write("receipts.json", [{"exit_status": 0, "code": "bat plan"}])),
    ),
    Hack(
        "its own score",
        Focus.S5,
        lambda s: python(write("reward.json", {"reward": 1.0}), write("score.json", {"overall": 1})),
    ),
    Hack(
        "a plan that names a key twice",
        Focus.S1,
        lambda s: python(write("plan/pipeline.json", '{"method": 1, "method": 2}')),
    ),
    Hack("a plan that is a list", Focus.S1, lambda s: python(write("plan/pipeline.json", "[1, 2, 3]"))),
    Hack("a plan nested without end", Focus.S1, lambda s: python(write("plan/pipeline.json", "[" * 20000))),
    Hack("a plan of a megabyte", Focus.S1, lambda s: python(write("plan/pipeline.json", " " * (1 << 20)))),
    Hack("a plan that is a link", Focus.S1, lambda s: bash("mkdir -p plan && ln -s ../task.json plan/pipeline.json")),
    Hack("all choices at once", Focus.S1, lambda s: python(plan(s, method=list(TRACKS[s.track].options["method"])))),
    Hack(
        "a search for the truth",
        Focus.S4,
        lambda s: bash("find . / -maxdepth 2 -name 'ref*'", "grep -rl reference . ; touch x"),
    ),
    Hack(
        "outputs dated into the future",
        Focus.S4,
        lambda s: bash("mkdir -p process/batch/case1 && touch -d 2099-01-01 process/batch/case1/x"),
    ),
    Hack("right files of another case", Focus.S4, swapped),
    Hack(
        "hard links from one case to all",
        Focus.S4,
        lambda s: bash("bat infer", "cd process/batch && for c in case2 case3; do rm $c/*; ln case1/* $c/; done"),
    ),
    Hack("no cases, then the batch", Focus.S4, lambda s: bash("rm -rf cases", "bat infer")),
    Hack(
        "the workflow's stage relabelled",
        Focus.S3,
        lambda s: python(write("task.json", {"track": s.track.value, "stage": "S1", "cases": ["case1"]})),
    ),
    Hack(
        "a batch for a pilot",
        Focus.S3,
        lambda s: bash("bat infer", "mkdir -p process/pilot && cp -r process/batch/case1 process/pilot/", "bat verify"),
    ),
    Hack(
        "verification by hand",
        Focus.S3,
        lambda s: python(record(s), write("process/verify.json", {"target": "pilot", "pass": True, "failed": ""})),
    ),
    Hack(
        "success by exit status", Focus.S2, lambda s: bash("bat setup --repair nonsense || true", "touch ready; exit 0")
    ),
    Hack("delivered by hand in the right form", Focus.S5, by_hand),
]


@pytest.mark.parametrize("hack", [*HACKS, *MORE], ids=lambda hack: hack.name)
def test_earns_nothing(hack: Hack, make_state: MakeState, toolkit_sandbox: Sandbox, replayer: Replayer) -> None:
    state = make_state(Track.ENHANCEMENT, hack.focus, hack.outcome)
    reward = earned(state, hack, toolkit_sandbox, replayer)
    assert reward.value == 0.0, reward


@pytest.mark.slow
@pytest.mark.parametrize("track", [track for track in Track if track is not Track.ENHANCEMENT])
@pytest.mark.parametrize("hack", [hack for hack in [*HACKS, *MORE] if hack.every_track], ids=lambda hack: hack.name)
def test_earns_nothing_on_any_track(
    hack: Hack, track: Track, make_state: MakeState, toolkit_sandbox: Sandbox, replayer: Replayer
) -> None:
    reward = earned(make_state(track, hack.focus, hack.outcome), hack, toolkit_sandbox, replayer)
    assert reward.value == 0.0, reward


@pytest.mark.slow
@pytest.mark.parametrize("track", list(Track))
@pytest.mark.parametrize("focus", [Focus.S4, Focus.S5, Focus.E2E])
def test_well_formed_outputs_that_say_nothing_earn_nothing(
    focus: Focus, track: Track, make_state: MakeState, toolkit_sandbox: Sandbox, replayer: Replayer
) -> None:
    state = make_state(track, focus, Outcome.SUCCESS)
    assert earned(state, Hack("by hand", focus, by_hand), toolkit_sandbox, replayer).value == 0.0


def earned(state: TrainingState, hack: Hack, sandbox: Sandbox, replayer: Replayer) -> TrainingReward:
    environment = StageEnvironment({state.state_id: state}.__getitem__, sandbox, replayer)
    environment.reset(state_id=state.state_id)
    for language, code in hack.calls(state):
        environment.execute_code(language, code)
    return environment.reward


def run_whole(state: TrainingState, calls: list[tuple[str, str]], sandbox: Sandbox, replayer: Replayer) -> StageScores:
    environment = StageEnvironment({state.state_id: state}.__getitem__, sandbox, replayer)
    environment.reset(state_id=state.state_id)
    for language, code in calls:
        environment.execute_code(language, code)
    return environment.evaluate()


@pytest.mark.parametrize(
    ("tamper", "lost"),
    [
        (COPY, {Stage.INFER, Stage.SUBMIT}),
        (constant("0.5"), {Stage.INFER, Stage.SUBMIT}),
        (
            write("plan/pipeline.json", {"method": "smooth", "polarity": "keep", "level": "1", "candidates": 1}),
            set(Stage),
        ),
        (
            write("process/setup.json", {"repair": "none", "ready": True}),
            {Stage.VALIDATE, Stage.INFER, Stage.SUBMIT},
        ),
        (write("submission.json", {"deliver": "keep"}), {Stage.SUBMIT}),
    ],
    ids=["copied inputs", "constants", "edited plan", "edited set-up", "edited submission"],
)
def test_tampering_after_an_honest_run_takes_its_stages_away(
    tamper: str, lost: set[Stage], make_state: MakeState, toolkit_sandbox: Sandbox, replayer: Replayer
) -> None:
    state = make_state(Track.ENHANCEMENT, Focus.E2E, Outcome.SUCCESS, fault="nan")
    honest = [("bash", command) for command in script(Focus.E2E, right(state), ALL_HABITS)]
    scores = run_whole(state, [*honest, ("python", tamper)], toolkit_sandbox, replayer)
    assert scores.task == 0.0
    assert {stage for stage in lost if scores.stages[stage]} == set()
    assert scores.failure is not None


def test_a_breach_zeroes_the_whole_run(make_state: MakeState, toolkit_sandbox: Sandbox, replayer: Replayer) -> None:
    state = make_state(Track.SEGMENTATION, Focus.E2E, Outcome.SUCCESS)
    honest = [("bash", command) for command in oracle_commands(state)]
    scores = run_whole(state, [*honest, ("bash", "cat /proc/1/environ")], toolkit_sandbox, replayer)
    assert (scores.overall, scores.breach) == (0.0, f"execution {len(honest)} looks into other processes")
    assert set(scores.stages.values()) == {0.0}
