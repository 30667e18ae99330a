"""Numbers that fields ask of a spectrum, each one line on `trace`: determinants, norms, ranks, entropies."""

from __future__ import annotations

import numpy as np

from specdens._distributions.cdf import Floats
from specdens._measure.estimate import Estimate
from specdens._measure.function_readings import FunctionReadings
from specdens._validate import as_positive, named_as


@named_as("Measure")
class Summaries(FunctionReadings):
    """The part of `Measure` that sums a spectrum up in one number."""

    def logdet(self, *, shift: float = 0.0) -> Estimate:
        """Return the log-determinant of A + shift·I.

        Parameters
        ----------
        shift : float, default 0
            What is added to every eigenvalue, for instance a ridge.

        Returns
        -------
        Estimate
            The log-determinant and its standard error.

        Raises
        ------
        ValueError
            If an eigenvalue of A + shift·I is not positive, as far as the run knows.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> eigenvalues = np.linspace(1, 3, 1000)
        >>> value, stderr = sd.fast_lanczos(np.diag(eigenvalues), num_probes=8).logdet()
        >>> bool(abs(value - np.log(eigenvalues).sum()) < 3 * stderr)
        True
        """
        lowest = float(self.whole_cdf.quantile(0.0))
        if lowest + shift <= 0:
            raise ValueError(
                f"`shift` must make all eigenvalues positive; the lowest is {lowest:.6g} and the shift {shift:g}. "
                "For the logarithm of |det A|: measure.trace(lambda x: np.log(np.abs(x)))."
            )
        return self.trace(lambda x: np.log(np.maximum(x + shift, np.finfo(np.float64).tiny)))

    def schatten(self, p: float) -> Estimate:
        """Return the Schatten norm (Σ |λ|^p)^(1/p).

        Parameters
        ----------
        p : float
            The order: 1 is the nuclear norm, 2 the Frobenius norm.

        Returns
        -------
        Estimate
            The norm and its standard error.

        Raises
        ------
        ValueError
            If `p` is not positive.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> value, stderr = sd.SpectralMeasure.from_eigenvalues([3.0, -4.0]).schatten(2)
        >>> round(value, 6)
        5.0
        """
        p = as_positive("p", p)
        total, stderr = self.trace(lambda x: np.abs(x) ** p)
        if total <= 0:
            return Estimate(0.0, float(stderr) ** (1 / p))
        norm = total ** (1 / p)
        return Estimate(norm, norm / p * stderr / total)

    def estrada(self) -> Estimate:
        """Return the Estrada index Σ exp(λ), for instance of an adjacency matrix.

        Returns
        -------
        Estimate
            The index and its standard error.
        """
        return self.trace(np.exp)

    def heat_trace(self, t: float) -> Estimate:
        """Return the heat trace Σ exp(−tλ), for instance of a Laplacian.

        Parameters
        ----------
        t : float
            The diffusion time.

        Returns
        -------
        Estimate
            The trace and its standard error.
        """
        return self.trace(lambda x: np.exp(-t * x))

    def entropy(self) -> Estimate:
        """Return the von Neumann entropy −Σ p log p of the shares p = |λ| / Σ |λ|, in nats.

        Returns
        -------
        Estimate
            The entropy and its standard error, to first order in the errors of the sums.

        Raises
        ------
        ValueError
            If all eigenvalues are zero.

        Examples
        --------
        >>> import numpy as np, specdens as sd
        >>> value, stderr = sd.fast_lanczos(np.eye(50)).entropy()
        >>> round(float(np.exp(value)), 6)
        50.0
        """
        total = self.trace(np.abs).value
        if not total > 0:
            raise ValueError("the entropy must have an eigenvalue that is not zero; got none")
        weighted = self.trace(lambda x: _x_log_x(np.abs(x) / total) * total).value
        # the shares are |λ|/T: −Σ p log p = −W/T with W = Σ |λ| log(|λ|/T); its differential has this density
        mean = weighted / total
        influence = self.trace(lambda x: -_x_log_x(np.abs(x) / total) + (1.0 + mean) * np.abs(x) / total)
        return Estimate(-mean, influence.stderr)

    def effective_rank(self) -> Estimate:
        """Return the effective rank exp(entropy) [Roy and Vetterli 2007].

        Returns
        -------
        Estimate
            The rank and its standard error; n for a multiple of the identity, 1 for one eigenvalue alone.

        Raises
        ------
        ValueError
            If all eigenvalues are zero.
        """
        value, stderr = self.entropy()
        rank = float(np.exp(value))
        return Estimate(rank, rank * stderr)

    def condition_number(self) -> Estimate:
        """Return the condition number max |λ| / min |λ|.

        Returns
        -------
        Estimate
            The ratio of the outermost and the innermost eigenvalue that the run has found, with the error that their
            residuals leave.

        Notes
        -----
        Ritz values lie within the spectrum: the condition number is at least the value less its error. Small
        eigenvalues of an indefinite operator lie inside the spectrum, where Lanczos converges last.
        """
        x, r = self._nodes_and_residuals()
        largest, smallest = int(np.argmax(np.abs(x))), int(np.argmin(np.abs(x)))
        if x[smallest] == 0:
            return Estimate(float("inf"), 0.0)
        value = float(abs(x[largest] / x[smallest]))
        relative = np.hypot(r[largest] / x[largest], r[smallest] / x[smallest])
        return Estimate(value, value * float(relative))

    def _nodes_and_residuals(self) -> tuple[Floats, Floats]:
        """Return all nodes that are not rounding, with the known atoms."""
        rules, known = self.rules, self.known_atoms.positions
        keep = [rule.weights > 1e-14 for rule in rules]
        x = np.concatenate([known, *(rule.nodes[k] for rule, k in zip(rules, keep, strict=True))])
        r = np.concatenate([np.zeros(known.size), *(rule.residuals[k] for rule, k in zip(rules, keep, strict=True))])
        return x, r


def _x_log_x(x: Floats) -> Floats:
    return x * np.log(np.maximum(x, np.finfo(np.float64).tiny))
