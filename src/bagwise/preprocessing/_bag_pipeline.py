"""BagPipeline: a pipeline that also has the instance methods of its last step."""

from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._common.types import Array, Ints


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
    def score_instances(self, X: Any) -> Array:
        """Score the instances.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances,) or (n_instances, n_classes)
        """
        return self._final_estimator.score_instances(self._before_last(X))

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
