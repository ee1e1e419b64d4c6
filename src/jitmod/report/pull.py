"""The text of a pull request: what each commit of a branch does, and the evidence that it rests on.

Whatever comes from code or from a child process is data: nothing of it opens a heading, a link, a mention or a fence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jitmod.delivery.figures import one_line, seconds, warm_medians
from jitmod.delivery.pull import Commit, listing

LIMIT = 65_000  # characters of a body that GitHub takes are 65,536
_MARKED = re.compile(r"([\\`*_{}\[\]<>|~&$]|^[-+=])|([@#]|:(?=//)|www(?=\.)|GH(?=-))")
_COMMAND = re.compile(r"^(\s*)::")  # such a line is a command to GitHub Actions, where the text is printed
_CODE = re.compile(r"`([^`|]+)`")
_TRAILER = re.compile(r"^Jitmod-(\w+): (.*)$", re.MULTILINE)


class Rewrite:
    """A commit of jitmod's, as its message tells it."""

    def __init__(self, commit: Commit) -> None:
        self.sha, self.message, self.job, self.evidence = commit.sha, commit.message, commit.job, commit.evidence
        self.subject = one_line(commit.message.partition("\n")[0])
        self.trailers = {name: one_line(value) for name, value in _TRAILER.findall(commit.message)}
        self.codemod = self.trailers.get("Codemod", "jitmod")


def title(rewrites: Sequence[Rewrite]) -> str:
    """`vmapify: 3 rewrites, up to 212x faster on cpu`; of one commit its subject."""
    if len(rewrites) == 1:
        return _cut(rewrites[0].subject, 200)
    names = sorted({one.codemod for one in rewrites})
    gains = [float(one.trailers["Speedup"]) for one in rewrites if _is_number(one.trailers.get("Speedup"))]
    devices = sorted({one.trailers["Device"] for one in rewrites if "Device" in one.trailers})
    most = f", up to {max(gains):.3g}x faster" if gains and max(gains) > 1 else ""
    where = f" on {' and '.join(devices)}" if devices and most else ""
    return _cut(f"{', '.join(names)}: {len(rewrites)} rewrites{most}{where}", 200)


def body(rewrites: Sequence[Rewrite], branch: str, base: str, run: str | None = None) -> str:
    """The description, in Markdown. What does not fit is left to the commit messages, from the end.

    `run` is the address of the job that this comes from, where there is one.
    """
    head = _head(rewrites)
    foot = _foot(rewrites, branch, base, run)
    told: list[str] = []
    for number, one in enumerate(rewrites):
        part = _part(one)
        rest = f"\n{len(rewrites) - number} more: their evidence is in the commit messages.\n"
        if sum(map(len, [head, foot, *told, part, rest])) > LIMIT:
            told.append(rest)
            break
        told.append(part)
    return "".join([head, *told, foot])


def _head(rewrites: Sequence[Rewrite]) -> str:
    lines = [
        listing([one.sha for one in rewrites]),
        "Opened by jitmod, without a person looking at it first. Every commit was tried before it was made: the same "
        "workload ran with and without it, and results, output and effects agreed.",
        "",
        "| commit | rewrite | baseline | now | speedup |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for one in rewrites:
        times = warm_medians(one.evidence)
        both = [seconds(times[arm]) if arm in times else "" for arm in ("baseline", "candidate")]
        gain = one.trailers.get("Speedup")
        cells = [one.sha[:10], plain(one.subject), *both, f"{gain}x" if _is_number(gain) else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_chart(rewrites)]) + "\n"


def _chart(rewrites: Sequence[Rewrite]) -> list[str]:
    """Bars of the warm calls, as far as they were measured; numbers alone, so that no text can break it."""
    pairs = [warm_medians(one.evidence) for one in rewrites]
    shown = [(n, p) for n, p in enumerate(pairs, 1) if len(p) == 2][:12]
    if len(shown) < 2:
        return []
    gains = [max(0.01, p["baseline"] / p["candidate"]) for _, p in shown]
    return [
        "```mermaid", "xychart-beta", '    title "times faster, warm, by commit"',
        f"    x-axis [{', '.join(str(n) for n, _ in shown)}]", "    y-axis 0 --> " + f"{max(gains) * 1.1:.3g}",
        f"    bar [{', '.join(f'{gain:.3g}' for gain in gains)}]", "```", "",
    ]  # fmt: skip


def _part(one: Rewrite) -> str:
    """One commit: what, why it was slow, the evidence, and how to see it again."""
    text, _, _ = one.message.partition("\nJitmod-")
    paragraphs = text.strip().split("\n\n")[1:]
    lines = [f"### {plain(one.subject)}", ""]
    for paragraph in paragraphs:
        if paragraph.startswith("    "):
            lines += [*fenced("text", paragraph), ""]
        else:
            lines += [plain(one_line(paragraph)), ""]
    versions = one.evidence.get("explore", {}).get("versions", {})
    device = one.evidence.get("explore", {}).get("device", {})
    if versions:
        named = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
        lines += [plain(f"Measured with {named} on {device.get('kind', device.get('platform', '?'))}."), ""]
    workload = one.job.get("workload", {})
    if workload.get("run"):
        setup = f" --setup {_quoted(workload['setup'])}" if workload.get("setup") else ""
        command = f"jitmod trial {one.sha[:10]}~ {one.sha[:10]} --workload {_quoted(workload['run'])}{setup}"
        lines += ["To see it again, with a GPU or without:", "", *fenced("sh", command), ""]
    return "\n".join(lines) + "\n"


def _foot(rewrites: Sequence[Rewrite], branch: str, base: str, run: str | None) -> str:
    names = " ".join(f"`jitmod explain {name}`" for name in sorted({one.codemod for one in rewrites}))
    kept = "in git's folder, below `jitmod/evidence`, where it ran" if run is None else f"with the artifacts of {run}"
    review = [
        f"- Each commit stands alone: `git log -p {fence_free(base)}..{fence_free(branch)}`.",
        f"- {names}: what was looked for, and when it is refused.",
        "- Results may differ by rounding: a compiled function orders floating-point operations in its own way.",
        "- A commit that you do not want can be reverted; of two in one file, the later one first.",
        f"- The samples of each trial are {kept}, under the name that its commit has as `Jitmod-Evidence`.",
        "- To keep a place as it is, write `# jitmod: ignore` on its line, or name it in `[tool.jitmod] exclude`.",
    ]
    return "\n".join(["### How to review", "", *review, ""])


def plain(text: str) -> str:
    """Text from code as text of Markdown; what stands between single backticks is code."""
    parts = _CODE.split(one_line(text))
    return "".join(f"`{part}`" if number % 2 else _MARKED.sub(_inert, part) for number, part in enumerate(parts))


def _inert(found: re.Match[str]) -> str:
    """A backslash keeps a mark from being one; mentions and references are looked for later, in what is shown."""
    return f"\\{found[1]}" if found[1] else f"{found[2]}&#8203;"


def fence_free(text: str) -> str:
    """Text for a code span in single backticks."""
    return one_line(text).replace("`", "'")


def fenced(language: str, text: str) -> list[str]:
    """A block of code, with a fence that is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    text = text.replace("<!--", "<! --")  # by such marks the text is found again
    lines = [_COMMAND.sub(r"\1: :", line.removeprefix("    ")) for line in text.splitlines()]
    return [f"{fence}{language}", *(re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", " ", line) for line in lines), fence]


def _quoted(text: str) -> str:
    """A word of a shell."""
    text = one_line(text)
    return text if re.fullmatch(r"[\w./:@%+=,-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _is_number(text: str | None) -> bool:
    return text is not None and re.fullmatch(r"\d+(\.\d+)?(e[+-]?\d+)?", text) is not None

