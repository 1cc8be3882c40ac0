"""Weighted l1 regression on the anchors, for a whole set of descriptors at once, solved to its optimum.

    min_g  1/2 |x - V'g|^2 + sum_j c_j |g_j|     s.t. 1'g = 1 (FAemb), or without the constraint (TLCC)

All descriptors share the Hessian G = V V', so one factorisation serves every step of the alternating direction
method of multipliers (ADMM). It finds which entries are zero and the signs of the others; given these, the optimum is
the solution of one small linear system ("polishing"). Descriptors that do not meet the Karush-Kuhn-Tucker (KKT)
conditions get more steps. The problem is convex: a point that meets the conditions is the optimum.

N descriptors, n anchors; q = X V' (N x n), c (N x n), everything in float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float

from faemb.arrays import Array, float64, namespace

_FIRST_STEPS = 20
_ROUNDS = 12
_RELAXATION = 1.6
_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class WeightedL1:
    anchors: Float[Array, "n d"]
    sum_to_one: bool

    def solve(self, x: Float[Array, "N d"], costs: Float[Array, "N n"]) -> Float[Array, "N n"]:
        """The optimal coefficients, in float64."""
        xp = namespace(x)
        gram, q, costs = self._problem(x, costs)
        solution = xp.zeros_like(q) + (1 / q.shape[1] if self.sum_to_one else 0)
        if q.shape[0] == 0:
            return solution
        best = xp.full_like(q[:, 0], xp.inf)
        accepted = _TOLERANCE * max(1.0, float(xp.linalg.trace(gram)), float(xp.max(costs)))
        todo = xp.arange(q.shape[0], device=q.device)
        # The first attempt runs in the precision of x; later ones, for the few descriptors left, run in float64.
        split = xp.astype(solution, x.dtype)
        for attempt in range(_ROUNDS):
            target, weight = xp.take(q, todo, axis=0), xp.take(costs, todo, axis=0)
            split, sparse = self._admm(gram, target, weight, split, attempt)
            for candidate in self._candidates(gram, target, weight, sparse, attempt):
                residual = kkt_residual(gram, target, weight, candidate, self.sum_to_one)
                better = xp.nonzero(residual < xp.take(best, todo))[0]
                improved = xp.take(todo, better)
                solution[improved] = xp.take(candidate, better, axis=0)
                best[improved] = xp.take(residual, better)
                left = xp.nonzero(xp.take(best, todo) > accepted)[0]
                if left.shape[0] == 0:
                    return solution
            split, todo = float64(xp.take(split, left, axis=0)), xp.take(todo, left)
        return solution

    def kkt(self, x: Float[Array, "N d"], costs: Float[Array, "N n"], g: Float[Array, "N n"]) -> Float[Array, " N"]:
        """Violation of the KKT conditions by each row of g."""
        gram, q, costs = self._problem(x, costs)
        return kkt_residual(gram, q, costs, float64(g), self.sum_to_one)

    def _problem(self, x: Array, costs: Array) -> tuple[Array, Array, Array]:
        anchors = float64(self.anchors)
        return anchors @ anchors.T, float64(x) @ anchors.T, float64(costs)

    def _admm(
        self, gram: Array, q: Array, costs: Array, split: Array, attempt: int
    ) -> tuple[Float[Array, "N n"], Float[Array, "N n"]]:
        """Douglas-Rachford form of over-relaxed ADMM; returns its state and the sparse iterate.

        The state t is the sum of the sparse iterate z and the scaled dual u = clip(t, +-c/rho). With the smooth
        half-step g = (z - u) R + s a step is t := w (g + u) + (1 - w) t, w the relaxation; z - u = t - 2u collects it
        into one product.
        """
        xp = namespace(q)
        dtype = split.dtype
        rho, resolvent, offset = self._resolvent(gram, q, costs, attempt)
        half = 0.5 * _RELAXATION
        step = _RELAXATION * resolvent - half * xp.eye(q.shape[1], dtype=q.dtype, device=q.device)
        step, offset = xp.astype(step, dtype), xp.astype(_RELAXATION * offset, dtype)
        upper = xp.astype(costs / rho, dtype)
        lower = -upper
        for _ in range(_FIRST_STEPS << attempt):
            reflected = split - 2 * xp.maximum(xp.minimum(split, upper), lower)
            split = reflected @ step + offset + (1 - half) * split
        return split, float64(split - xp.maximum(xp.minimum(split, upper), lower))

    def _resolvent(self, gram: Array, q: Array, costs: Array, attempt: int) -> tuple[float, Array, Array]:
        """rho, R and s such that the smooth half-step from z - u is (z - u) R + s."""
        xp = namespace(q)
        n = q.shape[1]
        rho = _step_size(float(xp.linalg.trace(gram)) / n, float(xp.mean(costs)), attempt)
        inverse = xp.linalg.inv(gram + rho * xp.eye(n, dtype=q.dtype, device=q.device))
        if not self.sum_to_one:
            return rho, rho * inverse, q @ inverse
        ones = xp.sum(inverse, axis=1)
        total = xp.sum(ones)
        inverse = inverse - ones[:, None] * ones / total
        return rho, rho * inverse, q @ inverse + ones / total

    def _candidates(self, gram: Array, q: Array, costs: Array, sparse: Array, attempt: int) -> Iterator[Array]:
        """The optimum on ADMM's support; in later attempts also on its largest entries only, and ADMM's own iterate.

        With fewer dimensions than anchors, at most as many entries as dimensions are determined (and one more by the
        constraint).
        """
        n = q.shape[1]
        yield self._polish(gram, q, costs, sparse, n)
        if attempt > 0:
            determined = int(namespace(q).linalg.matrix_rank(gram)) + self.sum_to_one
            yield self._polish(gram, q, costs, sparse, min(n, determined))
            yield sparse

    def _polish(self, gram: Array, q: Array, costs: Array, sparse: Array, most: int) -> Float[Array, "N n"]:
        """The optimum among vectors with these signs, on the `most` largest entries; in groups of similar size."""
        xp = namespace(q)
        sizes = xp.clip(xp.sum(xp.astype(sparse != 0, xp.int64), axis=1), max=most)
        order = xp.argsort(-xp.abs(sparse), axis=1, stable=True)
        out, smaller = xp.zeros_like(q), 0
        while smaller < most:
            size = min(max(2, 4 * smaller), most)
            group = xp.nonzero((sizes > smaller) & (sizes <= size))[0]
            if group.shape[0]:
                columns = xp.take(order, group, axis=0)[:, :size]
                rows = [xp.take(part, group, axis=0) for part in (q, costs, sparse)]
                out[group] = self._solve_on(gram, columns, *rows)
            smaller = size
        return out

    def _solve_on(self, gram: Array, columns: Array, q: Array, costs: Array, sparse: Array) -> Float[Array, "N n"]:
        """Stationary point on the support, a subset of `columns`: one small symmetric system per descriptor."""
        xp = namespace(q)
        sparse = xp.take_along_axis(sparse, columns, axis=1)
        on = sparse != 0
        both = on[:, :, None] & on[:, None, :]
        n, size = gram.shape[0], columns.shape[1]
        flat = xp.reshape(columns[:, :, None] * n + columns[:, None, :], (-1,))
        block = xp.reshape(xp.take(xp.reshape(gram, (-1,)), flat), tuple(both.shape))
        off = xp.astype(~on, q.dtype)
        identity = xp.eye(size, dtype=q.dtype, device=q.device)
        matrix = xp.where(both, block, xp.zeros_like(block)) + off[:, :, None] * identity
        # A support of linearly dependent anchors has no unique optimum; the ridge picks one, at rounding level.
        matrix = matrix + 1e-12 * max(float(xp.linalg.trace(gram)), float(xp.max(costs))) * identity
        pull = xp.take_along_axis(q, columns, axis=1) - xp.take_along_axis(costs, columns, axis=1) * xp.sign(sparse)
        right = xp.where(on, pull, xp.zeros_like(pull))[..., None]
        if self.sum_to_one:
            matrix, right = _bordered(matrix, right, xp.astype(on, q.dtype))
        answer = xp.linalg.solve(matrix, right)[:, :size, 0]
        answer = xp.where(on & (answer * sparse > 0), answer, xp.zeros_like(answer))
        out = xp.zeros_like(q)
        out[xp.arange(q.shape[0], device=q.device)[:, None], columns] = answer
        return out


def _step_size(curvature: float, cost: float, attempt: int) -> float:
    """rho of an attempt. ADMM converges for every rho, but fast only for the right one, which is not known beforehand.

    The first attempt uses the larger of curvature and cost, which solves nearly all descriptors; later ones try
    multiples of the mean cost, which is far below the curvature if there are more anchors than dimensions.
    """
    factor = (None, 1.0, 0.1, 10.0)[attempt % 4]
    return max(curvature if factor is None else 1e-6 * curvature, cost * (factor or 1.0), 1e-12)


def kkt_residual(gram: Array, q: Array, costs: Array, g: Array, sum_to_one: bool) -> Float[Array, " N"]:
    """Largest violation of the KKT conditions, per descriptor.

    They are: gradient + multiplier = -c sign(g) where g is not zero, its absolute value at most c elsewhere; 1'g = 1.
    """
    xp = namespace(q)
    gradient = g @ gram - q
    on = g != 0
    stationary = gradient + costs * xp.sign(g)
    violation = xp.zeros_like(q[:, 0])
    if sum_to_one:
        count = xp.sum(xp.astype(on, q.dtype), axis=1)
        total = xp.sum(xp.where(on, stationary, xp.zeros_like(g)), axis=1)
        multiplier = -total / xp.clip(count, min=1)
        stationary, gradient = stationary + multiplier[:, None], gradient + multiplier[:, None]
        violation = xp.abs(xp.sum(g, axis=1) - 1)
    violations = xp.where(on, xp.abs(stationary), xp.clip(xp.abs(gradient) - costs, min=0))
    return xp.maximum(violation, xp.max(violations, axis=1))


def _bordered(matrix: Array, right: Array, on: Array) -> tuple[Array, Array]:
    """The system with the row and the column of the sum-to-one constraint."""
    xp = namespace(matrix)
    top = xp.concat([matrix, on[:, :, None]], axis=2)
    bottom = xp.concat([on[:, None, :], xp.zeros_like(on[:, None, :1])], axis=2)
    return xp.concat([top, bottom], axis=1), xp.concat([right, xp.ones_like(right[:, :1])], axis=1)
