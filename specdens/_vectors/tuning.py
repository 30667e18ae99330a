"""Sizes of chunks and thresholds of all vector work, in one place.

They are read when they are used, so that tests set them here. Sizes are numbers of array elements where nothing else is
said. None changes a result beyond rounding.

================== ======= =============================================================================================
name               value   how it was chosen
================== ======= =============================================================================================
NUMPY_CHUNK        2¹³     the float64 scratch of a chunk (64 KiB) stays in the cache and below malloc's mmap threshold
SHORT_PART         2¹⁴     of one short column, updated at a time: its scratch is below 128 KiB, or just that
DEVICE_CHUNK       2²⁰     long enough to hide the cost of a kernel launch
BASIS_CHUNK        2¹⁸     a basis is read by matrix products, which pay only on larger pieces: a piece to be converted
BASIS_ROWS         2¹⁷     the same, of a result that is added or stored piece by piece
MIN_THREADED       2¹⁶     entries from which NumPy is faster in larger parts, and in threads where there are several
MIN_COMPILED       2¹⁸     entries from which kernels pay: they are faster on fewer, too, but take half a second to load
THREADED_PART      2¹⁷     large enough for threads to pay, too small for BLAS to start threads of its own
DOT_ROW            2¹³     one inner product within BLAS, or sums that are added at a time
COMPILED_CHUNK     2¹⁴     stays in the cache, and its sum is accurate
COMPILED_ROWS      2⁸      at least so many rows in a chunk: the sums of wide blocks stay small beside them
COMPILED_SHARE     2¹⁸     elements of vectors and products per thread: less is done before a thread has woken up
COMPILED_TAKE      2⁷      chunks that a thread takes at a time: neighbours read the same memory if a matrix is banded
COMPILED_TURNS     8       times a thread takes chunks, at least: one that is held up leaves its work to the others
DENSE_TILE         512     rows and columns that are compared at a time to see whether a matrix is symmetric
MIN_DENSE          1024    rows below which the order of a dense product does not matter
================== ======= =============================================================================================

``benchmarks/vector_work.py`` and ``benchmarks/lanczos_sparse.py`` measure the work on vectors, ``lanczos_dense.py`` the
dense products: run them before and after a change here.
"""

from __future__ import annotations

NUMPY_CHUNK = 2**13
SHORT_PART = 2**14
DEVICE_CHUNK = 2**20
BASIS_CHUNK = 2**18
BASIS_ROWS = 2**17
MIN_THREADED = 2**16
MIN_COMPILED = 2**18
THREADED_PART = 2**17
DOT_ROW = 2**13
COMPILED_CHUNK = 2**14
COMPILED_ROWS = 2**8
COMPILED_SHARE = 2**18
COMPILED_TAKE = 2**7
COMPILED_TURNS = 8
DENSE_TILE = 512
MIN_DENSE = 1024
