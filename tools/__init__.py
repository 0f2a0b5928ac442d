"""Programs for those who work on bagwise: the counter, the net, kinds of processors, releases."""
