"""
Digits: find the nine
=====================

A bag holds some ten handwritten digits, and its label says whether a nine is among them. Which
digit is the nine, nobody says. A model that learned the bags has to know what a nine looks like:
let us see whether it does.
"""

# %%
# The bags are drawn from the digits of scikit-learn, 8 x 8 pixels each; half of them hold a nine.
from bagwise.datasets import make_digit_bags

data = make_digit_bags(n_bags=400, target=9, random_state=0)
train, test = data.bags[:300], data.bags[300:]
y_train, y_test = data.y[:300], data.y[300:]
print(train)

# %%
# The plain way gives every digit the label of its bag, so nine digits in ten of a positive bag are
# called what they are not. ``BagMarginSVM`` (MI-SVM) picks one digit of each positive bag instead,
# the best so far, learns from those, and picks again. Pixels run from 0 to 16, hence the small C.
from bagwise.classification import BagMarginSVM, SingleInstanceClassifier

plain = SingleInstanceClassifier().fit(train, y_train)
model = BagMarginSVM(C=0.01).fit(train, y_train)
for name, fitted in (("single instances", plain), ("MI-SVM", model)):
    print(f"{name:17} {fitted.score(test, y_test):.2f} of the new bags right")

# %%
# In the new bags with a nine, is the digit that decided a nine? (Ten guesses would hit one.)
import numpy as np

with_nine = test[y_test == 1]
digits = [inside for inside, y in zip(data.bags.split(data.digits)[300:], y_test, strict=True) if y]
keys = model.key_instances(with_nine, label=1)
hits = [inside[key] == 9 for inside, key in zip(digits, keys, strict=True)]
print(f"the key instance is a nine in {np.mean(hits):.2f} of these bags")

# %%
# Eight of these bags, the digit that decided framed.
from bagwise.inspection import KeyInstanceDisplay

KeyInstanceDisplay.from_estimator(model, with_nine, image_shape=(8, 8), label=1, max_bags=8)
