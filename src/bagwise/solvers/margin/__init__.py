"""Support vector machines over bags: pdMISVM, mi-SVM, MI-SVM, sMIL, and their subproblems."""
