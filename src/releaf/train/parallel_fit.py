"""`fit_log`: fit a learner to a log of any size in parallel, with the same result for any division of the work.

Workers count and sample rows; counts are integers, and samples depend on the rows alone. So neither the order of files
nor the number of workers changes the result. Quantile features need a pass before, which counts their values; frequent
values need further passes that separate them from their neighbours.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from releaf.decision import ActionName
from releaf.executors import Executor, Local
from releaf.policies import AdaptiveReleaf, Releaf
from releaf.progress import Progress, ProgressBar, report_progress
from releaf.schema import Features
from releaf.streams.batches import LogPart, check_distinct_columns, parts_of
from releaf.streams.data_files import errors_with_path
from releaf.train import log_summary
from releaf.train.adaptive_fit import fit_samples
from releaf.train.fit_tasks import LogColumns
from releaf.train.log_passes import LogPasses
from releaf.train.log_summary import LogSummary
from releaf.train.partition_fit import fit_partitions
from releaf.train.sequential import MAX_PROBLEMS, Report

Fitted = TypeVar("Fitted", AdaptiveReleaf, Releaf)
FITS: dict[type, Callable[..., Any]] = {AdaptiveReleaf: fit_samples, Releaf: fit_partitions}


def fit_log(
    dataset: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    features: Features,
    *,
    policy: type[Fitted] = AdaptiveReleaf,  # type: ignore[assignment]
    actions: Sequence[ActionName] | None = None,
    action: str = "action",
    reward: str = "reward",
    probability: str | None = None,
    executor: Executor | None = None,
    skip_bad: bool = False,
    report: Report | None = None,
    progress: Progress = None,
    **parameters: Any,
) -> Fitted:
    """Fit a learner to a log of any size, in parallel. The learner can go on learning online.

    :func:`releaf.train.learn_file` replays a log row by row. This function reads many parts of a log at once, on this
    machine's cores or on a cluster. The result is identical, bit for bit, for any number of workers and any order of
    files and rows.

    :class:`releaf.AdaptiveReleaf` is fitted to a sample of each action's rows: all rows up to the bound on its memory,
    and a random share beyond. A hash of the row decides whether the sample keeps it. The weights of the experts follow
    from rows that are held out of the fit. A log that is fitted twice merges to itself. Two logs count as different
    ones even where they share rows, so learners of overlapping logs should not be merged. A log has no order: with a
    number of rewards to ``forget`` after, so many random rows of each action are kept.

    :class:`releaf.Releaf` sums all rows on the final partitions, so that no reward is lost when an interval splits.
    A learner stores 53 bits of a sum, and counts up to 2³¹ - 1 rewards of an action in a cell; a cell with more gets
    that count and the mean of all. Memory grows with the number of observed cells.

    Ranks of :class:`releaf.Quantile` features are computed over all values of the log, with an error of about 0.001.
    Sums of rewards are of multiples of 2⁻²⁶ as integers, up to 2³⁷ rows, or 2³³ with ``probability``; a larger log
    raises.

    Parameters
    ----------
    dataset
        A Parquet file, a folder of them, a pattern such as ``"logs/*.parquet"``, or several of these. A file counts
        once, however often it is given. Columns are read from files, not from the names of folders (``day=1/``).
    features
        As for :class:`releaf.Releaf`; names are those of the columns.
    policy
        The class of the learner: :class:`releaf.AdaptiveReleaf` or :class:`releaf.Releaf`.
    actions
        The actions: rows of others are unusable. When None, the sorted actions of the log: at most a thousand, and of
        one type.
    action, reward
        The columns of the action taken, and of its reward: from 0 to 1, or within the learner's ``reward_range``.
    probability
        The column of propensities. If given, rewards are weighted by inverse propensity, so that the logging policy's
        preferences cancel out: among the contexts of an interval, or of a sample, which then has each row as often as
        its weight asks for. Weights are clipped at 1,024; ``report.cut`` counts the clipped rows.
    executor
        Where tasks run; this machine's cores when None. Workers are processes, so a script must call this function
        under ``if __name__ == "__main__":``, except with ``Local(1)``.
    skip_bad
        Skip unusable rows. Otherwise the first of them raises, with its file and row.
    report
        Filled with the numbers of learnt and skipped rows.
    progress
        True for a bar, in a notebook or a terminal; or a function, called with the name of the pass, the rows done and
        the rows in total.
    **parameters
        Parameters of the learner, such as ``seed``.
    """
    if policy not in FITS:
        names = " or ".join(known.__name__ for known in FITS)
        raise ValueError(f"policy must be {names}, which can be fitted in parallel, got policy={policy!r}")
    parameters = {"seed": 0, **parameters}  # so that the result is reproducible
    if actions is None and (named := [name for name, value in parameters.items() if isinstance(value, Mapping)]):
        raise ValueError(f"{named[0]} names actions, which are known after the log is read only: give actions= too")
    prototype = policy(actions or 2, features, **parameters)
    schema = prototype.schema
    check_distinct_columns(schema.inputs, reward=reward, action=action, probability=probability)
    columns = LogColumns(schema, action, reward, probability, skip_bad, prototype.reward_range)
    show = report_progress(progress, "Fitting", "rows")
    passes = LogPasses(
        _all_parts(dataset),
        columns,
        tuple(actions or ()),
        executor or Local(),
        show.show if isinstance(show, ProgressBar) else show,
    )
    passes.rank_quantiles()

    def new_learner(seen: LogSummary) -> Fitted:
        if report is not None:
            report.learnt, report.left_out, report.cut = seen.rows, seen.left_out, seen.cut
            report.actions = {label: rows for (_, label), rows in sorted(seen.actions.items())}
            report.problems = [(line, f"{path}: {why}") for path, line, why in sorted(seen.problems)[:MAX_PROBLEMS]]
        return policy(log_summary.actions_of(seen, actions, action), schema, **parameters)

    fitted: Fitted = FITS[policy](passes, prototype, new_learner)
    return fitted


def files_of(dataset: Any) -> list[str]:
    """The Parquet files of a dataset, sorted by path."""
    given = [dataset] if isinstance(dataset, str | os.PathLike) else list(dataset)
    files: dict[str, str] = {}  # by real path, since a path has several spellings
    for entry in given:
        found = _matching(os.fspath(entry))
        if not found:
            raise FileNotFoundError(f"there is no Parquet file at {entry}")
        for path in found:
            _require_parquet(path)
            files.setdefault(os.path.realpath(path), path)
    return [files[path] for path in sorted(files)]


def _matching(entry: str) -> list[str]:
    if os.path.isdir(entry):
        return [str(path) for path in Path(entry).glob("**/*.parquet")]
    return [entry] if os.path.exists(entry) else glob.glob(entry, recursive=True)


def _require_parquet(path: str) -> None:
    """Reject other files by their first bytes, before any work is done."""
    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            raise ValueError(
                f"{path} is no Parquet file, which parallel training needs. Write it as Parquet, or train row by row: "
                "releaf.train.learn_file, or releaf train without --workers and --ray"
            )


def _all_parts(dataset: Any) -> list[LogPart]:
    files = files_of(dataset)
    parts = []
    for path in files:
        with errors_with_path(path):
            parts += parts_of(path)
    if not sum(part.rows for part in parts):
        raise ValueError(f"the log has no rows: {', '.join(files[:3])}")
    return parts
