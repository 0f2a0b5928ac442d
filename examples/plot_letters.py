"""
Letters: read a poem from its words' letters
============================================

Take the words of *Jabberwocky*, shuffle nothing, but hide what each letter is: of a word we know
only which letters are in it, not where. The printed letters themselves are 16 numbers each (box,
ink, edges). Can the poem be read?
"""

# %%
# A word is a bag, a letter an instance, and the label set of the word is the set of its letters.
from bagwise.datasets import load_letter_carroll

data = load_letter_carroll(random_state=0)
print(data.bags)
for word in range(3):
    letters = "".join(data.classes[data.label_sets[word] == 1])
    print(f"{data.bags.sizes[word]} letters out of {{{letters}}}: {data.bags.ids[word]}")

# %%
# Before any learning, one could deal the letters of each word out at random. ORed logistic
# regression learns one direction per letter from all words at once: a letter that is in two words
# must look alike in both.
import numpy as np
from sklearn.preprocessing import StandardScaler

from bagwise.annotation import ORedLogisticRegression
from bagwise.preprocessing import InstanceTransformer

bags = InstanceTransformer(StandardScaler()).fit_transform(data.bags)
model = ORedLogisticRegression().fit(bags, data.label_sets)
named = model.annotate(bags, data.label_sets)
print(f"{np.mean(named == data.instance_labels):.2f} of the letters are named rightly")

# %%
# The poem as the model reads it (capitals where it is wrong):
spelled = [
    "".join(
        letter.lower() if ok else letter
        for letter, ok in zip(data.classes[row], row == true, strict=True)
    )
    for row, true in zip(bags.split(named), bags.split(data.instance_labels), strict=True)
]
for first in (0, 6, 12, 18):
    print(" ".join(spelled[first : first + 6]))

# %%
# How sure is it? Here are the letters it doubts most. The bars add up to one, and letters that are
# not in the word have no share at all: that is what the label set is worth.
from bagwise.inspection import PosteriorDisplay

PosteriorDisplay.from_estimator(model, bags, data.label_sets, classes=data.classes)
