"""Bad input: what is damaged, how, and what may come of it. `benchmarks.fuzzing` tries it by the hundred thousand."""
