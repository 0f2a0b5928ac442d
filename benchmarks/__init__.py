"""Speed as ratios measured in one run: to the unavoidable work, to the literal algorithm."""
