"""Plots of reports, by their names in the TOML files. matplotlib is imported only when used."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bagwise._common.extras import import_extra
from reproduction._paper import TIMED_OUT

if TYPE_CHECKING:
    from reproduction._report import Report

__all__ = ["PLOTS"]

Plot = Callable[["Report"], Iterator[tuple[str, Any]]]
OURS, PAPER, COLOURS = "#d9762b", "#44546a", ("#3b6fb6", "#d9762b")


def comparison(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw our scores beside the paper's: a panel per data set, a line per method."""
    experiment = report.plan.experiment
    for metric in experiment.metrics:
        rows = [row for row in report.rows if row.metric == metric]
        shown = [d for d in experiment.data if any(r.ours for r in rows if r.data == d)]
        if not shown or report.plan.paper.metrics[metric].kind == "time":
            continue
        size = (2.2 + 2.4 * len(shown), 0.8 + 0.32 * len(experiment.methods))
        figure, axes = _panels(1, len(shown), size, sharey=True)
        for ax, data in zip(axes[0], shown, strict=True):
            for place, row in enumerate(row for row in rows if row.data == data):
                if data not in report.plan.stand_ins:
                    _point(ax, row.published, place - 0.15, PAPER, "paper")
                _point(ax, row.ours, place + 0.15, OURS, "ours")
            ax.set_title(report.title_of("data", data), fontsize="medium")
            ax.set_xlabel(report.title_of("metrics", metric))
            ax.grid(axis="x", alpha=0.3)
        names = [report.title_of("methods", name) for name in experiment.methods]
        axes[0, 0].set_yticks(range(len(names)), names)
        axes[0, 0].invert_yaxis()
        handles, labels = axes[0, -1].get_legend_handles_labels()
        known = dict(zip(labels, handles, strict=True))
        axes[0, -1].legend(known.values(), known.keys(), fontsize="small")
        yield metric, figure


def lines(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw each metric against the swept value, a line per method, on logarithmic axes."""
    experiment = report.plan.experiment
    swept = (experiment.sweep or {})["name"].partition(".")[2]
    for metric in experiment.metrics:
        figure, axes = _panels(1, len(experiment.data), (1.5 + 4.5 * len(experiment.data), 3.8))
        for ax, data in zip(axes[0], experiment.data, strict=True):
            for method in experiment.methods:
                points = [
                    (row.value, row.ours[0], sum(row.ours[1:]))
                    for row in report.rows
                    if (row.data, row.method, row.metric) == (data, method, metric) and row.ours
                ]
                if points:
                    name = report.title_of("methods", method)
                    ax.errorbar(*np.array(points).T, label=name, marker="o", markersize=3)
            ax.set(xlabel=swept, ylabel=report.title_of("metrics", metric))
            ax.set(xscale="log", yscale="log", title=report.title_of("data", data))
            if ax.get_legend_handles_labels()[0]:
                ax.legend(fontsize="x-small")
        yield metric, figure


def curves(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw each score against the swept value, a panel per data set, with standard deviations."""
    experiment = report.plan.experiment
    swept = (experiment.sweep or {})["name"].partition(".")[2].replace("_", " ")
    for metric in experiment.metrics:
        if report.plan.paper.metrics[metric].kind == "time":
            continue
        rows = [row for row in report.rows if row.metric == metric and row.ours]
        shown = [data for data in experiment.data if any(row.data == data for row in rows)]
        if not shown:
            continue
        figure, axes = _panels(1, len(shown), (1.5 + 3.6 * len(shown), 3.8))
        for ax, data in zip(axes[0], shown, strict=True):
            for method in experiment.methods:
                points = [
                    (row.value, row.ours[0], sum(row.ours[1:]))
                    for row in rows
                    if (row.data, row.method) == (data, method) and row.ours
                ]
                if points:
                    values, means, spread = np.array(points).T
                    name = report.title_of("methods", method)
                    ax.errorbar(values, means, yerr=spread, label=name, marker="o", ms=3, capsize=2)
            ax.set(xlabel=swept, title=report.title_of("data", data))
            ax.grid(alpha=0.3)
        axes[0, 0].set_ylabel(report.title_of("metrics", metric))
        axes[0, -1].legend(fontsize="x-small")
        yield metric, figure


def confusion(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw the confusion matrices of the data sets and methods in ``confusion_of``.

    All folds and repetitions are added up; a row is a true class, and adds up to 1.
    """
    for pair in report.plan.experiment.options["confusion_of"]:
        chosen = [
            result["confusion"]
            for unit, result in report.results
            if (unit.data, unit.method) == (pair["data"], pair["method"])
        ]
        if not chosen:
            continue
        total = np.sum(chosen, axis=0)
        figure, axes = _panels(1, 1, (5, 4.4))
        image = axes[0, 0].imshow(total / total.sum(axis=1, keepdims=True), cmap="Blues", vmin=0)
        figure.colorbar(image)
        name = report.title_of("methods", pair["method"])
        title = f"{report.title_of('data', pair['data'])}, {name}"
        axes[0, 0].set(xlabel="predicted class", ylabel="true class", title=title)
        yield f"confusion-{pair['data']}-{pair['method']}", figure


def regions(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw the predicted class of each point of the plane, a panel per method."""
    results = _first_results(report)
    if not results:
        return
    colours = import_extra("matplotlib.colors", extra="plot").ListedColormap(COLOURS)
    figure, axes = _panels(1, len(results), (4.2 * len(results), 4))
    for ax, (method, result) in zip(axes[0], results.items(), strict=True):
        grid, points = np.array(result["grid"]), np.array(result["points"])
        labels = np.array(result["point_labels"])
        ax.imshow(
            grid, cmap=colours, alpha=0.3, origin="lower", extent=result["extent"], aspect="auto"
        )
        ax.scatter(*points[labels < 0].T, c="#999999", s=6, label="other instances")
        for label in np.unique(labels[labels >= 0]):
            chosen = points[labels == label].T
            ax.scatter(*chosen, color=COLOURS[label], s=16, label=f"shows class {label}")
        accuracy = result.get("accuracy", np.nan)
        ax.set_title(f"{report.title_of('methods', method)}: accuracy {accuracy:.2f}")
    axes[0, 0].legend(fontsize="x-small")
    yield "regions", figure


def hyperplanes(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw the coefficients of each class as an image, a row per method."""
    results = _first_results(report)
    if not results:
        return
    shape = report.plan.experiment.options["image_shape"]
    n_classes = len(next(iter(results.values()))["classes"])
    figure, axes = _panels(len(results), n_classes, (3 * n_classes, 2.8 * len(results)))
    for row, (method, result) in zip(axes, results.items(), strict=True):
        for ax, weights, name in zip(row, result["hyperplanes"], result["classes"], strict=True):
            limit = np.abs(weights).max()
            ax.imshow(np.reshape(weights, shape), cmap="RdBu_r", vmin=-limit, vmax=limit)
            ax.set(xticks=[], yticks=[])
            ax.set_title(f"{report.title_of('methods', method)}: {name}", fontsize="small")
    yield "hyperplanes", figure


def key_digits(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw a few test bags, a row each, with the key instance framed; a figure per method."""
    shape = report.plan.experiment.options["image_shape"]
    for method, result in _first_results(report).items():
        offsets, names = np.array(result["offsets"]), result["classes"]
        images = np.reshape(result["images"], (-1, *shape))
        bags = list(itertools.pairwise(offsets))
        n_columns = int(np.diff(offsets).max())
        figure, axes = _panels(len(bags), n_columns, (1.8 + 0.55 * n_columns, 0.65 * len(bags)))
        for number, (start, stop) in enumerate(bags):
            for place, ax in enumerate(axes[number]):
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set_visible(place == result["key_instances"][number])
                ax.spines[:].set(color=OURS, linewidth=3)
                if place < stop - start:
                    ax.imshow(images[start + place], cmap="gray_r")
            truth, guess = result["truth"][number], result["predicted"][number]
            told = f"{names[truth]}\n{'right' if truth == guess else 'wrong'}"
            axes[number, 0].set_ylabel(told, rotation=0, ha="right", va="center", fontsize="small")
        yield f"key-digits-{method}", figure


def reliability(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw calibration curves (accuracy against probability), a panel per data set."""
    experiment = report.plan.experiment
    shown = [data for data in experiment.data if any(u.data == data for u, _ in report.results)]
    if not shown:
        return
    figure, axes = _panels(1, len(shown), (0.6 + 2.6 * len(shown), 3), sharey=True)
    for ax, data in zip(axes[0], shown, strict=True):
        ax.plot([0, 1], [0, 1], color="#999999", linewidth=1)
        for method in experiment.methods:
            chosen = [r for u, r in report.results if (u.data, u.method) == (data, method)]
            counts, confidence, hits = (
                np.sum([result[key] for result in chosen], axis=0)
                for key in ("counts", "confidence", "hits")
            )
            seen = counts > 0
            name = report.title_of("methods", method)
            ax.plot(confidence[seen] / counts[seen], hits[seen] / counts[seen], "o-", label=name)
        ax.set(xlabel="probability", xlim=(0, 1), ylim=(0, 1))
        ax.set_title(report.title_of("data", data), fontsize="medium")
    axes[0, 0].set_ylabel("share right")
    axes[0, 0].legend(fontsize="small")
    yield "reliability", figure


def alpha_curve(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw scores against the alpha in their names (``accuracy-0.5``), a panel per data set."""
    experiment = report.plan.experiment
    swept = [m.rpartition("-") for m in experiment.metrics if "-" in m]
    for score in dict.fromkeys(name for name, _, _ in swept):
        figure, axes = _panels(1, len(experiment.data), (1.5 + 3.5 * len(experiment.data), 3.4))
        alphas = {f"{name}-{a}": float(a) for name, _, a in swept if name == score}
        for ax, data in zip(axes[0], experiment.data, strict=True):
            for method in experiment.methods:
                rows = [
                    row
                    for row in report.rows
                    if (row.data, row.method) == (data, method) and row.metric in alphas
                ]
                ours = [(alphas[row.metric], *row.ours) for row in rows if row.ours]
                if ours:
                    name = report.title_of("methods", method)
                    ax.errorbar(*np.array(ours).T, label=name, marker="o", markersize=3, capsize=2)
                theirs = [(alphas[r.metric], r.published[0]) for r in rows if r.published]
                if theirs and ours:
                    ax.plot(*np.array(theirs).T, "--", color=PAPER, lw=1, label="paper, other data")
            ax.set(xlabel="alpha", ylabel=score)
            ax.set_title(report.title_of("data", data), fontsize="small")
            if ax.get_legend_handles_labels()[0]:
                ax.legend(fontsize="x-small")
        yield f"alpha-{score}", figure


def times(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw the times of all methods, data set by data set, on a logarithmic axis."""
    experiment = report.plan.experiment
    figure, axes = _panels(1, 1, (2.5 + 0.8 * len(experiment.data), 3.8))
    for method in experiment.methods:
        rows = [row for row in report.rows if (row.method, row.metric) == (method, "fit_seconds")]
        seconds = [row.ours[0] if row.ours else np.nan for row in rows]
        name = report.title_of("methods", method)
        axes[0, 0].plot(range(len(seconds)), seconds, marker="o", markersize=3, label=name)
    names = [report.title_of("data", name) for name in experiment.data]
    axes[0, 0].set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes[0, 0].set(yscale="log", ylabel="time (s)")
    axes[0, 0].legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1))
    yield "times", figure


def objective_curves(report: Report) -> Iterator[tuple[str, Any]]:
    """Draw the objective against iterations, a panel per data set, of the first repetition.

    ``options.curve_of`` names the one method to draw.
    """
    data, only = report.plan.experiment.data, report.plan.experiment.options.get("curve_of")
    figure, axes = _panels(1, len(data), (1.5 + 2.6 * len(data), 2.8))
    for ax, name in zip(axes[0], data, strict=True):
        shown = [(u, r) for u, r in report.results if (u.data, u.repetition) == (name, 0)]
        for unit, result in shown:
            if "curve" in result and only in (None, unit.method):
                steps = np.arange(1, len(result["curve"]) + 1)
                label = report.title_of("methods", unit.method)
                ax.plot(steps, result["curve"], marker="o", markersize=3, label=label)
        ax.set(xlabel="iteration", ylabel="objective", title=report.title_of("data", name))
    yield "objective", figure


PLOTS: Mapping[str, Plot] = {
    plot.__name__: plot
    for plot in (
        comparison,
        lines,
        curves,
        confusion,
        regions,
        hyperplanes,
        key_digits,
        reliability,
        alpha_curve,
        times,
        objective_curves,
    )
}


def _panels(n_rows: int, n_columns: int, size: tuple[float, float], **options: Any) -> Any:
    # A Figure without pyplot: no figure stays open, and no display is needed.
    figure = import_extra("matplotlib.figure", extra="plot").Figure(size, layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def _point(ax: Any, number: Any, place: float, colour: str, label: str) -> None:
    if number is None or number == TIMED_OUT:
        return
    spread = number[1] if len(number) > 1 else 0.0
    ax.errorbar(number[0], place, xerr=spread, fmt="o", ms=4, lw=1, color=colour, label=label)


def _first_results(report: Report) -> dict[str, dict[str, Any]]:
    """The result of each method in the first repetition."""
    found: dict[str, dict[str, Any]] = {}
    for unit, result in report.results:
        found.setdefault(unit.method, result)
    return found
