"""Bags as torch tensors."""

import importlib.util
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_recursion import subset_recursion

from bagwise import Bags
from bagwise.compute import arrays, jit, tensors
from bagwise.loops import segments
from bagwise.solvers.annotation import orlr_parts
from bagwise.solvers.annotation.orlr_parts import BagLabelSets
from checks import example
from engine_examples import DEVICE, with_label_sets


def test_tensors_come_back_as_they_went():
    torch = pytest.importorskip("torch")
    bags, _ = example(10)
    away = bags.to("cpu", dtype="float32")
    assert away.instances.dtype == torch.float32
    assert away.device == "cpu"
    assert "device=cpu" in repr(away)
    np.testing.assert_allclose(away.to("numpy").instances, bags.instances, rtol=1e-6)
    np.testing.assert_allclose(away[[3, 1]][1], bags[1], rtol=1e-6)
    away.instances[:] = 0  # torch has no read-only tensors: the array must not share memory
    assert bags.instances.any()


class PlainTorchPart(orlr_parts.TensorORLRPart):
    """The groups of a device, with the slow recursion in place of the kernel."""

    recursion = staticmethod(subset_recursion)


def test_orlr_on_tensors_hands_hard_bags_to_the_kernel(monkeypatch):
    pytest.importorskip("torch")
    bags, sets = with_label_sets()
    bag_sets = BagLabelSets(bags.offsets, sets.astype(np.int8), False, max_operations=300.0)
    assert len(np.unique(bag_sets.how)) == 2  # some bags are approximated
    theta = 100 * np.random.default_rng(0).normal(size=(5, 7))  # and some underflow
    arguments = bag_sets, np.linspace(1, 2, len(bags))
    expected = orlr_parts.ORLRPart(bags, *arguments).loss(theta)
    for table in (orlr_parts.TENSOR_TABLE, 200):  # all bags at once, and a few at a time
        monkeypatch.setattr(orlr_parts, "TENSOR_TABLE", table)
        part = PlainTorchPart(bags.to(DEVICE), *arguments)
        value, gradient = part.loss(theta)
        assert value == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(gradient, expected[1], atol=1e-10)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.1, 0.0), (0.1, 0.05)])
@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("unknown", [False, True])
def test_orlr_on_tensors_is_that_on_arrays(background, rates, codes, unknown, rng):
    pytest.importorskip("torch")
    n_labels, sizes = 14, rng.integers(1, 17, 30)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(offsets[-1], 4))
    sets = np.zeros((len(sizes), n_labels), np.int8)
    for i, size in enumerate(sizes):  # up to 14 labels: some sets are too large for the device
        sets[i, rng.permutation(n_labels)[: rng.integers(1, size + 1)]] = 1
    known = np.full(len(X), -1)
    if codes:
        known[offsets[:-1:2]] = sets[::2].argmax(axis=1)
    if unknown:
        sets[1::2][rng.random(sets[1::2].shape) < 0.2] = -1
    bag_sets = BagLabelSets(offsets, sets, background, instance_codes=known)
    arguments = bag_sets, rng.uniform(0.5, 2, len(sizes))
    theta = rng.normal(size=(n_labels + background, 5))
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
        bags = Bags(X.astype(dtype), offsets)
        here = orlr_parts.ORLRPart(bags, *arguments)
        there = PlainTorchPart(bags.to(DEVICE), *arguments)
        assert len(there.groups) == 4
        assert 0 < len(there.others) < 10
        (value, gradient), (other, found) = here.loss(theta, rates), there.loss(theta, rates)
        assert other == pytest.approx(value, rel=tolerance)
        np.testing.assert_allclose(found, gradient, atol=tolerance * np.abs(gradient).max())
        compiled = orlr_parts.TensorORLRPart(bags.to("cpu"), *arguments)
        assert not compiled.groups  # without kernels the compiled code has all bags
        value, gradient = compiled.loss(theta, rates)
        assert value == pytest.approx(other, rel=tolerance)
        np.testing.assert_allclose(found, gradient, atol=tolerance * np.abs(gradient).max())


def test_where_triton_fails_plain_torch_is_used(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(tensors, "_triton_works", cache(tensors._triton_works.__wrapped__))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    tensor = SimpleNamespace(is_cuda=True, device=torch.device("cpu"))

    class Broken:
        def __getitem__(self, grid):
            raise RuntimeError("no C compiler")

    monkeypatch.setattr(jit, "probe", Broken())
    with pytest.warns(UserWarning, match=r"Triton cannot compile.*no C compiler.*plain torch"):
        assert not tensors.has_kernels(tensor)
    assert not tensors.has_kernels(tensor)  # and warns once
    assert not tensors.has_kernels(torch.zeros(1))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 1000))
@settings(deadline=None, max_examples=15)
def test_reductions_on_tensors_are_those_on_arrays(sizes, seed):
    torch = pytest.importorskip("torch")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    values = np.random.default_rng(seed).integers(0, 4, (offsets[-1], 2)).astype(float)
    bag = torch.as_tensor(np.repeat(np.arange(len(sizes)), sizes))
    table = torch.as_tensor(values)
    first, _, row = segments.top2(values, offsets)
    largest = tensors.segment_max(table, bag, len(sizes))
    np.testing.assert_array_equal(largest, first)
    found = tensors.segment_argmax(table, largest, bag)
    np.testing.assert_array_equal(found, row + offsets[:-1, None])
    np.testing.assert_array_equal(
        arrays.weighted_sums(
            table, bag.numpy(), np.arange(len(values)), np.ones(len(values)), len(sizes)
        ),
        segments.sum(values, offsets),
    )
