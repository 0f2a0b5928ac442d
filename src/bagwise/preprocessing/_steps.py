"""Ready-made steps before a model: imputation, principal components, standardisation."""

from typing import Any

from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from bagwise.exceptions import InputError
from bagwise.preprocessing._bag_pipeline import BagPipeline
from bagwise.preprocessing._instance_pca import InstancePCA
from bagwise.preprocessing._instance_transformer import InstanceTransformer

CLIP = 10.0  # standard deviations: one outlier must not dominate all distances


def prepared(
    model: Any,
    *,
    scale: bool = True,
    sparse: bool = False,
    pca: int | str | None = None,
    impute: str | None = None,
) -> Any:
    """Put steps before a model that impute missing values, project and standardise instances.

    Parameters
    ----------
    model : estimator
        A model of bags.
    scale : bool, default=True
        Whether the features, and then the components, are standardised.
    sparse : bool, default=False
        Whether instances are sparse: they are then not centred, and `pca` is not available.
    pca : int, "auto" or None, default=None
        Number of principal components, see `InstancePCA`.
    impute : {"mean", "median"} or None, default=None
        Replacement of missing values; None refuses them.

    Returns
    -------
    estimator
        The model alone, or a `BagPipeline`; its steps are called "impute", "pca", "scale" and
        "model".
    """
    steps = instance_steps(scale=scale, sparse=sparse, pca=pca, impute=impute)
    return BagPipeline([*steps, ("model", model)]) if steps else model


def instance_steps(
    *, scale: bool, sparse: bool, pca: int | str | None = None, impute: str | None = None
) -> list[tuple[str, Any]]:
    """Make the steps of `prepared`."""
    if pca is not None and sparse:
        raise InputError(
            "pca= needs dense features, and these are sparse: leave it out, or store them dense."
        )
    steps: list[tuple[str, Any]] = []
    if impute is not None:  # a feature without any value becomes zero
        imputer = SimpleImputer(strategy=impute, keep_empty_features=True)
        steps.append(("impute", InstanceTransformer(imputer)))
    if pca is not None:
        steps.append(("pca", InstancePCA(pca, standardize=scale)))
    if scale:
        steps.append(("scale", instance_scaler(sparse=sparse)))
    return steps


def instance_scaler(*, sparse: bool) -> InstanceTransformer:
    """Make a transformer that standardises instances; sparse ones are not centred.

    Dense values are limited to 10 standard deviations from the mean.
    """
    scaler = StandardScaler(with_mean=not sparse)
    scaler.set_output(transform="default")  # arrays, whatever sklearn.set_config requests
    return InstanceTransformer(scaler, clip=None if sparse else CLIP)
