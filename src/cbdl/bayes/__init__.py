"""One cohort of posteriors: priors, likelihoods, flat parameters, inference methods. Knows one likelihood at
a time.

The contract between the modules (m members, d draws, P parameters, Q noise parameters, B rows of a batch):

- `data.prepare(X, y, space=...)` gives a `rows.TrainingData`: everything checked and standardised, in memory
  (`rows.Data`) or fetched anew in every epoch (`stream.Stream`). `data.size` is N of the objective;
  `data.epoch(seed, epoch, batch_size)` gives `Batch(x, y, weight)`; `(weight * nll).sum()` averages to the mean NLL.
- `flat.Layout`: P, `view(theta (..., P)) -> {name: (..., *shape)}`, `flatten`, `fan_in`.
- `cohort.Cohort.of(priors, likelihood, data, seed=, s=, members=)`: `.members` (k, s, seed), `.layout`, `.prior`,
  `.forward`, `.initial (m, P)`, `.initial_noise (m, Q)`, `.initial_buffers {name: (m, *shape)}`,
  `.gradient(theta (m, d, P), noise, batch, buffers, weigh, step) -> nll (m, d), by_theta (m, d, P), by_noise (m, Q)`,
  `.mean_nll(theta, noise, buffers, data) -> (m, d)`, `.describe(theta, noise, buffers, x, targets)`.
- `cohort.prior` (`JointPrior`): `log_density(theta (m, ..., P)) -> (m, ...)`, `kl(mu, sigma, theta) -> (m,)`,
  `draw(seeds, d) -> (m, d, P)`, `location()`, `spread()` (m, P), `normal` -> (loc, scale) or None.
- `cohort.forward`: `forward(theta (m, d, P), x, buffers) -> out (m, d, B, *out)` (evaluation mode, no gradient). It
  alone decides between wide, vmap and loop.
- `compiled.Kernel.of(cohort, space)`: where small networks have loops, `add(place (m, P + Q), batch, factor, value
  (m,), slope (m, P + Q), patient=)` adds the batch's nll and its gradient; None where they have none.
- Likelihood: `log_density(out, y, noise, unit) -> (m, d, B)`, `describe(out, noise, loc, unit) -> {name: (m,
  d, B, ...)}`.
- Randomness: `_random.generator(device, *keys)`, `_random.NormalStream(seeds, d, P)(step) -> (m, d, P)`: pure
  functions of a member's seed and the step, so nothing random is saved and no split of the members matters.
- `train.train(trainee, data, plan, run, fingerprint, optimiser=None) -> Record`; a trainee has `variables (m,
  L)`, `buffers`, `gradient(batch, step, steps) -> loss (m,), gradient (m, L)`, `validate(data) -> (m,)`. An
  optimiser has `state {name: tensor}` and `step(variables, gradient, rate, step)` in place. Clipping, NaN
  members, early stopping, checkpoints, Ctrl-C and progress come with it.
- `methods.protocol`: a `Method` is a frozen dataclass with `fit(cohort, data, run)` and `from_state(cohort, state)`,
  each giving a `Posterior`: `sample(draws, seed, start) -> theta (m, d, P)`, `noise (m, Q)`, `buffers`, `state() ->
  {name: (m, ...)}`. Every tensor leads with the members, so that groups of members trained apart are joined by
  `torch.cat` along axis 0.

The promise about bits: a run that is stopped or killed and resumed, on the same machine with the same number of
threads, gives the same bits. Everything else (another split of the members, another engine, a model that was saved
and loaded, other rows in a batch) gives the same numbers to rounding.
"""
