"""Pipelines of bags, and the ready-made steps before a model."""

from typing import Any

from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.exceptions import InputError
from bagwise.preprocessing._instance_pca import InstancePCA
from bagwise.preprocessing._instance_transformer import InstanceTransformer


def _last_step_has(name: str) -> Any:
    return available_if(lambda pipeline: hasattr(pipeline._final_estimator, name))


class BagPipeline(Pipeline):
    """A scikit-learn pipeline with the instance methods of its last step.

    ``pipeline.key_instances(bags)`` transforms the bags by all steps but the last and calls
    ``key_instances`` of the last step; likewise for the other methods. A method is available if the
    last step has it. Otherwise it is scikit-learn's `Pipeline`. Use `make_bag_pipeline` to name the
    steps automatically.

    Parameters
    ----------
    steps : list of (name, estimator)
        Transformers of bags, and a final estimator.
    transform_input : list of str, default=None
        Metadata that the transformers transform too.
    memory : str or object with the joblib.Memory interface, default=None
        Where fitted transformers are cached.
    verbose : bool, default=False
        Whether to print the time of each step.

    See Also
    --------
    make_bag_pipeline : Names the steps by their classes.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> scale = InstanceTransformer(StandardScaler())
    >>> pipeline = make_bag_pipeline(scale, SingleInstanceClassifier())
    >>> pipeline.fit(bags, [0, 0, 1, 1]).key_instances([[[0.1], [3.0]]])
    array([1])
    """

    @_last_step_has("key_instances")
    def key_instances(self, X: Any, label: Any = None) -> Ints:
        """Find the instance of each bag with the highest score for a class.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label : object, default=None
            The class; by default as in the last step. Regressors have no classes.

        Returns
        -------
        ndarray of shape (n_bags,)
            Rows inside the bags, 0-based.
        """
        chosen = {} if label is None else {"label": label}  # regressors have no classes
        return self._final_estimator.key_instances(self._before_last(X), **chosen)

    @_last_step_has("score_instances")
    def score_instances(self, X: Any, label: Any = None) -> Array:
        """Score the instances.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label : object, default=None
            The class of which the scores speak, as for the last step.

        Returns
        -------
        ndarray of shape (n_instances,) or (n_instances, n_classes)
        """
        chosen = {} if label is None else {"label": label}  # regressors have no classes
        return self._final_estimator.score_instances(self._before_last(X), **chosen)

    @_last_step_has("predict_instances")
    def predict_instances(self, X: Any, **params: Any) -> Array:
        """Predict a label for each instance.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        **params : object
            Further arguments of the method of the last step.

        Returns
        -------
        ndarray of shape (n_instances,)
        """
        return self._final_estimator.predict_instances(self._before_last(X), **params)

    @_last_step_has("predict_proba_instances")
    def predict_proba_instances(self, X: Any) -> Array:
        """Estimate the probability of each class for each instance.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances, n_classes)
        """
        return self._final_estimator.predict_proba_instances(self._before_last(X))

    @_last_step_has("predict_set")
    def predict_set(self, X: Any, coverage: float = 0.9, **params: Any) -> Bools:
        """Predict a set of classes for each bag that contains its class with a given probability.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        coverage : float, default=0.9
            The share of new bags whose class is in their set.
        **params : object
            Further arguments of the method of the last step.

        Returns
        -------
        ndarray of bool of shape (n_bags, n_classes)
        """
        return self._final_estimator.predict_set(self._before_last(X), coverage, **params)

    @_last_step_has("predict_interval")
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Predict an interval for each bag that contains its number with a given probability.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        coverage : float, default=0.9
            The share of new bags whose number is in their interval.

        Returns
        -------
        ndarray of shape (n_bags, 2), or (n_bags, n_targets, 2) of several targets
        """
        return self._final_estimator.predict_interval(self._before_last(X), coverage)

    @_last_step_has("predict_survival_function")
    def predict_survival_function(self, X: Any, **params: Any) -> Array:
        """Probability that the event of a bag has not happened by a time.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        **params : object
            Further arguments of the method of the last step.

        Returns
        -------
        ndarray of shape (n_bags,)
            Functions of time.
        """
        return self._final_estimator.predict_survival_function(self._before_last(X), **params)

    @_last_step_has("annotate")
    def annotate(self, X: Any, label_sets: Any, **params: Any) -> Array:
        """Label each instance, given the label set of its bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label_sets : list of set or ndarray of shape (n_bags, n_classes)
            The labels of each bag.
        **params : object
            Further arguments of the method of the last step.

        Returns
        -------
        ndarray of shape (n_instances,)
        """
        return self._final_estimator.annotate(self._before_last(X), label_sets, **params)

    @_last_step_has("annotate_proba")
    def annotate_proba(self, X: Any, label_sets: Any, **params: Any) -> Array:
        """Estimate class probabilities of each instance, given the label set of its bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label_sets : list of set or ndarray of shape (n_bags, n_classes)
            The labels of each bag.
        **params : object
            Further arguments of the method of the last step.

        Returns
        -------
        ndarray of shape (n_instances, n_classes)
        """
        return self._final_estimator.annotate_proba(self._before_last(X), label_sets, **params)

    def _before_last(self, X: Any) -> Any:
        check_is_fitted(self)
        return self[:-1].transform(X) if len(self) > 1 else X


def make_bag_pipeline(
    *steps: Any, memory: Any = None, transform_input: list[str] | None = None, verbose: bool = False
) -> BagPipeline:
    """Make a `BagPipeline`; the steps are named by their classes.

    Parameters
    ----------
    *steps : estimator
        Transformers of bags, and a final estimator.
    memory : str or object with the joblib.Memory interface, default=None
        Where fitted transformers are cached.
    transform_input : list of str, default=None
        Metadata that the transformers transform too.
    verbose : bool, default=False
        Whether to print the time of each step.

    Returns
    -------
    BagPipeline

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise.classification import SetKernelSVM
    >>> from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
    >>> list(make_bag_pipeline(InstanceTransformer(StandardScaler()), SetKernelSVM()).named_steps)
    ['instancetransformer', 'setkernelsvm']
    """
    named = make_pipeline(*steps).steps
    return BagPipeline(named, memory=memory, transform_input=transform_input, verbose=verbose)


# Ready-made steps before a model: imputation, principal components, standardisation

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
