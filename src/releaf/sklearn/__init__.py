"""The learners as scikit-learn estimators: classifiers, and a policy learnt from a log.

>>> from sklearn.datasets import load_iris
>>> from releaf.sklearn import AdaptiveReleafClassifier
>>> X, y = load_iris(return_X_y=True)
>>> AdaptiveReleafClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
True
"""

try:
    import sklearn  # noqa: F401 - the package of that name, not this one
except ImportError as error:
    raise ImportError('releaf.sklearn needs scikit-learn: pip install "releaf[sklearn]"') from error

from releaf.sklearn.adaptive import AdaptiveReleafClassifier
from releaf.sklearn.bandit import BanditPolicy
from releaf.sklearn.releaf import ReleafClassifier

__all__ = ["AdaptiveReleafClassifier", "BanditPolicy", "ReleafClassifier"]
