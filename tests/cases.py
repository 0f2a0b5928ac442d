"""Many cases of one law: all in one test, or the few that bring every two levels together."""

import contextlib
import functools
import inspect
import itertools

import pytest

from optional import absent_package


def each(names, cases):
    """Run a test on every case, as ``parametrize`` does, but as one test that names the case.

    Cases share fixtures, the state of ``rng`` too; what a case patches is undone after it. A case
    that needs an absent package does not keep the others from running.
    """
    names = [names] if isinstance(names, str) else names
    cases = [dict(zip(names, [case] if len(names) == 1 else case, strict=True)) for case in cases]

    def decorate(test):
        @functools.wraps(test)
        def run(*args, **fixtures):
            if not cases:
                pytest.skip("there are no cases here")
            skipped = None
            for case in cases:
                try:
                    with contextlib.ExitStack() as stack:
                        if "monkeypatch" in fixtures:
                            patch = stack.enter_context(pytest.MonkeyPatch.context())
                            fixtures["monkeypatch"] = patch
                        test(*args, **fixtures, **case)
                except BaseException as error:  # also what pytest.fail raises
                    if not isinstance(error, pytest.skip.Exception) and not absent_package(error):
                        error.add_note(f"in the case {case}")
                        raise
                    skipped = error
            if skipped:
                raise skipped

        signature = inspect.signature(test)
        rest = [p for name, p in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=rest)
        return run

    return decorate


def covering(**levels):
    """Parametrise by few combinations in which any two levels of two parameters meet."""
    rows = list(itertools.product(*(range(len(each_level)) for each_level in levels.values())))
    pairs = [set(itertools.combinations(enumerate(row), min(2, len(row)))) for row in rows]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(range(len(rows)), key=lambda i: len(pairs[i] & missing))
        missing -= pairs[best]
        chosen.append(best)
    values = list(itertools.product(*levels.values()))
    return pytest.mark.parametrize(list(levels), [values[i] for i in sorted(chosen)])
