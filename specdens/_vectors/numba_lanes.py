"""SIMD vectors for numba: a type `Lanes` of several adjacent numbers, and the arithmetic on it.

Numba has no such type and does not vectorize loops over a few columns by itself. A value of type ``Lanes(scalar,
count)`` is an LLVM vector; LLVM maps it to registers of whatever width the processor has. A complex number takes two
adjacent lanes, real part first, as in memory.
"""

# mypy: ignore-errors
# Numba calls the code generators below with objects of its own, which have no type annotations.

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

_FLAGS = ("contract", "nsz")  # LLVM may fuse multiplication and addition, and ignore the sign of zero


class Lanes(types.Type):
    """A numba type: `count` adjacent numbers of the type `scalar`."""

    def __init__(self, scalar: types.Type, count: int) -> None:
        if scalar not in (types.float32, types.float64, types.complex64, types.complex128):
            raise TypeError(f"there are no lanes of {scalar}")
        self.scalar, self.count = scalar, count
        super().__init__(name=f"Lanes({scalar}, {count})")

    @property
    def is_complex(self) -> bool:
        return isinstance(self.scalar, types.Complex)

    @property
    def wide(self) -> Lanes:
        """The same number of lanes in double precision."""
        return Lanes(types.complex128 if self.is_complex else types.float64, self.count)

    @property
    def real(self) -> types.Float:
        """The real type of one lane."""
        return self.scalar.underlying_float if self.is_complex else self.scalar

    @property
    def llvm(self) -> ir.VectorType:
        lane = ir.DoubleType() if self.real.bitwidth == 64 else ir.FloatType()
        return ir.VectorType(lane, self.count * (2 if self.is_complex else 1))


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, lanes.llvm)


# -- memory ----------------------------------------------------------------------------------------------------------


def _pointer(context, builder, array_type, array, index, lanes):
    """Return the address of an array element as a pointer to `lanes`."""
    memory = context.make_array(array_type)(context, builder, array)
    return builder.bitcast(builder.gep(memory.data, [index]), lanes.llvm.as_pointer())


@intrinsic(prefer_literal=True)
def zeros(typing, array, count):
    """Return `count` zeros of the array's dtype; `count` must be a literal."""
    lanes = Lanes(array.dtype, count.literal_value)

    def generate(context, builder, signature, arguments):
        return ir.Constant(lanes.llvm, None)

    return lanes(array, count), generate


@intrinsic
def load(typing, array, index, like):
    """Return the elements of a flat array that start at `index`, in the type of `like`."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, array, *arguments[:2], like)
        return builder.load(pointer, align=like.real.bitwidth // 8)

    return like(array, index, like), generate


@intrinsic
def store(typing, array, index, lanes):
    """Write the lanes into a flat array, starting at `index`."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, array, *arguments[:2], lanes)
        builder.store(arguments[2], pointer, align=lanes.real.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, index, lanes), generate


@intrinsic
def take(typing, counter, count):
    """Add `count` to the first element of an int64 array and return its value before, as one atomic operation."""

    def generate(context, builder, signature, arguments):
        memory = context.make_array(counter)(context, builder, arguments[0])
        return builder.atomic_rmw("add", memory.data, arguments[1], "monotonic")

    return types.int64(counter, types.int64), generate


# -- arithmetic ------------------------------------------------------------------------------------------------------


@intrinsic
def broadcast(typing, number, like):
    """Return lanes that all hold the same number."""

    def generate(context, builder, signature, arguments):
        parts = [arguments[0]]
        if like.is_complex:
            value = context.make_complex(builder, number, arguments[0])
            parts = [value.real, value.imag]
        pair = ir.Constant(ir.VectorType(like.llvm.element, len(parts)), ir.Undefined)
        for place, part in enumerate(parts):
            pair = builder.insert_element(pair, part, cgutils.int32_t(place))
        return _shuffle(builder, pair, [lane % len(parts) for lane in range(like.llvm.count)])

    return like(number, like), generate


@intrinsic
def add(typing, x, y):
    """Return x + y."""

    def generate(context, builder, signature, arguments):
        return builder.fadd(*arguments)

    return x(x, y), generate


@intrinsic
def product(typing, a, x):
    """Return the elementwise product a x."""

    def generate(context, builder, signature, arguments):
        return _add_product(builder, None, *arguments, x)

    return x(a, x), generate


@intrinsic
def add_product(typing, y, a, x):
    """Return y + a x, elementwise."""

    def generate(context, builder, signature, arguments):
        return _add_product(builder, *arguments, x)

    return y(y, a, x), generate


@intrinsic
def conjugate(typing, x):
    """Return the complex conjugates."""

    def generate(context, builder, signature, arguments):
        return _signed(builder, arguments[0], odd=-1) if x.is_complex else arguments[0]

    return x(x), generate


@intrinsic
def widened(typing, x):
    """Return the numbers in double precision."""

    def generate(context, builder, signature, arguments):
        return builder.fpext(arguments[0], x.wide.llvm) if x.real.bitwidth == 32 else arguments[0]

    return x.wide(x), generate


def _add_product(builder, y, a, x, lanes):
    """Return y + a x, or a x if y is None."""
    if not lanes.is_complex:
        return _multiply_add(builder, y, a, x)
    places = range(lanes.llvm.count)
    real, imaginary = (_shuffle(builder, a, [place - place % 2 + part for place in places]) for part in (0, 1))
    rotated = _signed(builder, _shuffle(builder, x, [place ^ 1 for place in places]), even=-1)  # i x
    return _multiply_add(builder, _multiply_add(builder, y, real, x), imaginary, rotated)


def _multiply_add(builder, y, a, x):
    """Return y + a x of real lanes; one fused instruction where the processor has it."""
    ax = builder.fmul(a, x, flags=_FLAGS)
    return ax if y is None else builder.fadd(y, ax, flags=_FLAGS)


def _shuffle(builder, x, places):
    """Return a vector whose lane i is lane ``places[i]`` of x."""
    mask = ir.Constant(ir.VectorType(cgutils.int32_t, len(places)), places)
    return builder.shuffle_vector(x, ir.Constant(x.type, ir.Undefined), mask)


def _signed(builder, x, *, even=1, odd=1):
    """Return x with its even and odd lanes multiplied by a sign each."""
    return builder.fmul(x, ir.Constant(x.type, [float(odd if lane % 2 else even) for lane in range(x.type.count)]))
